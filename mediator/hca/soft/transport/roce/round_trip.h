// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Measures how long a peer takes to acknowledge, by RFC 6298. A packet that takes much longer
// counts as lost, long before the end of the QP's own timeout, by which its retries are counted.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "mediator/hca/soft/config.h"
#include "mediator/hca/soft/transport/roce/psn.h"

namespace vrdma::hca::soft::roce {

class RoundTrip {
  public:
    using Nanoseconds = std::chrono::nanoseconds;

    // A packet that asks for an acknowledgement is sent for the first time. One packet is timed at
    // a time.
    void sent(Psn psn, Clock::time_point now) noexcept {
        if (!timing_) {
            timing_ = true;
            psn_ = psn;
            begin_ = now;
        }
    }

    // All packets before `psn` have arrived.
    void arrived_before(Psn psn, Clock::time_point now) noexcept {
        if (timing_ && distance(psn_, psn) > 0) {
            timing_ = false;
            take(now - begin_);
        }
    }

    // Packets are retransmitted. It is then unknown which transmission is acknowledged (Karn's
    // algorithm).
    void sent_again() noexcept { timing_ = false; }
    // They are retransmitted because rto() was over.
    void back_off() noexcept { ++tries_; }

    // The time after which a packet counts as lost (the RTO). It doubles at each try, until an
    // answer is timed again. Otherwise no answer of a peer that has become slow would ever be
    // timed. Before the peer has acknowledged anything, the time is unknown.
    std::optional<Nanoseconds> rto(Nanoseconds least) const noexcept {
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
