// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A guest that does no harm, beside one that does: whatever that one has done, its control verbs
// succeed, and its WRITE arrives after a bounded number of the pollers' rounds.
#pragma once

#include <memory>

#include "mediator/fuzz/require.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/tests/guest/guest.h"

namespace vrdma::fuzz {

class Bystander {
  public:
    static constexpr int most_rounds = 64;

    explicit Bystander(hca::soft::SoftHca& hca) : hca_{hca} {
        test::connect(guest_, qp_, guest_.gid(), qp_.id());
    }

    void check() {
        require(guest_.slice().modify_qp(qp_.id(), test::state_attr(IBV_QPS_RESET)).has_value());
        qp_.reset();
        test::connect(guest_, qp_, guest_.gid(), qp_.id());

        region_.buffer.write(0, test::Buffer::pattern(++round_, size));
        region_.buffer.write(size, std::vector<std::byte>(size));
        const vrdma_sge from = region_.sge(0, size);
        qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                       .sges = {&from, 1},
                       .rkey = region_.key,
                       .raddr = region_.start + size});
        auto completion = cq_.poll();
        for (int i = 0; i < most_rounds && !completion; ++i) {
            hca_.poll();
            completion = cq_.poll();
        }
        require(completion && completion->status == IBV_WC_SUCCESS);
        require(region_.buffer.read(size, size) == test::Buffer::pattern(round_, size));
        require(guest_.fatals() == 0);
    }

  private:
    static constexpr std::uint32_t size = 8;
    static constexpr std::uint64_t memory_size = 1 << 20;

    hca::soft::SoftHca& hca_;
    test::Guest guest_{hca_, "bystander", test::ipv4_gid(77),
                       std::move(*ArenaMemory::create(memory_size))};
    test::GuestCq cq_ = guest_.create_cq(16);
    test::GuestQp qp_ = guest_.create_qp(cq_, cq_);
    test::MemoryRegion region_ = guest_.register_mr(2 * size);
    std::uint8_t round_ = 0;
};

} // namespace vrdma::fuzz
