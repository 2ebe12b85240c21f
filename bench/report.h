// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The format of results: `value` is the result, and `baseline` is there if one was measured. The
// distribution is additional information. The label is the unit.
#pragma once

#include <benchmark/benchmark.h>

#include "bench/samples.h"

namespace vrdma::bench {

// Means of batches give the typical time without the clock's own cost. Single times give the tail.
struct Times {
    Samples means;
    Samples singles;

    template <typename Run>
    void measure(std::uint64_t batch, Run&& run) {
        means.add(time_each(batch, run));
        for (std::uint64_t i = 0; i < batch; ++i) {
            singles.add(time_each(1, run));
        }
    }
};

// Disturbances only ever make a sample longer. Each sample is the time of `parts` operations.
inline void report_distribution(benchmark::State& state, Samples& singles, double parts = 1) {
    state.counters["min"] = singles.quantile(0) / parts;
    state.counters["p50"] = singles.quantile(0.5) / parts;
    state.counters["p99"] = singles.quantile(0.99) / parts;
    state.counters["p99.9"] = singles.quantile(0.999) / parts;
}

inline void report(benchmark::State& state, const char* unit, double value) {
    state.SetLabel(unit);
    state.counters["value"] = value;
}

inline void report(benchmark::State& state, const char* unit, double value, double baseline) {
    report(state, unit, value);
    state.counters["baseline"] = baseline;
}

// Runs long enough that the poller of an earlier measurement, which has no work, stops spinning on
// the other party's core.
template <typename Run>
void settle(Run&& run) {
    constexpr std::chrono::milliseconds longest_spin{3};
    for (const auto end = Clock::now() + longest_spin; Clock::now() < end;) {
        run(0);
    }
}

} // namespace vrdma::bench
