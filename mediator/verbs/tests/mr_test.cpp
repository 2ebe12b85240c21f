// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <set>

#include "mediator/verbs/tests/verbs_test.h"

namespace vrdma::verbs {
namespace {

class MrTest : public VerbsTest {
  protected:
    std::errc error_with_access(std::uint32_t flags) {
        auto cmd = mr_command(pd);
        cmd.access_flags = flags;
        return error_of(objects.mrs.reg(cmd));
    }

    static vrdma_cmd_reg_mr dma_command(PdId pd) {
        vrdma_cmd_reg_mr cmd{};
        cmd.pd = pd.value;
        cmd.access_flags = IBV_ACCESS_LOCAL_WRITE;
        cmd.flags = VRDMA_MR_DMA;
        return cmd;
    }

    PdId pd = make_pd();
};

TEST_F(MrTest, TheSliceGetsWhatTheGuestAskedFor) {
    const Key key = objects.mrs.reg(mr_command(pd, 12345)).value();
    const hca::MrSpec& spec = side->slice.mrs.at(key);
    EXPECT_EQ(spec.pd, pd);
    EXPECT_EQ(spec.start, 0x7f0000000000u);
    EXPECT_EQ(spec.length, 12345u);
    EXPECT_EQ(spec.access_flags, IBV_ACCESS_LOCAL_WRITE);
    EXPECT_EQ(spec.pages.blocks.size(), 4u);
}

TEST_F(MrTest, KeysAreNotGuessable) {
    std::set<std::uint32_t> keys;
    std::uint32_t ones = 0;
    for (int i = 0; i < 256; ++i) {
        const auto key = objects.mrs.reg(mr_command(pd, 1)).value().value;
        EXPECT_TRUE(keys.insert(key).second);
        ones |= key;
        ASSERT_TRUE(objects.mrs.dereg(Key{key}));
    }
    EXPECT_EQ(ones, 0xffffffffu); // every bit is drawn
}

TEST_F(MrTest, RemoteChangesNeedLocalWrite) {
    EXPECT_EQ(error_with_access(IBV_ACCESS_REMOTE_WRITE), std::errc::invalid_argument);
    EXPECT_EQ(error_with_access(IBV_ACCESS_REMOTE_ATOMIC), std::errc::invalid_argument);
    EXPECT_EQ(error_with_access(IBV_ACCESS_REMOTE_READ), std::errc{});
    EXPECT_EQ(error_with_access(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC),
              std::errc{});
}

TEST_F(MrTest, UnknownAccessIsRefusedAndOptionalAccessIgnored) {
    EXPECT_EQ(error_with_access(IBV_ACCESS_MW_BIND), std::errc{});
    EXPECT_EQ(error_with_access(IBV_ACCESS_HUGETLB), std::errc{});
    EXPECT_EQ(error_with_access(1u << 31), std::errc::operation_not_supported);
    EXPECT_EQ(error_with_access(IBV_ACCESS_RELAXED_ORDERING), std::errc{});
}

// Register no bytes; expect a key, and no need for pages.
TEST_F(MrTest, ARegionOfNoBytesHasNoPages) {
    auto cmd = mr_command(pd);
    cmd.length = 0;
    cmd.first_offset = 0;
    cmd.pages = {};
    const auto key = objects.mrs.reg(cmd);
    ASSERT_TRUE(key);
    EXPECT_TRUE(side->slice.mrs.at(*key).pages.blocks.empty());
    EXPECT_TRUE(objects.mrs.dereg(*key));
}

TEST_F(MrTest, ArgumentsHaveRanges) {
    auto cmd = mr_command(PdId{9});
    EXPECT_EQ(error_of(objects.mrs.reg(cmd)), std::errc::invalid_argument);
    cmd = mr_command(pd);
    cmd.length = 0; // with pages
    EXPECT_EQ(error_of(objects.mrs.reg(cmd)), std::errc::invalid_argument);
    cmd = mr_command(pd);
    cmd.length = limits.max_mr_size + 1;
    EXPECT_EQ(error_of(objects.mrs.reg(cmd)), std::errc::invalid_argument);
    cmd = mr_command(pd);
    cmd.start = ~0ull - 5;
    EXPECT_EQ(error_of(objects.mrs.reg(cmd)), std::errc::invalid_argument);
    cmd = mr_command(pd);
    cmd.flags = 2;
    EXPECT_EQ(error_of(objects.mrs.reg(cmd)), std::errc::invalid_argument);
}

TEST_F(MrTest, TheTypeLimitsTheirNumber) {
    for (std::uint32_t i = 0; i < limits.max_mr; ++i) {
        ASSERT_TRUE(objects.mrs.reg(dma_command(pd)));
    }
    EXPECT_EQ(error_of(objects.mrs.reg(mr_command(pd))), std::errc::not_enough_memory);
}

TEST_F(MrTest, DmaRegionsAreTheKernels) {
    const Key key = objects.mrs.reg(dma_command(pd)).value();
    EXPECT_TRUE(side->slice.mrs.at(key).dma);
    EXPECT_EQ(side->slice.mrs.at(key).length, memory->size());
    const PdId user = make_pd(objects.ucontexts.alloc().value());
    EXPECT_EQ(error_of(objects.mrs.reg(dma_command(user))), std::errc::invalid_argument);
}

TEST_F(MrTest, DmaRegionsHaveNoPages) {
    auto cmd = dma_command(pd);
    cmd.pages = pages(VRDMA_PAGE_SIZE);
    EXPECT_EQ(error_of(objects.mrs.reg(cmd)), std::errc::invalid_argument);
    cmd = dma_command(pd);
    cmd.first_offset = 1;
    EXPECT_EQ(error_of(objects.mrs.reg(cmd)), std::errc::invalid_argument);
    cmd = dma_command(pd);
    cmd.start = 4096;
    EXPECT_EQ(error_of(objects.mrs.reg(cmd)), std::errc::invalid_argument);
}

TEST_F(MrTest, UnknownKeysCannotBeFreed) {
    EXPECT_EQ(error_of(objects.mrs.dereg(Key{1234})), std::errc::invalid_argument);
}

TEST_F(MrTest, AFailureOfTheSliceLeavesNothingBehind) {
    side->slice.next_error = std::errc::not_enough_memory;
    EXPECT_EQ(error_of(objects.mrs.reg(mr_command(pd))), std::errc::not_enough_memory);
    EXPECT_TRUE(objects.pds.dealloc(pd));
}

TEST_F(MrTest, RoundTrip) {
    const Key key = objects.mrs.reg(mr_command(pd)).value();
    const Key dma = objects.mrs.reg(dma_command(pd)).value();
    expect_round_trip();
    EXPECT_EQ(moved->slice.mrs.at(key).pages.blocks, side->slice.mrs.at(key).pages.blocks);
    EXPECT_TRUE(moved->slice.mrs.at(dma).dma);
    EXPECT_EQ(error_of(moved->objects.pds.dealloc(pd)), std::errc::device_or_resource_busy);
}

TEST_F(MrTest, ZeroBasedRegionsBeginAtZero) {
    auto cmd = mr_command(pd);
    cmd.access_flags |= IBV_ACCESS_ZERO_BASED;
    EXPECT_EQ(error_of(objects.mrs.reg(cmd)), std::errc::invalid_argument);
    cmd.start = 0;
    EXPECT_EQ(error_of(objects.mrs.reg(cmd)), std::errc{});
}

class ReregTest : public MrTest {
  protected:
    vrdma_cmd_rereg_mr command(std::uint32_t flags) {
        vrdma_cmd_rereg_mr cmd{};
        cmd.key = key.value;
        cmd.flags = flags;
        if ((flags & VRDMA_REREG_TRANSLATION) != 0) {
            cmd.pages = pages(5000);
            cmd.start = 0x1000;
            cmd.length = 5000;
        }
        if ((flags & VRDMA_REREG_PD) != 0) {
            cmd.pd = other_pd.value;
        }
        if ((flags & VRDMA_REREG_ACCESS) != 0) {
            cmd.access_flags = IBV_ACCESS_REMOTE_READ;
        }
        return cmd;
    }

