// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Half a round trip of an 8-byte inline WRITE through the poller, the least that any third party
// costs, and the cost that idle QPs add. One thread plays both guests, in both measurements.
#include <benchmark/benchmark.h>

#include "mediator/bench/parties.h"

namespace vrdma::bench {
namespace {

constexpr std::uint64_t batch = 500;
constexpr int batches = 200;

double relay_ns() {
    Relay relay;
    Samples samples;
    std::uint64_t value = 0;
    for (int i = 0; i < batches; ++i) {
        samples.add(time_each(batch, [&](std::uint64_t) { relay.pass(++value); }));
    }
    return samples.quiet();
}

double half_round_trip_ns(Pair& pair) {
    Samples samples;
    std::uint64_t value = 0;
    for (int i = 0; i < batches; ++i) {
        samples.add(time_each(batch / 2,
                              [&](std::uint64_t) {
                                  ++value;
                                  pair.ping(value);
                                  pair.pong(value);
                              }) /
                    2);
    }
    return samples.quiet();
}

// With one poller, or one per guest. floor_ns: three parties and nothing else. two_party_ns: a
// cache line's way from core to core.
void half_round_trip(benchmark::State& state) {
    const auto pollers = static_cast<unsigned>(state.range(0));
    Samples floors;
    Samples ours;
    while (state.KeepRunning()) {
        floors.add(relay_ns());
        Pair pair{{.pollers = pollers}};
        ours.add(half_round_trip_ns(pair));
    }
    const double floor = floors.quiet();
    const double half = ours.quiet();
    state.counters["half_ns"] = half;
    state.counters["floor_ns"] = floor;
    state.counters["two_party_ns"] = floor / 2;
    state.counters["x_floor"] = half / floor;
}
BENCHMARK(half_round_trip)
    ->ArgName("pollers")
    ->Arg(1)
    ->Arg(2)
    ->Iterations(5)
    ->Unit(benchmark::kMillisecond);

// One active QP among so many idle ones, compared with a QP alone.
void among_idle(benchmark::State& state) {
    Samples alone;
    Samples among;
    while (state.KeepRunning()) {
        {
            Pair pair;
            alone.add(half_round_trip_ns(pair));
        }
        Pair pair{{.idle_pairs = static_cast<std::uint32_t>(state.range(0)) - 1}};
        among.add(half_round_trip_ns(pair));
    }
    const double half = among.quiet();
    state.counters["half_ns"] = half;
    state.counters["alone_ns"] = alone.quiet();
    state.counters["x_alone"] = half / alone.quiet();
}
BENCHMARK(among_idle)->Arg(1)->Arg(100)->Arg(10000)->Iterations(3)->Unit(benchmark::kMillisecond);

} // namespace
} // namespace vrdma::bench
