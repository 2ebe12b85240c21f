// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The scratch pages that stand in a range of memory: a set with a bound, so that no range takes
// more than its share of the process's mappings. A signal handler adds to it while others take
// away: nothing here waits.
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

    // What put() returns, a page that it has shown; or false: it could not, or there is no room.
    // The page's place is taken first, so no page is ever shown that is not known.
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

    // Of the pages that reach into [begin, end), those that uncover(page) has taken away are not
    // here any more. A page that is being put stays: it is taken away the next time.
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
