// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/interrupts.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <thread>

#include "mediator/frontend/vfio_user/tests/client.h"

namespace vrdma::vfio_user {
namespace {

constexpr unsigned vectors = 4;

class InterruptsTest : public ::testing::Test {
  protected:
    Result<> set(unsigned vector) {
        std::vector<UniqueFd> fds;
        fds.push_back(test::copy_of(eventfd_));
        return interrupts_->set(vector, std::move(fds));
    }

    eventfd_t count() const {
        eventfd_t count = 0;
        ::eventfd_read(eventfd_.get(), &count);
        return count;
    }

    UniqueFd eventfd_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    std::unique_ptr<Interrupts> interrupts_ = *Interrupts::create(vectors);
};

// Raise a vector more often than there is room for completions; expect each raise to signal.
TEST_F(InterruptsTest, RaisesSignal) {
    ASSERT_TRUE(set(2));
    for (int i = 0; i < 5000; ++i) {
        interrupts_->raise(2);
    }
    EXPECT_EQ(count(), 5000u);
    interrupts_->raise(1);
    EXPECT_EQ(count(), 0u);
}

// Raise a vector before it has an eventfd, and after the eventfd was removed; expect one signal
// when it gets an eventfd.
TEST_F(InterruptsTest, WhatIsPendingIsSignalledLater) {
    interrupts_->raise(3);
    interrupts_->raise(3);
    ASSERT_TRUE(set(3));
    EXPECT_EQ(count(), 1u);
    interrupts_->clear(0, vectors);
    interrupts_->raise(3);
    EXPECT_EQ(count(), 0u);
    ASSERT_TRUE(set(3));
    EXPECT_EQ(count(), 1u);
}

// Raise a vector and clear all; expect nothing to be pending.
TEST_F(InterruptsTest, ClearAllForgets) {
    interrupts_->raise(0);
    interrupts_->clear_all();
    ASSERT_TRUE(set(0));
    EXPECT_EQ(count(), 0u);
}

// Pass another file among eventfds; expect none to be accepted.
TEST_F(InterruptsTest, OnlyEventfds) {
    std::vector<UniqueFd> fds;
    fds.push_back(test::copy_of(eventfd_));
    fds.emplace_back(::open("/dev/null", O_RDWR | O_CLOEXEC));
    EXPECT_EQ(interrupts_->set(0, std::move(fds)).error(), std::errc::invalid_argument);
    interrupts_->raise(0);
    EXPECT_EQ(count(), 0u);
}

// Fill the eventfd, make it blocking, and raise; expect raise() to return.
TEST_F(InterruptsTest, AFullEventfdBlocksNobody) {
    ASSERT_TRUE(set(0));
    ASSERT_EQ(::eventfd_write(eventfd_.get(), ~0ull - 1), 0);
    ASSERT_EQ(::fcntl(eventfd_.get(), F_SETFL, 0), 0);
    interrupts_->raise(0);
    interrupts_->raise(0);
    EXPECT_GE(count(), ~0ull - 1);
}

// Raise from one thread while another sets and clears the eventfd; expect both threads to end.
TEST_F(InterruptsTest, RaisedWhileTheyChange) {
    std::thread raiser{[&] {
        for (int i = 0; i < 5000; ++i) {
            interrupts_->raise(1);
        }
    }};
    for (int i = 0; i < 500; ++i) {
        ASSERT_TRUE(set(1));
        interrupts_->clear(1, 1);
    }
    raiser.join();
    interrupts_->raise(1);
    ASSERT_TRUE(set(1));
    EXPECT_GE(count(), 1u);
}

} // namespace
} // namespace vrdma::vfio_user
