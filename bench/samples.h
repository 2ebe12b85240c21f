// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Measured times and their quantiles.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace vrdma::bench {

using Clock = std::chrono::steady_clock;

class Samples {
  public:
    void add(double value) { values_.push_back(value); }
    // The value that `part` of all samples does not exceed. There must be samples.
    double quantile(double part);
    // The tenth percentile, which counts for short samples. Other programs use this machine, too,
    // and a sample in which one of the parties lost its core is meaningless.
    double quiet() { return quantile(0.1); }

  private:
    std::vector<double> values_;
};

// Nanoseconds for each of `count` calls of run(i).
template <typename Run>
double time_each(std::uint64_t count, Run&& run) {
    const auto begin = Clock::now();
    for (std::uint64_t i = 0; i < count; ++i) {
        run(i);
    }
    const std::chrono::duration<double, std::nano> taken = Clock::now() - begin;
    return taken.count() / static_cast<double>(count);
}

} // namespace vrdma::bench
