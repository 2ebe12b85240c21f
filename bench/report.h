// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// How a benchmark says what it measured: `value`, and `baseline` where there is one, are what
// counts; the distribution stands beside it. The unit is the label.
#pragma once

#include <benchmark/benchmark.h>

#include "bench/samples.h"

namespace vrdma::bench {

// Means of batches, for what is typical without the clock's own cost; single times, for the tail.
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

// What was disturbed only ever takes longer. `parts`: a sample's time is that of so many.
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

// Runs for as long as what was measured before may go on spinning on the other's core: a poller
// that finds no work.
template <typename Run>
void settle(Run&& run) {
    constexpr std::chrono::milliseconds longest_spin{3};
    for (const auto end = Clock::now() + longest_spin; Clock::now() < end;) {
        run(0);
    }
}

} // namespace vrdma::bench
