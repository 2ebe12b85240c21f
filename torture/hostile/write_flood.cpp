// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Many QPs have large WRITEs to execute: one turn of each of them moves half a gigabyte in total.
#include <vector>

#include "torture/hostile/neighbours.h"
#include "torture/hostile/queues.h"

namespace vrdma::torture::hostile {
namespace {

constexpr std::uint32_t queue_pairs = 2048;
constexpr std::uint32_t depth = 8;
constexpr std::uint32_t message = 256 << 10;
constexpr std::size_t region_size = std::size_t{2} * message;

} // namespace

void write_flood(const Seat& seat, Pace& pace) {
    const Device device{seat.device, seat.gid_index};
    const Pd pd = make_pd(device);
    const Region region{pd.get(), region_size};
    const Cq cq = make_cq(device, queue_pairs);
    ibv_sge piece = region.piece(0, message);
    ibv_send_wr wr = write_request(piece, region, message);

    // The completion of a batch's last request says that there is room for another batch.
    const auto fill = [&](ibv_qp* qp, std::uint64_t number) {
        wr.wr_id = number;
        for (std::uint32_t i = 0; i < depth; ++i) {
            wr.send_flags = i + 1 == depth ? IBV_SEND_SIGNALED : 0;
            require(post(qp, wr), "a send queue has no room");
        }
    };
    std::vector<Qp> qps;
    for (std::uint32_t i = 0; i < queue_pairs; ++i) {
        qps.push_back(connected_to_itself(device, pd.get(), cq.get(), depth));
    }
    for (std::uint32_t i = 0; i < queue_pairs; ++i) {
        fill(qps[i].get(), i);
    }
    while (true) {
        pace.rest();
        drain(cq.get(), [&](const ibv_wc& done) {
            require(done.status == IBV_WC_SUCCESS, ::ibv_wc_status_str(done.status));
            fill(qps[done.wr_id].get(), done.wr_id);
        });
    }
}

} // namespace vrdma::torture::hostile
