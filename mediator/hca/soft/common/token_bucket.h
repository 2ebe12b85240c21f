// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A limit in units per second, kept as the time at which everything that was taken is paid for.
// More may be taken while that time is at most a burst ahead of the clock, and taking may make a
// debt. So the amount need not be known beforehand, and nothing is refilled.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mediator/hca/soft/config.h"

namespace vrdma::hca::soft {

class TokenBucket {
  public:
    static constexpr std::chrono::milliseconds burst{10};

    // `rate` is in units per second; 0: no limit. If the new rate is higher, a debt is paid at the
    // new rate: after a limit is raised, nobody waits for what was taken under the old one.
    void set_rate(std::uint64_t rate, Clock::time_point now) noexcept {
        if (rate == 0 || paid_ <= now) {
            paid_ = now;
        } else if (rate > rate_) {
            const auto debt = static_cast<double>((paid_ - now).count());
            const double part = static_cast<double>(rate_) / static_cast<double>(rate);
            paid_ = now + std::chrono::nanoseconds{static_cast<std::int64_t>(debt * part)};
        }
        rate_ = rate;
        rest_ = 0;
    }

    void take(std::uint64_t units, Clock::time_point now) noexcept {
        if (rate_ == 0) {
            return;
        }
        paid_ = std::max(paid_, now);
        const std::uint64_t due = std::min(units, most) * nanoseconds + rest_;
        paid_ += std::chrono::nanoseconds{due / rate_};
        rest_ = due % rate_;
    }

    // Forgives what would be paid later than that.
    void bound_debt(Clock::duration longest, Clock::time_point now) noexcept {
        paid_ = std::min(paid_, now + longest);
    }

    // The time from which on more may be taken.
    Clock::time_point open() const noexcept {
        return rate_ == 0 ? Clock::time_point::min() : paid_ - burst;
    }

  private:
    static constexpr std::uint64_t nanoseconds = 1'000'000'000;
    static constexpr std::uint64_t most = 1ull << 33; // its product with `nanoseconds` fits

    std::uint64_t rate_ = 0;
    std::uint64_t rest_ = 0; // of less than a nanosecond, times the rate
    Clock::time_point paid_{};
};

} // namespace vrdma::hca::soft
