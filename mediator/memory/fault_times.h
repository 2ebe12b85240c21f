// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The durations of a thread's page faults, and their addresses.
//
// A fault in memory that a client shares waits for what the client does to its file: for pages that
// it takes away, moves or has swapped out, or for huge ones to be zeroed. The kernel records when
// each fault begins and ends, and when the thread loses its processor meanwhile
// (perf_event_open(2)). So nothing has to be measured where memory is touched, and a thread that
// has no faults only checks that there are none.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "mediator/base/mapping.h"
#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"
#include "mediator/memory/shared_words.h"

namespace vrdma {

class FaultTimes {
  public:
    // The kernel's records of a thread: a fault has two samples, and two switches if the thread
    // sleeps.
    static constexpr std::size_t ring_size = 1 << 16; // a power of two
    static constexpr std::size_t sample_size = 32;
    static constexpr std::size_t switch_size = 24;

    // For a thread that does not ask the kernel.
    FaultTimes() = default;
    // For the calling thread. EACCES: the kernel requires a privilege.
    static Result<FaultTimes> of_this_thread();

    // Reports to FaultGuard each fault since the last call that has cost time. The time that a new
    // page takes is not counted, nor is time in which other threads had the processor.
    void settle() noexcept {
        if (head_ != nullptr && load_relaxed(*head_) != tail_) [[unlikely]] {
            read_records();
        }
    }

    // The number of faults, each with a sleep, that have room between two calls of settle(). The
    // kernel drops further ones, which then cost nothing.
    static constexpr std::size_t room = ring_size / (2 * sample_size + 2 * switch_size);

    // The time that the kernel works for a page, also for a huge one of 2 MiB that it fills with
    // zeros.
    static constexpr std::chrono::nanoseconds ordinary{1'000'000};
    // Until Linux 6.4 faults also wait for each other's locks, for a short time.
    static constexpr std::chrono::nanoseconds ordinary_sleep{200'000};

  private:
    enum Event : std::size_t { begin, minor_end, major_end, events };

    // The fault that has not ended yet.
    struct Fault {
        std::uint64_t address = 0; // 0: there is none
        std::uint64_t since = 0;
        std::uint64_t slept = 0;
        std::uint64_t preempted = 0;
        std::uint64_t left = 0; // when the thread left the processor
        bool preemption = false;
    };

    Result<> open();
    std::uint64_t word(std::size_t index) const noexcept;
    void read_records() noexcept;
    void read_record() noexcept;
    void note_switch(bool out, bool preemption, std::uint64_t now) noexcept;
    void end(std::uint64_t now) noexcept;

    std::array<UniqueFd, events> fds_;
    Mapping ring_;
    const unsigned long long* head_ = nullptr; // of the ring
    std::uint64_t begin_id_ = 0;
    std::uint64_t tail_ = 0; // bytes read
    Fault fault_;
};

} // namespace vrdma
