// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Turns a touch of memory that is not there into a touch of a scratch page.
//
// A client shares files with us and may cut them short, punch them or let their file system run
// full at any time: an access then raises SIGBUS, and one where nothing is mapped SIGSEGV. Within a
// guarded range the handler puts a private zeroed page there and counts; the access goes on and
// harms nobody. Any other fault is the program's own, and goes to whoever handled it before.
//
// Whoever watches a range for holes in its files (file_holes.h) is asked first, and may fill one.
//
// Each such page costs mappings, of which the process has a limited number. So a range has so many
// of them at a time (scratch_pages.h). One that misses more is overwhelmed: all of it is one
// scratch mapping, which takes fewer than it had before, and whoever answers for it hears of it.
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

        // In a signal handler, of any thread. True: the touch is to be tried again.
        virtual bool fill(std::byte* address) noexcept = 0;
    };

    // Guards [base, base + size), in whole pages, which stay mapped for as long as the guard lives.
    // The eventfd is signalled when the range is overwhelmed, and when a touch had to wait.
    static Result<FaultGuard> create(std::byte* base, std::uint64_t size, int alarm = -1);
    FaultGuard(FaultGuard&& other) noexcept;
    FaultGuard& operator=(FaultGuard&& other) = delete;
    FaultGuard(const FaultGuard&) = delete;
    FaultGuard& operator=(const FaultGuard&) = delete;
    ~FaultGuard();

    // A touch of that address has cost so much time: if it is in a guarded range, whoever answers
    // for that hears of it.
    static void blame(const std::byte* address, std::chrono::nanoseconds cost) noexcept;
    // Of the range: while it is set, or none.
    void fill_by(Filler* filler) noexcept;

    // How many touches of this thread, in any range, have met a hole or nothing so far. Each has
    // taken it several microseconds.
    static std::uint64_t met() noexcept { return met_.load(std::memory_order_relaxed); }

    // What touches of the range have cost since the last call.
    std::chrono::nanoseconds take_cost() noexcept;

    // Touches that met nothing, so far: a word that the handler adds to.
    const std::uint64_t& faults() const noexcept;

    // The scratch pages that stand in the range, for whoever knows what is behind them.
    ScratchPages& scratch() noexcept;

    // Nothing of the range is to be seen but scratch memory, until recovered() says that what is
    // behind is shown again.
    bool overwhelmed() const noexcept;
    void recovered() noexcept;

  private:
    explicit FaultGuard(std::size_t slot) : slot_{slot} {}
    static void on_fault(int signal, siginfo_t* info, void* context) noexcept;

    static inline constinit thread_local std::atomic<std::uint64_t> met_{0};
    std::size_t slot_;
};

} // namespace vrdma
