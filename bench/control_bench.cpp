// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The cost of control verbs: registering memory, and making a connected QP and the objects that it
// needs. The baselines, in turns with them: memcpy into new memory for memory that has to be moved,
// and a round trip between two threads that sleep, by eventfds, for each other verb.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "bench/report.h"
#include "bench/sleeper.h"
#include "bench/verbs.h"

namespace vrdma::bench {
namespace {

enum class Before { untouched, touched, registered };

// How often a verb is called. In a guest without hardware virtualization the usual number takes
// minutes; there, VRDMA_BENCH_CALLS limits it.
int calls(int usual) {
    const char* const most = std::getenv("VRDMA_BENCH_CALLS");
    return most == nullptr
               ? usual
               : static_cast<int>(std::clamp<long>(std::strtol(most, nullptr, 10), 1, usual));
}

double copy_into_new_memory(const Memory& memory) {
    const Memory copy{memory.size()};
    return time_each(1, [&](std::uint64_t) {
        std::memcpy(copy.bytes().data(), memory.bytes().data(), memory.size());
    });
}

// The state of the memory: without pages, with pages, or registered before.
void reg_mr(benchmark::State& state, Before before) {
    const auto size = static_cast<std::size_t>(state.range(0));
    const Device device{0};
    Samples times;
    Samples copies;
    while (state.KeepRunning()) {
        const Memory memory{size};
        if (before != Before::untouched) {
            std::memset(memory.bytes().data(), 1, size);
        }
        if (before == Before::registered) {
            register_memory(device, memory);
        }
        if (before == Before::touched) {
            copies.add(copy_into_new_memory(memory) / 1e3);
        }
        Mr mr;
        times.add(time_each(1, [&](std::uint64_t) { mr = register_memory(device, memory); }) / 1e3);
    }
    report(state, "us", times.quantile(0.5));
    if (before == Before::touched) {
        state.counters["baseline"] = copies.quantile(0.5);
    }
    report_distribution(state, times);
}

void small_regions(benchmark::internal::Benchmark* benchmark) {
    benchmark->RangeMultiplier(16)->Range(4 << 10, 1 << 20)->Iterations(calls(200));
}

void large_regions(benchmark::internal::Benchmark* benchmark) {
    benchmark->RangeMultiplier(8)->Range(16 << 20, 1 << 30)->Iterations(3);
}

BENCHMARK_CAPTURE(reg_mr, untouched, Before::untouched)->Apply(small_regions);
BENCHMARK_CAPTURE(reg_mr, touched, Before::touched)->Apply(small_regions);
BENCHMARK_CAPTURE(reg_mr, again, Before::registered)->Apply(small_regions);
BENCHMARK_CAPTURE(reg_mr, untouched, Before::untouched)->Apply(large_regions);
BENCHMARK_CAPTURE(reg_mr, touched, Before::touched)->Apply(large_regions);
BENCHMARK_CAPTURE(reg_mr, again, Before::registered)->Apply(large_regions);

// The life of all objects other than memory, verb by verb.
enum class Verb {
    alloc_pd,
    create_cq,
    create_srq,
    create_ah,
    create_qp,
    modify_init,
    modify_rtr,
    modify_rts,
    query_qp,
    modify_err,
    modify_reset,
    destroy_qp,
    destroy_ah,
    destroy_srq,
    destroy_cq,
    dealloc_pd,
    connect, // a QP from create_qp to modify_rts
    baseline,
};
constexpr std::size_t verbs = 18;
constexpr int verbs_to_connect = 4;
constexpr int usual_lives = 500;
constexpr std::uint32_t depth = 64;

using VerbTimes = std::array<Samples, verbs>;

class Stopwatch {
  public:
    explicit Stopwatch(VerbTimes& times) : times_{times} {}

