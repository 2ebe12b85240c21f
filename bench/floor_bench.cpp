// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The floors of this machine: a cache line's way from core to core, with and without a third party
// between, and memcpy.
#include <cstring>
#include <vector>

#include "bench/cores.h"
#include "bench/relay.h"
#include "bench/report.h"

namespace vrdma::bench {
namespace {

constexpr std::uint64_t floor_batch = 500;
constexpr int batches = 40;

// Half a round trip. With one pass, the relay is the other party itself. With two passes, one
// thread plays both ends, and the relay is between them.
template <int passes>
void floor_relay(benchmark::State& state) {
    pin_to_core(guest_core);
    Times times;
    while (state.KeepRunning()) {
        Relay relay;
        std::uint64_t value = 0;
        const auto round_trip = [&](std::uint64_t) {
            for (int pass = 0; pass < passes; ++pass) {
                relay.pass(++value);
            }
        };
        settle(round_trip);
        for (int i = 0; i < batches; ++i) {
            times.measure(floor_batch, round_trip);
        }
    }
    report(state, "ns", times.means.quiet() / 2);
    report_distribution(state, times.singles, 2);
}
BENCHMARK(floor_relay<1>)->Name("floor_two_parties")->Iterations(1);
BENCHMARK(floor_relay<2>)->Name("floor_three_parties")->Iterations(1);

// A thread for each party, none of them pinned to a core, like two programs and a poller. The relay
// passes both directions.
class Conversation {
  public:
    Conversation() {
        pin_to_any_core();
        relay_ = std::thread{[this] {
            for (std::uint64_t there = 0, back = 0; !stop_.load(std::memory_order_relaxed);) {
                there = copy(from_a_, to_b_, there);
                back = copy(from_b_, to_a_, back);
            }
        }};
        other_ = std::thread{[this] {
            for (std::uint64_t last = 0; !stop_.load(std::memory_order_relaxed);) {
                last = copy(to_b_, from_b_, last);
            }
        }};
    }
    Conversation(const Conversation&) = delete;
    Conversation& operator=(const Conversation&) = delete;
    ~Conversation() {
        stop_.store(true);
        relay_.join();
        other_.join();
    }

    void round_trip(std::uint64_t value) {
        from_a_.put(value);
        to_a_.await(value);
    }

  private:
    static std::uint64_t copy(const Line& from, Line& to, std::uint64_t last) {
        const std::uint64_t value = from.get();
        if (value != last) {
            to.put(value);
        }
        return value;
    }

    Line from_a_, to_b_, from_b_, to_a_;
    std::atomic<bool> stop_{false};
    std::thread relay_;
    std::thread other_;
};

void floor_three_threads(benchmark::State& state) {
    // With fewer cores, each round trip waits for time slices.
    const std::uint64_t round_trips = std::thread::hardware_concurrency() >= 3 ? 20000 : 200;
    Samples singles;
    while (state.KeepRunning()) {
        Conversation conversation;
        std::uint64_t value = 0;
        for (std::uint64_t i = 0; i < round_trips; ++i) {
            singles.add(time_each(1, [&](std::uint64_t) { conversation.round_trip(++value); }));
        }
    }
    report(state, "ns", singles.quantile(0.5) / 2);
    report_distribution(state, singles, 2);
}
BENCHMARK(floor_three_threads)->Iterations(1);

void floor_memcpy(benchmark::State& state) {
    pin_to_core(guest_core);
    const auto size = static_cast<std::size_t>(state.range(0));
    constexpr std::size_t sample = 8 << 20;
    const std::uint64_t rounds = std::max<std::uint64_t>(1, sample / size);
    std::vector<char> from(size, 1);
    std::vector<char> to(size, 2);
    Samples times;
    while (state.KeepRunning()) {
        times.add(time_each(rounds, [&](std::uint64_t) {
            std::memcpy(to.data(), from.data(), size);
            benchmark::ClobberMemory();
        }));
    }
    report(state, "GB/s", static_cast<double>(size) / times.quiet());
}
BENCHMARK(floor_memcpy)->RangeMultiplier(4)->Range(64, 64 << 20)->Iterations(30);

} // namespace
} // namespace vrdma::bench
