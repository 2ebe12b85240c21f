// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// How long a peer takes to acknowledge, by RFC 6298. What takes much longer was lost, though the
// QP's own timeout, which its retries are counted by, is not over for long.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "mediator/hca/soft/config.h"
#include "mediator/hca/soft/roce/psn.h"

namespace vrdma::hca::soft::roce {

class RoundTrip {
  public:
    using Nanoseconds = std::chrono::nanoseconds;

    // A packet that asks for an acknowledgement leaves for the first time. One is timed at a time.
    void sent(Psn psn, Clock::time_point now) noexcept {
        if (!timing_) {
            timing_ = true;
            psn_ = psn;
            begin_ = now;
        }
    }

    // Everything before that one has arrived.
    void arrived_before(Psn psn, Clock::time_point now) noexcept {
        if (timing_ && distance(psn_, psn) > 0) {
            timing_ = false;
            take(now - begin_);
        }
    }

    // Packets are sent again: which of them is acknowledged then, nobody can tell (Karn).
    void sent_again() noexcept { timing_ = false; }
    // And that, because patience() was over.
    void lost_patience() noexcept { ++tries_; }

    // When something is taken for lost: twice as late each time, until an answer is timed again, as
    // of a peer that has become slow none would ever be. Nobody knows before the peer has
    // acknowledged anything.
    std::optional<Nanoseconds> patience(Nanoseconds least) const noexcept {
        constexpr unsigned most_tries = 10;
        if (mean_ == Nanoseconds{}) {
            return std::nullopt;
        }
        return std::max(mean_ + 4 * deviation_, least) * (1 << std::min(tries_, most_tries));
    }

  private:
    void take(Nanoseconds time) noexcept {
        tries_ = 0;
        if (mean_ == Nanoseconds{}) {
            mean_ = std::max(time, Nanoseconds{1});
            deviation_ = time / 2;
            return;
        }
        deviation_ += (std::chrono::abs(time - mean_) - deviation_) / 4;
        mean_ += (time - mean_) / 8;
    }

    Nanoseconds mean_{}; // 0: not known
    Nanoseconds deviation_{};
    Clock::time_point begin_;
    Psn psn_ = 0;
    unsigned tries_ = 0;
    bool timing_ = false;
};

} // namespace vrdma::hca::soft::roce
