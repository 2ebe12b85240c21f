// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Pollers whose devices do not talk to each other write no common cache line. So a tenth poller
// adds as much capacity as the first.
#include "mediator/hca/soft/common/cache_line.h"

#include <gtest/gtest.h>

#include <set>

#include "mediator/hca/soft/poller/poller.h"

namespace vrdma::hca::soft {
namespace {

template <typename T>
class OwnsItsLines : public ::testing::Test {};

// The objects that a poller writes while it works, and that are not within another of these or a
// LineVector.
using Written = ::testing::Types<Poller, SliceCore, QueuePair, CompletionQueue, EventQueue,
                                 CrossRequest, CounterSet, roce::Connection, roce::Member>;
TYPED_TEST_SUITE(OwnsItsLines, Written);

// Expects that an object begins and ends at a line boundary, wherever the heap puts it.
TYPED_TEST(OwnsItsLines, ByItsAlignment) {
    EXPECT_EQ(alignof(TypeParam) % cache_line, 0u);
    EXPECT_EQ(sizeof(TypeParam) % cache_line, 0u);
}

// Makes pollers one after the other, as a mediator does; expects that they share no line on the
// heap.
TEST(CacheLine, PollersHaveNoneInCommon) {
    std::vector<std::unique_ptr<Poller>> pollers;
    std::set<std::uintptr_t> lines;
    for (int i = 0; i < 10; ++i) {
        pollers.push_back(std::move(*Poller::create({})));
        const auto start = reinterpret_cast<std::uintptr_t>(pollers.back().get());
        for (std::uintptr_t byte = start; byte < start + sizeof(Poller); byte += cache_line) {
            EXPECT_TRUE(lines.insert(byte / cache_line).second);
        }
    }
}

// Fills many small vectors; expects each to have its lines to itself.
TEST(CacheLine, LineVectorsHaveNoneInCommon) {
    std::vector<LineVector<void*>> vectors(100);
    std::set<std::uintptr_t> lines;
    for (auto& vector : vectors) {
        vector.resize(9);
        const auto first = reinterpret_cast<std::uintptr_t>(&vector.front()) / cache_line;
        const auto last = reinterpret_cast<std::uintptr_t>(&vector.back()) / cache_line;
        for (std::uintptr_t line = first; line <= last; ++line) {
            EXPECT_TRUE(lines.insert(line).second);
        }
    }
}

} // namespace
} // namespace vrdma::hca::soft
