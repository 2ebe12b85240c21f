// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The function that decides on accesses, and copying between the spans that it returns.
#include "mediator/hca/soft/memory/memory_gate.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <numeric>
#include <random>

#include "mediator/hca/soft/memory/copy.h"
#include "mediator/memory/arena_memory.h"

namespace vrdma::hca::soft {
namespace {

constexpr std::uint64_t start = 0x10000;
constexpr std::uint64_t gate_page = VRDMA_PAGE_SIZE;
constexpr std::uint64_t length = 200 * gate_page;
constexpr PdId pd{3};

class MemoryGateTest : public ::testing::Test {
  protected:
    MemoryGateTest() { add(Key{0x700}, start, IBV_ACCESS_REMOTE_READ); }

    void add(Key key, std::uint64_t address, std::uint32_t rights) {
        Translation pages; // no two adjacent
        for (std::uint64_t i = 0; i < length / gate_page; ++i) {
            pages.blocks.push_back(Iova{(length / gate_page - i) * gate_page});
        }
        pages.length = length;
        auto region = std::make_unique<MemoryRegion>();
        region->key = key;
        region->pd = pd;
        region->start = address;
        region->length = length;
        region->access_flags = rights;
        region->pages = std::move(*GuestBuffer::map(*memory_, std::move(pages)));
        ASSERT_TRUE(gate_.insert(std::move(region)));
    }

    vrdma_vendor_err open(const Access& access, std::uint64_t skip = 0) {
        SpanList spans{~0ull};
        const auto error = gate_.open(access, skip, spans);
        opened_ = spans.bytes();
        return error;
    }

    std::unique_ptr<ArenaMemory> memory_ = std::move(*ArenaMemory::create(256 * gate_page));
    MemoryGate gate_{*memory_};
    std::uint64_t opened_ = 0;
};

// Accesses at and just beyond each limit; expect the reason, and no bytes for refused accesses.
TEST_F(MemoryGateTest, DecidesByKeyPdRightsAndBounds) {
    constexpr std::uint32_t right = IBV_ACCESS_REMOTE_READ;
    EXPECT_EQ(open({Key{0x700}, pd, right, start, 100}), VRDMA_VERR_NONE);
    EXPECT_EQ(opened_, 100u);
    EXPECT_EQ(open({Key{0x700}, pd, right, start + length - 1, 1}), VRDMA_VERR_NONE);
    EXPECT_EQ(open({Key{0x800}, pd, right, start, 1}), VRDMA_VERR_KEY);
    EXPECT_EQ(open({Key{0x4700}, pd, right, start, 1}), VRDMA_VERR_KEY);
    EXPECT_EQ(open({Key{0x700}, PdId{4}, right, start, 1}), VRDMA_VERR_PD);
    EXPECT_EQ(open({Key{0x700}, pd, right | IBV_ACCESS_REMOTE_WRITE, start, 1}), VRDMA_VERR_ACCESS);
    EXPECT_EQ(open({Key{0x700}, pd, right, start - 1, 1}), VRDMA_VERR_BOUNDS);
    EXPECT_EQ(open({Key{0x700}, pd, right, start + length, 1}), VRDMA_VERR_BOUNDS);
    EXPECT_EQ(open({Key{0x700}, pd, right, start + 1, length}), VRDMA_VERR_BOUNDS);
    EXPECT_EQ(open({Key{0x700}, pd, right, start + 1, ~0ull}), VRDMA_VERR_BOUNDS);
    EXPECT_EQ(open({Key{0x700}, pd, right, ~0ull, 2}), VRDMA_VERR_BOUNDS);
    EXPECT_EQ(opened_, 0u);
    EXPECT_EQ(open({Key{0x800}, PdId{4}, right, 0, 0}), VRDMA_VERR_NONE) << "of no bytes";
}

// Remove a region that was just used, and insert another in its place; expect the old key to be
// unknown.
TEST_F(MemoryGateTest, ForgetsWhatIsRemoved) {
    EXPECT_EQ(open({Key{0x700}, pd, 0, start, 1}), VRDMA_VERR_NONE);
    auto twin = std::make_unique<MemoryRegion>();
    twin->key = Key{0x700};
    EXPECT_EQ(gate_.insert(std::move(twin)).error(), std::errc::file_exists);
    EXPECT_NE(gate_.remove(Key{0x700}).value(), nullptr);
    EXPECT_EQ(gate_.remove(Key{0x700}).value(), nullptr);
    EXPECT_EQ(open({Key{0x700}, pd, 0, start, 1}), VRDMA_VERR_KEY);
    add(Key{0x4700}, start + 1, 0);
    EXPECT_EQ(open({Key{0x700}, pd, 0, start, 1}), VRDMA_VERR_KEY);
    EXPECT_EQ(open({Key{0x4700}, pd, 0, start, 1}), VRDMA_VERR_BOUNDS);
}

// More pages than a list has spans; expect as many as fit. A second call continues from there.
TEST_F(MemoryGateTest, LongAccessesComeInPieces) {
    EXPECT_EQ(open({Key{0x700}, pd, 0, start + 10, length - 10}), VRDMA_VERR_NONE);
    EXPECT_EQ(opened_, SpanList::capacity * gate_page - 10);
    EXPECT_EQ(open({Key{0x700}, pd, 0, start + 10, length - 10}, length - 13), VRDMA_VERR_NONE);
    EXPECT_EQ(opened_, 3u);
    SpanList limited{5000};
    EXPECT_EQ(gate_.open({Key{0x700}, pd, 0, start, length}, 0, limited), VRDMA_VERR_NONE);
    EXPECT_EQ(limited.bytes(), 5000u);
}

// Open random lists with random offsets, copy between them; expect what a plain copy gives.
TEST_F(MemoryGateTest, CopiesBetweenDifferentDivisions) {
    std::mt19937 random{2}; // NOLINT(cert-msc32-c,cert-msc51-cpp): failures must come again
    const auto random_list = [&](std::uint64_t total) {
        std::vector<Sge> list;
        while (total != 0) {
            const auto piece =
                static_cast<std::uint32_t>(std::min<std::uint64_t>(total, random() % 9000));
            list.push_back({start + random() % (length - piece), piece, 0x700});
            total -= piece;
        }
        return list;
    };
    for (int round = 0; round < 200; ++round) {
        const std::uint64_t total = random() % 40000;
        const std::uint64_t skip = total == 0 ? 0 : random() % total;
        const auto source_list = random_list(total);
        SpanList source{total - skip};
        ASSERT_EQ(gate_.open_list(source_list, pd, 0, skip, source), VRDMA_VERR_NONE);
        ASSERT_EQ(source.bytes(), total - skip);
        std::vector<std::byte> expected;
        for (const auto& span : source) {
            for (std::byte& byte : span) {
                byte = static_cast<std::byte>(random());
            }
        }
        for (const auto& span : source) {
            expected.insert(expected.end(), span.begin(), span.end());
        }
        std::vector<std::byte> arrived(total - skip);
        SpanList target{arrived.size()};
        for (std::size_t at = 0; at < arrived.size();) {
            const std::size_t piece = std::min<std::size_t>(arrived.size() - at, 700);
            target.add(std::span{arrived}.subspan(at, piece));
            at += piece;
        }
        SpanCursor to{target};
        SpanCursor from{source};
        copy(to, from);
        ASSERT_EQ(arrived, expected);
    }
}

} // namespace
} // namespace vrdma::hca::soft