    // Executes a verb; returns how long it took, in us.
    template <typename Run>
    double step(Verb verb, Run&& run) {
        const double took = time_each(1, [&](std::uint64_t) { run(); }) / 1e3;
        times_[static_cast<std::size_t>(verb)].add(took);
        return took;
    }
    void add(Verb verb, double took) { times_[static_cast<std::size_t>(verb)].add(took); }

  private:
    VerbTimes& times_;
};

void live_qp(Stopwatch& watch, const Device& device, const Qp& peer) {
    std::optional<Qp> qp;
    double all = watch.step(Verb::create_qp, [&] { qp.emplace(device, depth); });
    all += watch.step(Verb::modify_init, [&] { qp->initialize(); });
    all += watch.step(Verb::modify_rtr, [&] { qp->ready_to_receive(peer); });
    all += watch.step(Verb::modify_rts, [&] { qp->ready_to_send(); });
    watch.add(Verb::connect, all);
    watch.step(Verb::query_qp, [&] { qp->query(); });
    watch.step(Verb::modify_err, [&] { qp->to_state(IBV_QPS_ERR); });
    watch.step(Verb::modify_reset, [&] { qp->to_state(IBV_QPS_RESET); });
    watch.step(Verb::destroy_qp, [&] { qp.reset(); });
}

void live(Stopwatch& watch, const Device& device, const Qp& peer) {
    Pd pd;
    watch.step(Verb::alloc_pd, [&] { pd = device.make_pd(); });
    Cq cq;
    watch.step(Verb::create_cq, [&] { cq = device.make_cq(depth); });
    Srq srq;
    watch.step(Verb::create_srq, [&] { srq = device.make_srq(depth); });
    Ah ah;
    watch.step(Verb::create_ah, [&] { ah = device.make_ah(); });
    live_qp(watch, device, peer);
    watch.step(Verb::destroy_ah, [&] { ah.reset(); });
    watch.step(Verb::destroy_srq, [&] { srq.reset(); });
    watch.step(Verb::destroy_cq, [&] { cq.reset(); });
    watch.step(Verb::dealloc_pd, [&] { pd.reset(); });
}

// Executes all verbs in turn. It runs once, for all benchmarks, each of which reports one verb.
VerbTimes measure_verbs() {
    VerbTimes times;
    Stopwatch watch{times};
    const Device device{0};
    const Device peer_device{1};
    const Qp peer{peer_device, depth};
    Sleeper sleeper{Sleeper::ordinary};
    for (int lives = calls(usual_lives); lives > 0; --lives) {
        live(watch, device, peer);
        watch.step(Verb::baseline, [&] {
            sleeper.ask();
            sleeper.sleep_for_answer();
        });
    }
    return times;
}

void control_verb(benchmark::State& state, Verb verb) {
    static VerbTimes times = measure_verbs();
    while (state.KeepRunning()) {
    }
    Samples& samples = times[static_cast<std::size_t>(verb)];
    const double round_trip = times[static_cast<std::size_t>(Verb::baseline)].quantile(0.5);
    report(state, "us", samples.quantile(0.5),
           verb == Verb::connect ? verbs_to_connect * round_trip : round_trip);
    report_distribution(state, samples);
}
#define CONTROL_VERB(name) BENCHMARK_CAPTURE(control_verb, name, Verb::name)->Iterations(1)
CONTROL_VERB(alloc_pd);
CONTROL_VERB(create_cq);
CONTROL_VERB(create_srq);
CONTROL_VERB(create_ah);
CONTROL_VERB(create_qp);
CONTROL_VERB(modify_init);
CONTROL_VERB(modify_rtr);
CONTROL_VERB(modify_rts);
CONTROL_VERB(connect);
CONTROL_VERB(query_qp);
CONTROL_VERB(modify_err);
CONTROL_VERB(modify_reset);
CONTROL_VERB(destroy_qp);
CONTROL_VERB(destroy_ah);
CONTROL_VERB(destroy_srq);
CONTROL_VERB(destroy_cq);
CONTROL_VERB(dealloc_pd);

} // namespace
} // namespace vrdma::bench
