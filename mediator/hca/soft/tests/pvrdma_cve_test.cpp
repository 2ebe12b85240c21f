// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Attacks of guests on the rings of QEMU's pvrdma, applied to vrdma's. The others concern the
// control path (verbs/tests/pvrdma_cves_test.cpp).
#include <infiniband/verbs.h>

#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

class PvrdmaCve : public TwoGuests {
  protected:
    // A page of the guest that no ring may reach.
    Buffer make_guard() {
        Buffer guard = a_.pages().allocate(VRDMA_PAGE_SIZE);
        guard.fill(7);
        return guard;
    }

    static void expect_untouched(const Buffer& guard) {
        EXPECT_EQ(guard.read(0, VRDMA_PAGE_SIZE), Buffer::pattern(7, VRDMA_PAGE_SIZE));
    }

    static constexpr std::uint32_t indices[] = {1, 63, 64, 0x7fffffff, 0x80000000, 0xffffffff};
};

// CVE-2023-1544: the indices of a ring belonged to the guest, and were used without a check. Set
// each index that a guest writes to any number, of a CQ and of an event queue that fill, between
// pages of the guest; expect these pages to stay unchanged.
TEST_F(PvrdmaCve, Cve20231544IndicesOfRings) {
    constexpr std::uint32_t depth = 32; // less than a page
    for (const std::uint32_t index : indices) {
        const Buffer before = make_guard();
        GuestCq cq = a_.create_cq(depth);
        const Buffer after = make_guard();
        GuestQp from = a_.create_qp(cq, cq);
        GuestQp to = b_.create_qp(b_cq_, b_cq_);
        connect_pair(from, to);
        store_release(cq.control().consumer, index);
        store_release(a_.eq().control().consumer, index);
        for (std::uint32_t i = 0; i < 2 * depth; ++i) {
            cq.arm(false);
            from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
            settle();
        }
        expect_untouched(before);
        expect_untouched(after);
    }
}

} // namespace
} // namespace vrdma::test
