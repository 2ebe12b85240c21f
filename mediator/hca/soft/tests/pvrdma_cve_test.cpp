// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What guests did to the rings of QEMU's pvrdma, done to ours. The rest is the control path's
// (verbs/tests/test_pvrdma_cves.cpp).
#include <infiniband/verbs.h>

#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

class PvrdmaCve : public TwoGuests {
  protected:
    // A page of the guest's that no ring may reach.
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

// CVE-2023-1544: the indices of a ring were the guest's, and used as they were. Put any number in
// the place of each index that a guest writes, of a CQ and of an event queue that fill, between
// pages of the guest's; expect those to stay as they are.
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
        EXPECT_EQ(a_.fatals(), 0u);
    }
}

} // namespace
} // namespace vrdma::test
