// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Known attacks by guests on the control path of QEMU's pvrdma, tried on vrdma's. The ring indices
// of CVE-2023-1544 belong to the HCA (hca/soft/tests/pvrdma_cve_test.cpp).
#include <utility>

#include "mediator/verbs/tests/in_steps.h"
#include "mediator/verbs/tests/verbs_test.h"

namespace vrdma::verbs {
namespace {

class PvrdmaCves : public VerbsTest {
  protected:
    PvrdmaCves() { make_gid(); }

    std::errc register_with(const vrdma_page_list& list, std::uint64_t length) {
        vrdma_cmd_reg_mr cmd = mr_command(pd, VRDMA_PAGE_SIZE);
        cmd.pages = list;
        cmd.length = length;
        return error_of(test::in_steps([&] { return objects.mrs.reg(cmd); }));
    }

    EqId eq = make_eq();
    PdId pd = make_pd();
    Cqn cq = make_cq(eq);
};

// CVE-2021-3582: the length of a region and its page directory did not match. Register regions
// whose number of blocks is more or less than their length needs, or more than their directories
// hold, or whose directory points outside of memory; expect each to be refused.
TEST_F(PvrdmaCves, Cve20213582LengthsAndPageDirectories) {
    constexpr std::uint64_t blocks = VRDMA_PAGE_LIST_ENTRIES + 2;
    const vrdma_page_list good = pages(blocks * VRDMA_PAGE_SIZE);
    ASSERT_EQ(good.levels, 2);
    for (const std::uint32_t count :
         {0u, 1u, VRDMA_PAGE_LIST_ENTRIES + 1u, VRDMA_PAGE_LIST_ENTRIES + 3u, 0xffffffffu}) {
        vrdma_page_list bad = good;
        bad.count = count;
        EXPECT_EQ(register_with(bad, blocks * VRDMA_PAGE_SIZE), invalid) << count;
    }
    EXPECT_EQ(register_with(good, blocks * VRDMA_PAGE_SIZE + 1), invalid);
    EXPECT_EQ(register_with(good, UINT64_MAX), invalid);
    vrdma_page_list shallow = good;
    shallow.levels = 1;
    EXPECT_EQ(register_with(shallow, blocks * VRDMA_PAGE_SIZE), invalid);

    auto* const directory = allocator.at<std::uint64_t>(Iova{good.root});
    const std::uint64_t right = directory[1];
    for (const std::uint64_t wrong :
         {arena_size, arena_size - 1, UINT64_MAX - VRDMA_PAGE_SIZE + 1, right + 8}) {
        directory[1] = wrong;
        EXPECT_EQ(register_with(good, blocks * VRDMA_PAGE_SIZE), std::errc::bad_address) << wrong;
    }
    directory[1] = right;
    EXPECT_EQ(register_with(good, blocks * VRDMA_PAGE_SIZE), std::errc{});
}

// CVE-2021-3607: the pages of a ring were counted in too few bits, or not bounded at all. Make
// queues whose sizes overflow, with few pages and with as many as they need; expect each to be
// refused.
TEST_F(PvrdmaCves, Cve20213607SizesOfRings) {
    for (const std::uint32_t depth : {1u << 23, 1u << 26, 1u << 31}) {
        vrdma_cmd_create_cq cmd = cq_command(eq);
        cmd.depth = depth;
        EXPECT_EQ(error_of(objects.cqs.create(cmd)), invalid) << depth;
        cmd.pages.count =
            static_cast<std::uint32_t>(1 + std::uint64_t{depth} * 64 / VRDMA_PAGE_SIZE);
        EXPECT_EQ(error_of(objects.cqs.create(cmd)), invalid) << depth;
    }
    for (const std::uint32_t depth : {1u << 20, 1u << 27, 1u << 31}) {
        for (const std::uint8_t shift : {6, 12, 31, 63, 255}) {
            vrdma_cmd_create_qp qp = qp_command(pd, cq);
            qp.sq_depth = qp.rq_depth = depth;
            qp.sq_stride_shift = qp.rq_stride_shift = shift;
            EXPECT_EQ(error_of(objects.qps.create(qp)), invalid) << depth << ' ' << unsigned{shift};
            vrdma_cmd_create_srq srq = srq_command(pd);
            srq.depth = depth;
            srq.stride_shift = shift;
            EXPECT_EQ(error_of(objects.srqs.create(srq)), invalid)
                << depth << ' ' << unsigned{shift};
        }
    }
    vrdma_cmd_create_eq events = eq_command();
    events.depth = 1u << 31;
    EXPECT_EQ(error_of(objects.eqs.create(events)), invalid);
}

// CVE-2021-3608: a ring that could not be made was destroyed, although parts of it were never
// initialized. Make a QP with each of its pages missing in turn, and one that the HCA refuses;
// expect each to fail and to leave nothing behind: the objects that it would have used are free,
// and its blocks are available.
TEST_F(PvrdmaCves, Cve20213608RingsThatCannotBeMade) {
    vrdma_cmd_create_qp cmd = qp_command(pd, cq);
    ASSERT_EQ(cmd.pages.levels, 1);
    auto* const blocks = allocator.at<std::uint64_t>(Iova{cmd.pages.root});
    std::uint64_t left = limits.max_blocks;
    while (!objects.resources.budget.take_blocks(left)) {
        --left;
    }
    for (std::uint32_t missing = 0; missing < cmd.pages.count; ++missing) {
        const std::uint64_t there = std::exchange(blocks[missing], arena_size);
        EXPECT_EQ(error_of(objects.qps.create(cmd)), std::errc::bad_address) << missing;
        blocks[missing] = there;
    }
    side->slice.next_error = std::errc::not_enough_memory;
    EXPECT_EQ(error_of(objects.qps.create(cmd)), std::errc::not_enough_memory);
    EXPECT_TRUE(objects.resources.budget.take_blocks(left));

    const auto made = objects.qps.create(cmd);
    ASSERT_TRUE(made);
    EXPECT_TRUE(objects.qps.destroy(made->qpn));
    EXPECT_TRUE(objects.cqs.destroy(cq));
    EXPECT_TRUE(objects.pds.dealloc(pd));
    EXPECT_TRUE(objects.eqs.destroy(eq));
}

} // namespace
} // namespace vrdma::verbs
