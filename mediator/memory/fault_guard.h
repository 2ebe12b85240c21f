// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Turns a touch of memory that is not there into a touch of a scratch page.
//
// A client shares files with us. At any time it may truncate them, punch holes, or let their file
// system run full. An access then raises SIGBUS, and an access where nothing is mapped raises
// SIGSEGV. Within a guarded range, the handler puts a private zeroed page there and counts the
// fault. The access then continues and harms nobody. Any other fault is the program's own, and goes
// to the previous handler.
//
// If a Filler watches a range for holes in its files (file_holes.h), the handler asks it first. The
// Filler may fill a hole.
//
// Each such page costs mappings, of which the process has a limited number. So a range has a
// limited number of scratch pages at a time (scratch_pages.h). A range that misses more is
// overwhelmed: all of it becomes one scratch mapping, which takes fewer mappings than before, and
// the owner of the range is told.
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>

#include "mediator/base/result.h"
#include "mediator/memory/scratch_pages.h"

namespace vrdma {

class FaultGuard {
  public:
    class Filler {
      public:
        Filler() = default;
        Filler(const Filler&) = delete;
        Filler& operator=(const Filler&) = delete;
        virtual ~Filler() = default;

        // Called in a signal handler, by any thread. True: the touch is to be tried again.
        virtual bool fill(std::byte* address) noexcept = 0;
    };

    // Guards [base, base + size), in whole pages, which stay mapped as long as the guard lives.
    // `alarm` is an eventfd: it is signalled when the range is overwhelmed, and when a touch had to
    // wait.
    static Result<FaultGuard> create(std::byte* base, std::uint64_t size, int alarm = -1);
    FaultGuard(FaultGuard&& other) noexcept;
    FaultGuard& operator=(FaultGuard&& other) = delete;
    FaultGuard(const FaultGuard&) = delete;
    FaultGuard& operator=(const FaultGuard&) = delete;
    ~FaultGuard();

    // Reports the cost of a touch of that address. If a guarded range contains the address, the
    // owner of the range is told.
    static void blame(const std::byte* address, std::chrono::nanoseconds cost) noexcept;
    // Sets the Filler of the range, or none.
    void fill_by(Filler* filler) noexcept;

    // The number of touches of this thread, in any range, that have met a hole or nothing so far.
    // Each took the thread several microseconds.
    static std::uint64_t met() noexcept { return met_.load(std::memory_order_relaxed); }

    // The cost of the touches of the range since the last call.
    std::chrono::nanoseconds take_cost() noexcept;
    // The same, and does not begin anew.
    std::chrono::nanoseconds cost() const noexcept;

    // The number of touches that met nothing so far: a word that the handler adds to.
    const std::uint64_t& faults() const noexcept;

    // The scratch pages in the range, for a caller that knows what is behind them.
    ScratchPages& scratch() noexcept;

    // The range shows only scratch memory, until recovered() reports that the memory behind it is
    // shown again.
    bool overwhelmed() const noexcept;
    void recovered() noexcept;

  private:
    explicit FaultGuard(std::size_t slot) : slot_{slot} {}
    static void on_fault(int signal, siginfo_t* info, void* context) noexcept;

    static inline constinit thread_local std::atomic<std::uint64_t> met_{0};
    std::size_t slot_;
};

} // namespace vrdma
