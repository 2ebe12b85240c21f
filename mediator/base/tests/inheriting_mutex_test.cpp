// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/base/inheriting_mutex.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>

namespace vrdma {
namespace {

// The current priority of a thread in the kernel: below 0 for a real-time thread
// (proc_pid_stat(5)).
int priority_of(pid_t thread) {
    constexpr int fields_before = 15; // between the name and the priority
    std::ifstream file{"/proc/self/task/" + std::to_string(thread) + "/stat"};
    std::string text;
    std::getline(file, text);
    std::istringstream fields{text.substr(text.rfind(')') + 1)};
    std::string skipped;
    for (int i = 0; i < fields_before; ++i) {
        fields >> skipped;
    }
    int priority = 0;
    fields >> priority;
    return priority;
}

// Hold a mutex that a real-time thread waits for; expect this thread to be one as well meanwhile.
TEST(InheritingMutex, WhoHoldsItRunsAsUrgentlyAsWhoWaits) {
    InheritingMutex mutex;
    std::unique_lock lock{mutex};
    ASSERT_GE(priority_of(::gettid()), 0);
    std::atomic<int> error{0};
    std::thread waiter{[&] {
        const sched_param urgent{.sched_priority = 1};
        error = ::pthread_setschedparam(::pthread_self(), SCHED_FIFO, &urgent);
        const std::lock_guard waited_for{mutex};
    }};
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{10};
    while (error == 0 && priority_of(::gettid()) >= 0 && std::chrono::steady_clock::now() < end) {
        std::this_thread::yield();
    }
    const int inherited = priority_of(::gettid());
    lock.unlock();
    waiter.join();
    if (error != 0) {
        GTEST_SKIP() << "real-time threads take CAP_SYS_NICE or RLIMIT_RTPRIO";
    }
    EXPECT_LT(inherited, 0);
    EXPECT_GE(priority_of(::gettid()), 0);
}

} // namespace
} // namespace vrdma
