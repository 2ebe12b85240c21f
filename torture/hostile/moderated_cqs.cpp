// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Armed CQs with one CQE each, whose event is deferred until there are 65535 CQEs. The device has
// to keep track of all of them. The CQEs come from requests to QPs in ERR.
#include <algorithm>
#include <vector>

#include "torture/hostile/neighbours.h"
#include "torture/hostile/queues.h"

namespace vrdma::torture::hostile {
namespace {

constexpr int queues = 8192;
constexpr unsigned renewed_at_once = 64;

void put_off_events(ibv_cq* cq) {
    ibv_modify_cq_attr attr{};
    attr.attr_mask = IBV_CQ_ATTR_MODERATE;
    attr.moderate = {.cq_count = 65535, .cq_period = 0};
    check(::ibv_modify_cq(cq, &attr), "ibv_modify_cq");
}

// A QP in ERR and its CQs.
class Couple {
  public:
    Couple(const Device& device, ibv_pd* pd, ibv_comp_channel* channel)
        : send_cq_{make_cq(device, 1, channel)},
          recv_cq_{make_cq(device, 1, channel)},
          qp_{make_qp(pd, send_cq_.get(), recv_cq_.get(), 1)} {
        put_off_events(send_cq_.get());
        put_off_events(recv_cq_.get());
        initialize(device, qp_.get());
        to_state(qp_.get(), IBV_QPS_ERR);
    }

    // Adds a CQE to each CQ after arming it. This is repeated, because another guest's verb may
    // have caused all deferred events to be delivered.
    void complete_one_each_way() const {
        for (ibv_cq* const cq : {send_cq_.get(), recv_cq_.get()}) {
            drain(cq, [](const ibv_wc&) {});
            check(::ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
        }
        ibv_send_wr send{};
        ibv_recv_wr receive{};
        ibv_recv_wr* bad = nullptr;
        post(qp_.get(), send);
        ::ibv_post_recv(qp_.get(), &receive, &bad);
    }

  private:
    Cq send_cq_;
    Cq recv_cq_;
    Qp qp_;
};

} // namespace

void moderated_cqs(const Seat& seat, Pace& pace) {
    const Device device{seat.device, seat.gid_index};
    const Pd pd = make_pd(device);
    const Channel channel{
        made(::ibv_create_comp_channel(device.context()), "ibv_create_comp_channel")};
    ibv_device_attr limits;
    check(::ibv_query_device(device.context(), &limits), "ibv_query_device");
    std::vector<Couple> couples;
    for (int left = std::min({queues, limits.max_cq, 2 * limits.max_qp}) / 2; left > 0; --left) {
        couples.emplace_back(device, pd.get(), channel.get()).complete_one_each_way();
    }
    for (std::size_t next = 0;;) {
        pace.rest();
        for (unsigned i = 0; i < renewed_at_once; ++i) {
            couples[next++ % couples.size()].complete_one_each_way();
        }
    }
}

} // namespace vrdma::torture::hostile
