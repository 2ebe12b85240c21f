// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// DCQCN (Zhu et al., SIGCOMM 2015). A router that has a queue marks packets (ECN). Who receives
// them gives notice to their sender by a CNP (A17.9.3), which then sends more slowly, and faster
// again while no notice comes.
#pragma once

#include <cstdint>

#include "mediator/hca/soft/config.h"

namespace vrdma::hca::soft::roce {

struct Connection;

// A receiver gives notice once in that time, and a sender slows down once.
inline constexpr std::chrono::microseconds notice_interval{50};

// The sender's rate. It changes with the time that has passed and the bytes that were sent, and is
// computed when somebody asks: a QP that sends nothing costs nothing.
class ReactionPoint {
  public:
    // Bytes a second, of a port of 100 Gb/s: of one that nobody knows the speed of.
    static constexpr std::uint64_t usual_line_rate = 12'500'000'000;
    static constexpr std::uint64_t min_rate = 5'000'000;       // a packet of 4 KiB within 1 ms
    static constexpr std::chrono::microseconds period{55};     // of the timers
    static constexpr std::uint32_t bytes_a_stage = 10'000'000; // of the byte counter
    // What a poller that looks late may catch up with.
    static constexpr std::chrono::microseconds lateness{100};

    // Else all of the following but heed() is without effect.
    bool slowed() const noexcept { return rate_ != 0; }
    std::uint64_t rate() const noexcept { return slowed() ? rate_ : line_; }

    // A notice has come, to a port whose line has that rate: more is not sent, and what is slowed
    // returns to it.
    void heed(Clock::time_point now, std::uint64_t line_rate = usual_line_rate) noexcept;
    // When the next packet may leave; perhaps it is slowed no more.
    Clock::time_point due(Clock::time_point now) noexcept;
    void sent(std::uint32_t bytes, Clock::time_point now) noexcept;

  private:
    void pass(Clock::time_point now) noexcept;
    void raise() noexcept;

    std::uint64_t rate_ = 0;   // 0: not slowed
    std::uint64_t target_ = 0; // what it returns to
    std::uint64_t line_ = usual_line_rate;
    std::uint32_t bytes_ = 0; // of the stage
    std::uint32_t alpha_ = 0; // how congested it is, of alpha_one
    // A few thousand at most: then it is at full rate.
    std::uint16_t timer_stage_ = 0;
    std::uint16_t byte_stage_ = 0;
    Clock::time_point period_begin_;
    Clock::time_point cut_;
    Clock::time_point due_;
};

// A packet of the connection was marked.
void notice(Connection& connection) noexcept;

// Whether a slowed connection may send a packet with so much payload now, which it then does. Else
// it gets a turn when it may.
bool admit(Connection& connection, std::uint32_t payload_bytes) noexcept;

} // namespace vrdma::hca::soft::roce
