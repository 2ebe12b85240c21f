// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// `vrdmactl top`: what each device does per second, from two readings of its counters.
#pragma once

#include <chrono>
#include <optional>

#include "ctl/client.h"
#include "ctl/show.h"

namespace vrdma::ctl {

// {"seconds": 1.0, "devices": [{"name": ..., "rates": {"tx_bytes": 1e6, ...}}]}, the busiest device
// first. A device that is in one of the readings only has no rates. One that was enabled between
// them counts from 0.
nlohmann::json rates(const nlohmann::json& before, const nlohmann::json& after, double seconds);

std::string show_rates(const nlohmann::json& rates, Width width);

// Each call waits, reads, and compares that with the reading before.
class Top {
  public:
    explicit Top(std::chrono::duration<double> interval) : interval_{interval} {}

    Answer next(const Client& client);

  private:
    using Clock = std::chrono::steady_clock;
    struct Reading {
        Clock::time_point time;
        nlohmann::json counters;
    };
    static tl::expected<Reading, Problem> read(const Client& client);

    const std::chrono::duration<double> interval_;
    std::optional<Reading> last_;
};

} // namespace vrdma::ctl
