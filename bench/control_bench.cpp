// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Control verbs: what registering memory and making a connected QP take.
#include <cstring>
#include <optional>

#include "bench/report.h"
#include "bench/verbs.h"

namespace vrdma::bench {
namespace {

enum class Before { untouched, touched, registered };

// What a registration finds: memory without pages, with pages, or that was registered before.
void reg_mr(benchmark::State& state, Before before) {
    const auto size = static_cast<std::size_t>(state.range(0));
    const Device device{0};
    Samples times;
    while (state.KeepRunning()) {
        const Memory memory{size};
        if (before != Before::untouched) {
            std::memset(memory.bytes().data(), 1, size);
        }
        if (before == Before::registered) {
            register_memory(device, memory);
        }
        Mr mr;
        times.add(time_each(1, [&](std::uint64_t) { mr = register_memory(device, memory); }) / 1e3);
    }
    report(state, "us", times.quantile(0.5));
    report_distribution(state, times);
}

void small_regions(benchmark::internal::Benchmark* benchmark) {
    benchmark->RangeMultiplier(16)->Range(4 << 10, 1 << 20)->Iterations(200);
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

constexpr int qps = 500;
constexpr std::uint32_t depth = 64;

// The life of a QP, one step of which is timed.
enum class Step { create, init, rtr, rts, destroy, all };

void qp_verb(benchmark::State& state, Step timed) {
    const Device device{0};
    const Device peer_device{1};
    const Qp peer{peer_device, depth};
    Samples times;
    while (state.KeepRunning()) {
        std::optional<Qp> qp;
        double all = 0;
        const auto step = [&](Step which, auto&& run) {
            const double took = time_each(1, [&](std::uint64_t) { run(); }) / 1e3;
            all += took;
            if (which == timed) {
                times.add(took);
            }
        };
        step(Step::create, [&] { qp.emplace(device, depth); });
        step(Step::init, [&] { qp->initialize(); });
        step(Step::rtr, [&] { qp->ready_to_receive(peer); });
        step(Step::rts, [&] { qp->ready_to_send(); });
        step(Step::destroy, [&] { qp.reset(); });
        if (timed == Step::all) {
            times.add(all);
        }
    }
    report(state, "us", times.quantile(0.5));
    report_distribution(state, times);
}
BENCHMARK_CAPTURE(qp_verb, create, Step::create)->Iterations(qps);
BENCHMARK_CAPTURE(qp_verb, modify_init, Step::init)->Iterations(qps);
BENCHMARK_CAPTURE(qp_verb, modify_rtr, Step::rtr)->Iterations(qps);
BENCHMARK_CAPTURE(qp_verb, modify_rts, Step::rts)->Iterations(qps);
BENCHMARK_CAPTURE(qp_verb, destroy, Step::destroy)->Iterations(qps);
BENCHMARK_CAPTURE(qp_verb, life, Step::all)->Iterations(qps);

} // namespace
} // namespace vrdma::bench
