// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Work requests whose fields are random, and sometimes nearly right. A QP that has failed is reset.
#include <array>
#include <vector>

#include "torture/hostile/neighbours.h"
#include "torture/hostile/queues.h"

namespace vrdma::torture::hostile {
namespace {

constexpr std::uint32_t queue_pairs = 16;
constexpr std::uint32_t depth = 16;
constexpr std::size_t region_size = 1 << 20;
constexpr std::array opcodes{
    IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,      IBV_WR_SEND_WITH_IMM,
    IBV_WR_RDMA_READ,  IBV_WR_ATOMIC_CMP_AND_SWP,  IBV_WR_LOCAL_INV, IBV_WR_ATOMIC_FETCH_AND_ADD};

class Garbage {
  public:
    explicit Garbage(const Seat& seat)
        : device_{seat.device, seat.gid_index}, random_{Random::of({seat.seed})} {
        for (std::uint32_t i = 0; i < queue_pairs; ++i) {
            qps_.push_back(connected_to_itself(device_, pd_.get(), cq_.get(), depth));
        }
    }

    void throw_some() {
        for (const Qp& qp : qps_) {
            to_state(qp.get(), IBV_QPS_RESET);
            connect_to_itself(device_, qp.get());
            for (std::uint32_t left = random_.length(depth); left > 0; --left) {
                throw_one(qp.get());
            }
        }
    }
    void take_all() {
        drain(cq_.get(), [](const ibv_wc&) {});
    }

  private:
    void throw_one(ibv_qp* qp) {
        ibv_sge piece{address(), random_.length((1u << 31) - 1), key()};
        ibv_send_wr wr{};
        wr.sg_list = &piece;
        wr.num_sge = random_.chance(90) ? 1 : 0;
        wr.opcode = random_.pick(opcodes);
        wr.send_flags = random_.below(32) & ~static_cast<unsigned>(IBV_SEND_INLINE);
        wr.imm_data = key();
        wr.wr.atomic = {.remote_addr = address(),
                        .compare_add = random_.next(),
                        .swap = random_.next(),
                        .rkey = key()};
        if (wr.opcode < IBV_WR_ATOMIC_CMP_AND_SWP) {
            wr.wr.rdma = {.remote_addr = address(), .rkey = key()};
        }
        post(qp, wr);
    }
    std::uint64_t address() {
        return random_.chance(50) ? region_.address() + random_.below(region_size) : random_.next();
    }
    std::uint32_t key() {
        return random_.chance(50) ? region_.key() : static_cast<std::uint32_t>(random_.next());
    }

    Device device_;
    Random random_;
    Pd pd_ = make_pd(device_);
    Cq cq_ = make_cq(device_, queue_pairs* depth);
    Region region_{pd_.get(), region_size};
    std::vector<Qp> qps_;
};

} // namespace

void garbage_requests(const Seat& seat, Pace& pace) {
    Garbage garbage{seat};
    while (true) {
        garbage.throw_some();
        pace.rest();
        garbage.take_all();
    }
}

} // namespace vrdma::torture::hostile
