// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// DCQCN (Zhu et al., SIGCOMM 2015). A router that has a queue marks packets (ECN). Their receiver
// notifies their sender by a CNP (A17.9.3). The sender then sends more slowly, and faster again
// while no notice comes.
#pragma once

#include <cstdint>

#include "mediator/hca/soft/config.h"

namespace vrdma::hca::soft::roce {

class Connection;

// In this time, a receiver sends at most one notice, and a sender slows down at most once.
inline constexpr std::chrono::microseconds notice_interval{50};

// The sender's rate. The rate changes with the time that has passed and the bytes that were sent.
// It is computed only when it is needed: a QP that sends nothing costs nothing.
class ReactionPoint {
  public:
    // Bytes per second of a port of 100 Gb/s. This rate is assumed for ports of unknown speed.
    static constexpr std::uint64_t usual_line_rate = 12'500'000'000;
    static constexpr std::uint64_t min_rate = 5'000'000;         // a packet of 4 KiB within 1 ms
    static constexpr std::chrono::microseconds period{55};       // of the timers
    static constexpr std::uint32_t bytes_per_stage = 10'000'000; // of the byte counter
    // The delay that a late poller may catch up with.
    static constexpr std::chrono::microseconds lateness{100};

    // Whether the sender is slowed. If not, all of the following but heed() have no effect.
    bool slowed() const noexcept { return rate_ != 0; }
    std::uint64_t rate() const noexcept { return slowed() ? rate_ : line_; }

    // A notice has come. `line_rate` is the rate of the port's line: the greatest possible rate,
    // and the one to which a slowed sender returns.
    void heed(Clock::time_point now, std::uint64_t line_rate = usual_line_rate) noexcept;
    // When the next packet may leave. Afterwards, the sender may not be slowed any more.
    Clock::time_point due(Clock::time_point now) noexcept;
    void sent(std::uint32_t bytes, Clock::time_point now) noexcept;

  private:
    void pass(Clock::time_point now) noexcept;
    void raise() noexcept;

    std::uint64_t rate_ = 0;   // 0: not slowed
    std::uint64_t target_ = 0; // the rate that it returns to
    std::uint64_t line_ = usual_line_rate;
    std::uint32_t bytes_ = 0; // sent in the stage
    std::uint32_t alpha_ = 0; // estimate of the congestion, in parts of alpha_one
    // A few thousand at most: by then, the sender is at full rate.
    std::uint16_t timer_stage_ = 0;
    std::uint16_t byte_stage_ = 0;
    Clock::time_point period_begin_;
    Clock::time_point cut_;
    Clock::time_point due_;
};

// Whether the connection's slice has a pace, and its peers have exceeded it.
bool exceeds_pace(const Connection& connection) noexcept;

// A packet of the connection was marked, or exceeds the pace.
void notice(Connection& connection) noexcept;

// Whether a slowed connection may send a packet with so much payload now. If so, the caller must
// send it. If not, the connection gets a turn when it may.
bool admit(Connection& connection, std::uint32_t payload_bytes) noexcept;

} // namespace vrdma::hca::soft::roce
