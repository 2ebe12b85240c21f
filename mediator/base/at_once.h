// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#pragma once

#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace vrdma {

// Calls it with 0, 1, … `count` - 1, all at the same time, because each call waits for the kernel.
// Returns when all have returned. Calls that find no thread come one after the other.
template <typename Call>
void at_once(std::size_t count, const Call& call) noexcept {
    std::vector<std::thread> threads;
    try {
        threads.reserve(count);
        while (threads.size() < count) {
            threads.emplace_back([&call, number = threads.size()] { call(number); });
        }
    } catch (const std::exception&) {
    }
    for (std::size_t number = threads.size(); number < count; ++number) {
        call(number);
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

} // namespace vrdma
