// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/poller/mailbox.h"

#include <gtest/gtest.h>

#include <thread>

namespace vrdma::hca::soft {
namespace {

TEST(Mailbox, WhatFindsNoMemoryIsTheCallersAffair) {
    Mailbox mailbox;
    std::atomic<bool> end{false};
    std::thread poller{[&]() noexcept {
        while (!end) {
            mailbox.serve();
        }
    }};
    EXPECT_THROW(mailbox.run([] { throw std::bad_alloc{}; }, [] {}), std::bad_alloc);
    bool executed = false;
    mailbox.run([&] { executed = true; }, [] {});
    EXPECT_TRUE(executed);
    end = true;
    poller.join();
}

} // namespace
} // namespace vrdma::hca::soft
