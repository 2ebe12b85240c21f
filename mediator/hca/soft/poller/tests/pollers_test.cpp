// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/poller/pollers.h"

#include <gtest/gtest.h>

#include <thread>

namespace vrdma::hca::soft {
namespace {

std::unique_ptr<Pollers> two_pollers() {
    Config config;
    config.pollers = 2;
    config.realtime_priority = 0;
    auto pollers = Pollers::create(config);
    EXPECT_TRUE(pollers.has_value());
    return std::move(*pollers);
}

// On how many pollers a call is executed by the caller's own thread.
unsigned own_calls(Pollers& pollers) {
    unsigned own = 0;
    const auto caller = std::this_thread::get_id();
    pollers.run_on_all([&](Engine&) { own += std::this_thread::get_id() == caller ? 1 : 0; });
    return own;
}

// Borrows two pollers and gives them back; expects their calls on the caller's thread meanwhile.
TEST(Pollers, ThatAreBorrowedStandStill) {
    const auto pollers = two_pollers();
    EXPECT_EQ(own_calls(*pollers), 0u);
    pollers->borrow();
    EXPECT_EQ(own_calls(*pollers), 2u);
    pollers->give_back();
    EXPECT_EQ(own_calls(*pollers), 0u);
}

// Borrows them twice, and gives back what is not borrowed; expects neither to matter.
TEST(Pollers, MayBeBorrowedTwice) {
    const auto pollers = two_pollers();
    pollers->borrow();
    pollers->borrow();
    pollers->give_back();
    pollers->give_back();
    EXPECT_EQ(own_calls(*pollers), 0u);
}

// Drains pollers that stand still, where none of them could answer; expects an end.
TEST(Pollers, ThatAreBorrowedHaveNothingToDrain) {
    const auto pollers = two_pollers();
    pollers->borrow();
    pollers->drain_all();
    EXPECT_EQ(own_calls(*pollers), 2u);
}

// Asks for the time of calls by a borrowed poller; expects a new one each time.
TEST(Pollers, ThatAreBorrowedKnowTheTime) {
    const auto pollers = two_pollers();
    pollers->borrow();
    const auto now = [&] {
        Clock::time_point now;
        pollers->run_on_all([&](Engine& engine) { now = engine.now(); });
        return now;
    };
    const auto before = Clock::now();
    EXPECT_GE(now(), before);
    const auto later = Clock::now();
    EXPECT_GE(now(), later);
}

} // namespace
} // namespace vrdma::hca::soft
