// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The scratch pages that stand in a range of memory. The set has a bound, so that no range takes
// more than its share of the process's mappings. A signal handler adds pages while other threads
// take pages away, so nothing here waits.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vrdma {

class ScratchPages {
  public:
    static constexpr std::size_t room = 256;

    struct Page {
        std::byte* start = nullptr;
        unsigned shift = 0;

        std::uint64_t size() const noexcept { return std::uint64_t{1} << shift; }
    };

    // Adds the page that put() has shown and returns. False: put() could not show one, or there is
    // no room. The entry is taken first, so every page that is shown is known.
    template <typename Put>
    bool add(Put&& put) noexcept {
        for (auto& entry : entries_) {
            std::uintptr_t expected = free;
            if (!entry.compare_exchange_strong(expected, changing)) {
                continue;
            }
            const Page page = put();
            entry.store(reinterpret_cast<std::uintptr_t>(page.start) | page.shift);
            used_.fetch_add(page.start != nullptr ? 1 : 0);
            return page.start != nullptr;
        }
        return false;
    }

    // Calls uncover(page) for each page that reaches into [begin, end). If uncover() returns true,
    // it has taken the page away, and the page leaves the set. A page that is being put stays until
    // the next call.
    template <typename Uncover>
    void take_away(const std::byte* begin, const std::byte* end, Uncover&& uncover) noexcept {
        if (used_.load() == 0) {
            return;
        }
        for (auto& entry : entries_) {
            std::uintptr_t word = entry.load();
            const Page page = page_of(word);
            if (page.start != nullptr && page.start < end && begin < page.start + page.size() &&
                entry.compare_exchange_strong(word, changing)) {
                const bool gone = uncover(page);
                used_.fetch_sub(gone ? 1 : 0);
                entry.store(gone ? free : word);
            }
        }
    }

  private:
    // An entry is a page's address with its shift in the bits below.
    static constexpr std::uintptr_t free = 0;
    static constexpr std::uintptr_t changing = 1;
    static constexpr std::uintptr_t shift_bits = 0xfff;

    static Page page_of(std::uintptr_t word) noexcept {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): one atomic word holds both
        return {reinterpret_cast<std::byte*>(word & ~shift_bits),
                static_cast<unsigned>(word & shift_bits)};
    }

    std::array<std::atomic<std::uintptr_t>, room> entries_{};
    std::atomic<std::uint32_t> used_{0};
};

} // namespace vrdma
