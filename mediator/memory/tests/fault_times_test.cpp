// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/memory/fault_times.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <thread>

#include "mediator/base/event_fd.h"
#include "mediator/base/mapping.h"
#include "mediator/base/unique_fd.h"
#include "mediator/memory/fault_guard.h"
#include "mediator/memory/tests/snare.h"

namespace vrdma {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t page_size = 4096;
constexpr std::size_t page_count = 4096;
constexpr std::chrono::milliseconds some_time{5};

void pass_time() {
    for (const auto end = Clock::now() + some_time; Clock::now() < end;) {
    }
}

class FaultTimesTest : public ::testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(::ftruncate(file_.get(), page_count * page_size), 0);
        if (!FaultTimes::of_this_thread()) {
            GTEST_SKIP() << "the kernel tells nobody of faults";
        }
    }

    void touch(std::size_t page) { *memory_.as<volatile char>(page * page_size) = 1; }
    void touch_missing() { *memory_.as<volatile char>((page_count + 1) * page_size) = 1; }

    UniqueFd file_{::memfd_create("shared", MFD_CLOEXEC)};
    EventFd alarm_ = *EventFd::create();
    Mapping memory_ =
        *Mapping::map(file_.get(), 0, (page_count + 2) * page_size, PROT_READ | PROT_WRITE);
    FaultGuard guard_ = *FaultGuard::create(memory_.data(), memory_.size(), alarm_.fd());
};

// Let a thread wait for a page; expect the owner of the memory to be told for how long.
TEST_F(FaultTimesTest, AWaitIsBlamedOnTheMemorysOwner) {
    const test::Snare snare{memory_.data(), memory_.size()};
    Clock::duration all{};
    std::thread waits{[&] {
        auto times = *FaultTimes::of_this_thread();
        const auto before = Clock::now();
        touch(1);
        all = Clock::now() - before;
        times.settle();
    }};
    const std::uint64_t address = snare.caught();
    pass_time();
    snare.let_go(address);
    waits.join();
    const auto cost = guard_.take_cost();
    EXPECT_GE(cost, some_time - FaultTimes::ordinary_sleep);
    EXPECT_LE(cost, all);
    eventfd_t alarms = 0;
    EXPECT_EQ(::eventfd_read(alarm_.fd(), &alarms), 0);
    EXPECT_EQ(guard_.take_cost(), std::chrono::nanoseconds::zero());
}

// Touch pages for the first time; expect no blame. Some touches may take long, because other
// programs or another host have the processor.
TEST_F(FaultTimesTest, NewPagesAreNotBlamed) {
    auto times = *FaultTimes::of_this_thread();
    constexpr int touches = 256;
    int blamed = 0;
    for (std::size_t page = 0; page < touches; ++page) {
        touch(page);
        times.settle();
        blamed += guard_.take_cost() != std::chrono::nanoseconds::zero() ? 1 : 0;
    }
    EXPECT_LT(blamed, touches / 4);
}

// Meet a scratch page, and do something else for a while; expect only the fault to count.
TEST_F(FaultTimesTest, ATouchOfNothingEndsWithTheScratchPage) {
    auto times = *FaultTimes::of_this_thread();
    touch_missing();
    pass_time();
    touch(0);
    times.settle();
    EXPECT_EQ(guard_.faults(), 1u);
    EXPECT_LT(guard_.take_cost(), some_time);
}

// Have more faults than there is room for, and do something else for a while; expect that time not
// to count, and later faults to be reported again.
TEST_F(FaultTimesTest, WhatIsLostIsNotBlamed) {
    auto times = *FaultTimes::of_this_thread();
    for (std::size_t page = 0; page < page_count / 2; ++page) {
        touch(page);
    }
    times.settle();
    static_cast<void>(guard_.take_cost());
    pass_time();
    touch(page_count / 2);
    times.settle();
    EXPECT_LT(guard_.take_cost(), some_time);
}

} // namespace
} // namespace vrdma