    const hca::MrSpec& spec() { return side->slice.mrs.at(key); }

    PdId other_pd = make_pd();
    Key key = objects.mrs.reg(mr_command(pd)).value();
};

TEST_F(ReregTest, ChangesWhatTheFlagsName) {
    ASSERT_TRUE(objects.mrs.rereg(command(VRDMA_REREG_ACCESS)));
    EXPECT_EQ(spec().access_flags, IBV_ACCESS_REMOTE_READ);
    EXPECT_EQ(spec().length, 10000u);
    EXPECT_EQ(spec().pages.blocks.size(), 3u);
    ASSERT_TRUE(objects.mrs.rereg(command(VRDMA_REREG_TRANSLATION)));
    EXPECT_EQ(spec().start, 0x1000u);
    EXPECT_EQ(spec().length, 5000u);
    EXPECT_EQ(spec().pages.blocks.size(), 2u);
    EXPECT_EQ(spec().access_flags, IBV_ACCESS_REMOTE_READ);
    ASSERT_TRUE(objects.mrs.rereg(command(VRDMA_REREG_PD)));
    EXPECT_EQ(spec().pd, other_pd);
    EXPECT_TRUE(objects.pds.dealloc(pd));
    EXPECT_EQ(error_of(objects.pds.dealloc(other_pd)), std::errc::device_or_resource_busy);
    expect_round_trip();
}

TEST_F(ReregTest, BadCommandsChangeNothing) {
    const auto refused = [&](auto&& change) {
        auto cmd = command(VRDMA_REREG_TRANSLATION | VRDMA_REREG_PD | VRDMA_REREG_ACCESS);
        change(cmd);
        return error_of(objects.mrs.rereg(cmd));
    };
    constexpr auto bad = std::errc::invalid_argument;
    EXPECT_EQ(refused([](auto& cmd) { cmd.key ^= 1; }), bad);
    EXPECT_EQ(refused([](auto& cmd) { cmd.flags = 0; }), bad);
    EXPECT_EQ(refused([](auto& cmd) { cmd.flags |= 8; }), bad);
    EXPECT_EQ(refused([](auto& cmd) { cmd.flags &= ~VRDMA_REREG_PD; }), bad);
    EXPECT_EQ(refused([](auto& cmd) { cmd.flags &= ~VRDMA_REREG_ACCESS; }), bad);
    EXPECT_EQ(refused([](auto& cmd) { cmd.flags &= ~VRDMA_REREG_TRANSLATION; }), bad);
    EXPECT_EQ(refused([](auto& cmd) { cmd.reserved = 1; }), bad);
    EXPECT_EQ(refused([](auto& cmd) { cmd.pd = 9; }), bad);
    EXPECT_EQ(refused([](auto& cmd) { cmd.length = 50000; }), bad);
    EXPECT_EQ(refused([](auto& cmd) { cmd.access_flags = IBV_ACCESS_REMOTE_WRITE; }), bad);
    EXPECT_EQ(refused([](auto& cmd) { cmd.access_flags = 1u << 31; }),
              std::errc::operation_not_supported);
    EXPECT_EQ(
        refused([&](auto& cmd) { cmd.pd = make_pd(objects.ucontexts.alloc().value()).value; }),
        bad);
    side->slice.next_error = std::errc::device_or_resource_busy;
    EXPECT_EQ(refused([](auto&) {}), std::errc::device_or_resource_busy);
    EXPECT_EQ(spec().length, 10000u);
    EXPECT_EQ(spec().pd, pd);
    EXPECT_TRUE(objects.pds.dealloc(other_pd));
}

TEST_F(ReregTest, OnlyRegionsOfMemory) {
    key = objects.mrs.reg(dma_command(pd)).value();
    EXPECT_EQ(error_of(objects.mrs.rereg(command(VRDMA_REREG_ACCESS))),
              std::errc::invalid_argument);
    key = objects.mrs.alloc({pd.value, 8}).value();
    EXPECT_EQ(error_of(objects.mrs.rereg(command(VRDMA_REREG_TRANSLATION))),
              std::errc::invalid_argument);
}

TEST_F(MrTest, BusyRegionsStay) {
    const Key key = objects.mrs.reg(mr_command(pd)).value();
    side->slice.next_error = std::errc::device_or_resource_busy;
    EXPECT_EQ(error_of(objects.mrs.dereg(key)), std::errc::device_or_resource_busy);
    EXPECT_TRUE(objects.mrs.dereg(key));
}

TEST_F(MrTest, FastRegionsAreTheKernels) {
    const Key key = objects.mrs.alloc({pd.value, VRDMA_MAX_FAST_PAGES}).value();
    EXPECT_EQ(side->slice.mrs.at(key).fast_pages, std::uint32_t{VRDMA_MAX_FAST_PAGES});
    const PdId user = make_pd(objects.ucontexts.alloc().value());
    constexpr auto bad = std::errc::invalid_argument;
    EXPECT_EQ(error_of(objects.mrs.alloc({user.value, 1})), bad);
    EXPECT_EQ(error_of(objects.mrs.alloc({9, 1})), bad);
    EXPECT_EQ(error_of(objects.mrs.alloc({pd.value, 0})), bad);
    EXPECT_EQ(error_of(objects.mrs.alloc({pd.value, VRDMA_MAX_FAST_PAGES + 1})), bad);
}

TEST_F(MrTest, FastRegionsRoundTrip) {
    const Key key = objects.mrs.alloc({pd.value, 4}).value();
    side->slice.fast_states.at(key) = {
        .key = key.value ^ 3, .valid = 1, .blocks = 2, .length = 8192};
    side->slice.fast_pages.at(key) = {Iova{0x1000}, Iova{0x5000}};
    expect_round_trip();
    EXPECT_EQ(moved->slice.fast_pages.at(key).size(), 2u);
    EXPECT_EQ(moved->slice.fast_states.at(key).length, 8192u);
}

TEST_F(MrTest, RestoreValidates) {
    const auto buffer = pages(100);
    const auto restore_error = [&](const MrState& state) {
        StateWriter writer;
        writer.begin(Section::mrs, MrState::version, 1);
        writer.put(state);
        save_pages(writer, {{Iova{buffer.root}}, 12, 0, 100});
        const auto image = writer.take();
        Side fresh{limits, identity, other_registry, *memory};
        EXPECT_TRUE(fresh.objects.pds.alloc(kernel));
        StateReader reader{image};
        return error_of(fresh.objects.mrs.restore(reader));
    };
    constexpr std::uint32_t write = IBV_ACCESS_LOCAL_WRITE;
    EXPECT_EQ(restore_error({0x700, 1, 0, 100, write, 0, 0, 0}), std::errc{});
    EXPECT_EQ(restore_error({0xff, 1, 0, 100, write, 0, 0, 0}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({0x700, 2, 0, 100, write, 0, 0, 0}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({0x700, 1, 0, 5000, write, 0, 0, 0}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({0x700, 1, ~0ull, 100, write, 0, 0, 0}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({0x700, 1, 0, 100, IBV_ACCESS_REMOTE_WRITE, 0, 0, 0}),
              std::errc::invalid_argument);
    EXPECT_EQ(restore_error({0x700, 1, 0, 100, write, 2, 0, 0}), std::errc::invalid_argument);
}

class OnDemandMrTest : public MrTest {
  protected:
    static constexpr std::uint32_t access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND;
    static constexpr std::uint64_t page = VRDMA_PAGE_SIZE;

    vrdma_cmd_reg_mr command(std::uint64_t length = 10 * page, std::uint32_t first_offset = 100) {
        return {{}, 0x7f0000000000, length, pd.value, access, first_offset, 0};
    }

    vrdma_cmd_map_pages map_command(Key key, std::uint64_t first, std::uint64_t count) {
        return {pages(count * page), first, key.value, VRDMA_MAP_WRITABLE};
    }

    std::errc map_error(const vrdma_cmd_map_pages& cmd) {
        return error_of(objects.mrs.map_pages(cmd));
    }
};

// Register a region with an offset, and one of the whole address space; expect no pages. Expect a
// page list, an offset beyond a page, a length that is too large, and bus addresses to be refused.
TEST_F(OnDemandMrTest, RegistrationTakesNothing) {
    const Key key = objects.mrs.reg(command()).value();
    EXPECT_EQ(side->slice.mrs.at(key).pages.first_offset, 100u);
    EXPECT_TRUE(side->slice.mrs.at(key).pages.blocks.empty());
    EXPECT_TRUE(objects.mrs.reg(command(VRDMA_ON_DEMAND_MAX_SIZE, 0)));
    EXPECT_EQ(error_of(objects.mrs.reg(command(VRDMA_ON_DEMAND_MAX_SIZE + 1))),
              std::errc::invalid_argument);
    EXPECT_EQ(error_of(objects.mrs.reg(command(page, page))), std::errc::invalid_argument);
    auto cmd = command();
    cmd.pages = pages(10 * page);
    EXPECT_EQ(error_of(objects.mrs.reg(cmd)), std::errc::invalid_argument);
    cmd = dma_command(pd);
    cmd.access_flags |= IBV_ACCESS_ON_DEMAND;
    EXPECT_EQ(error_of(objects.mrs.reg(cmd)), std::errc::invalid_argument);
}

// Map, refuse and unmap pages; expect the slice to be told.
TEST_F(OnDemandMrTest, PagesComeAndGo) {
    const Key key = objects.mrs.reg(command()).value();
    EXPECT_EQ(map_error(map_command(key, 9, 2)), std::errc{}); // with the offset there are 11
    const auto& mapped = side->slice.mapped[key];
    ASSERT_EQ(mapped.size(), 2u);
    EXPECT_TRUE(mapped.at(9).second);
    EXPECT_EQ(map_error({{0, 3, 0, 0, 0}, 4, key.value, VRDMA_MAP_REFUSED}), std::errc{});
    ASSERT_EQ(side->slice.refused.size(), 1u);
    EXPECT_TRUE(objects.mrs.unmap_pages({10, UINT64_MAX, key.value, 0}));
    EXPECT_EQ(mapped.size(), 1u);
}

// Change a region's access, and make another region one on demand; expect EOPNOTSUPP.
TEST_F(OnDemandMrTest, IsNotReregistered) {
    vrdma_cmd_rereg_mr cmd{};
    cmd.key = objects.mrs.reg(command()).value().value;
    cmd.flags = VRDMA_REREG_ACCESS;
    EXPECT_EQ(error_of(objects.mrs.rereg(cmd)), std::errc::operation_not_supported);
    cmd.key = objects.mrs.reg(mr_command(pd)).value().value;
    EXPECT_EQ(error_of(objects.mrs.rereg(cmd)), std::errc{});
    cmd.access_flags = access;
    EXPECT_EQ(error_of(objects.mrs.rereg(cmd)), std::errc::operation_not_supported);
}

// Map pages of an unknown region, of a region without on-demand paging, or beyond the region's end.
// Map no pages, too many, or blocks of another size. Use unknown flags, or both map and refuse.
// Expect EINVAL.
TEST_F(OnDemandMrTest, HostileAnswers) {
    const Key key = objects.mrs.reg(command()).value();
    const Key plain = objects.mrs.reg(mr_command(pd)).value();
    EXPECT_EQ(map_error(map_command(Key{key.value ^ 1}, 0, 1)), invalid);
    EXPECT_EQ(map_error(map_command(plain, 0, 1)), invalid);
    EXPECT_EQ(map_error(map_command(key, 10, 2)), invalid);
    EXPECT_EQ(map_error(map_command(key, UINT64_MAX, 1)), invalid);
    auto cmd = map_command(key, 0, 1);
    cmd.pages.count = 0;
    EXPECT_EQ(map_error(cmd), invalid);
    const Key whole = objects.mrs.reg(command(VRDMA_ON_DEMAND_MAX_SIZE, 0)).value();
    cmd = map_command(whole, 0, 1);
    cmd.pages.count = VRDMA_MAP_MAX_PAGES + 1;
    EXPECT_EQ(map_error(cmd), invalid);
    cmd = map_command(key, 0, 1);
    cmd.pages.page_shift = 21;
    EXPECT_EQ(map_error(cmd), invalid);
    cmd = map_command(key, 0, 1);
    cmd.flags = VRDMA_MAP_REFUSED | VRDMA_MAP_WRITABLE;
    EXPECT_EQ(map_error(cmd), invalid);
    cmd.flags = 4;
    EXPECT_EQ(map_error(cmd), invalid);
    cmd = map_command(key, 0, 1);
    cmd.flags = VRDMA_MAP_REFUSED; // with pages
    EXPECT_EQ(map_error(cmd), invalid);
    EXPECT_EQ(error_of(objects.mrs.unmap_pages({0, 1, plain.value, 0})), invalid);
    EXPECT_EQ(error_of(objects.mrs.unmap_pages({0, 1, key.value, 1})), invalid);
}

// Map pages all over the address space; expect the device to forget pages, so that the translation
// stays within its budget. Deregister the region; expect its part of the budget back.
TEST_F(OnDemandMrTest, TranslationsStayWithinTheBudget) {
    const std::uint64_t leaves = limits.max_blocks / hca::on_demand_leaf_pages;
    for (int round = 0; round < 2; ++round) {
        const Key key = objects.mrs.reg(command(VRDMA_ON_DEMAND_MAX_SIZE, 0)).value();
        const auto cmd = map_command(key, 0, 1);
        for (std::uint64_t i = 0; i < leaves + 10; ++i) {
            auto next = cmd;
            next.first = i * hca::on_demand_leaf_pages;
            ASSERT_EQ(map_error(next), std::errc{});
        }
        EXPECT_LT(side->slice.mapped[key].size(), leaves);
        ASSERT_TRUE(objects.mrs.dereg(key));
    }
}

// Save and restore; expect the region without its pages.
TEST_F(OnDemandMrTest, IsSavedWithoutPages) {
    const Key key = objects.mrs.reg(command()).value();
    ASSERT_EQ(map_error(map_command(key, 0, 2)), std::errc{});
    StateWriter writer;
    objects.mrs.save(writer);
    const auto image = writer.take();
    Side fresh{limits, identity, other_registry, *memory};
    ASSERT_TRUE(fresh.objects.pds.alloc(kernel));
    StateReader reader{image};
    ASSERT_TRUE(fresh.objects.mrs.restore(reader));
    EXPECT_TRUE(reader.at_end());
    EXPECT_EQ(fresh.slice.mrs.at(key).pages.first_offset, 100u);
    EXPECT_TRUE(fresh.slice.mapped.empty());
}

} // namespace
} // namespace vrdma::verbs
