// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The minimum that a third party between two others costs.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace vrdma::bench {

// A word in a cache line of its own, which the prefetcher of the neighbouring line does not reach.
struct alignas(128) Line {
    std::atomic<std::uint64_t> word{0};

    void put(std::uint64_t value) { word.store(value, std::memory_order_release); }
    std::uint64_t get() const { return word.load(std::memory_order_acquire); }
    void await(std::uint64_t value) const {
        while (get() != value) {
        }
    }
};

// A thread that copies a word from one line to another as soon as it changes.
class Relay {
  public:
    Relay();
    Relay(const Relay&) = delete;
    Relay& operator=(const Relay&) = delete;
    ~Relay();

    // From the writing party to the reading one, through the relay: two line transfers.
    void pass(std::uint64_t value) {
        in_.put(value);
        out_.await(value);
    }

  private:
    Line in_;
    Line out_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

} // namespace vrdma::bench
