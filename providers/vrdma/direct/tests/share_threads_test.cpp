// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "share_helper.h"

namespace {

using vrdma::test::Memory;
using vrdma::test::page;
using vrdma::test::Share;

// Runs a function again and again in a thread of its own until the end of the scope.
class Busy {
  public:
    template <typename Function>
    explicit Busy(Function function)
        : thread_([this, function] {
              while (!stop_)
                  function();
          })
    {
    }
    ~Busy() { join(); }
    Busy(const Busy &) = delete;
    Busy &operator=(const Busy &) = delete;
    void join()
    {
        stop_ = true;
        if (thread_.joinable())
            thread_.join();
    }

  private:
    std::atomic<bool> stop_ = false;
    std::thread thread_;
};

// A thread counts on the pages that are moved, and knows what it has counted.
TEST(ShareThreads, LosesNoWrite)
{
    constexpr size_t pages = 16;
    constexpr int rounds = 3000;
    Memory memory(pages * page);
    std::vector<uint64_t> counted(pages);
    uint64_t lost = 0;
    for (int round = 0; round < rounds; ++round) {
        // Private again, and written to from the start.
        ASSERT_NE(mmap(memory.data(), pages * page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                  MAP_FAILED);
        counted.assign(pages, 0);
        std::atomic<uint64_t> started = 0;
        Busy busy([&] {
            for (size_t i = 0; i < pages; ++i) {
                auto *counter = reinterpret_cast<volatile uint64_t *>(memory.data() + i * page + 8);
                *counter = *counter + 1;
                ++counted[i];
            }
            ++started;
        });
        while (started < 2)
            std::this_thread::yield();
        const Share share(memory.data(), pages * page);
        ASSERT_EQ(share.error, 0);
        busy.join();
        for (size_t i = 0; i < pages; ++i) {
            uint64_t counter = 0;
            std::memcpy(&counter, memory.data() + i * page + 8, sizeof(counter));
            lost += counted[i] - counter;
        }
    }
    EXPECT_EQ(lost, 0u);
}

// Threads share what overlaps while others allocate next to it.
TEST(ShareThreads, ShareAndAllocateAtOnce)
{
    std::vector<std::thread> threads;
    std::atomic<int> failures = 0;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&failures, t] {
            for (size_t i = 0; i < 500; ++i) {
                std::vector<char> buffer(1 + (i * 37 + t) % 9000, static_cast<char>(t + 1));
                const Share share(buffer.data(), buffer.size());
                failures += share.error != 0;
                for (const char c : buffer)
                    failures += c != t + 1;
            }
        });
    }
    for (auto &thread : threads)
        thread.join();
    EXPECT_EQ(failures, 0);
}

TEST(ShareThreads, AStackIsRefusedByItsThread)
{
    int error = 0;
    std::thread([&error] {
        char buffer[10000] = {};
        error = Share(buffer, sizeof(buffer)).error;
    }).join();
    EXPECT_EQ(error, EOPNOTSUPP);
}

} // namespace
