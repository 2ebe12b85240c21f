// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The service that a tenant gets while another one does its worst: an 8-byte WRITE, a control verb,
// and its share of the bandwidth. ci/vrdmabench starts the other tenant.
#include <algorithm>
#include <array>
#include <cmath>
#include <deque>

#include "bench/cores.h"
#include "bench/report.h"
#include "bench/verbs.h"
#include "bench/witness.h"

namespace vrdma::bench {
namespace {

constexpr std::chrono::milliseconds duration{700};
constexpr int most_samples = 20000;
constexpr int fewest_samples = 5;

// Stops after `most_samples` or after `duration`, because a neighbour may make each run long.
template <typename Run>
Samples measure_single(Run&& run) {
    Witness witness;
    Samples undisturbed;
    Samples all;
    int kept = 0;
    const auto end = Clock::now() + duration;
    for (int i = 0; i < most_samples && (i < fewest_samples || Clock::now() < end); ++i) {
        witness.disturbed();
        const double us = time_each(1, run) / 1e3;
        all.add(us);
        if (!witness.disturbed()) {
            undisturbed.add(us);
            ++kept;
        }
    }
    return kept >= fewest_samples ? undisturbed : all;
}

void report_tail(benchmark::State& state, Samples& samples) {
    report(state, "us", samples.quantile(0.99));
    report_distribution(state, samples);
    state.counters["max"] = samples.quantile(1);
}

// Measures from posting until the bytes are there.
class Victim {
  public:
    void write() {
        ++value_;
        *reinterpret_cast<std::uint64_t*>(pair_.a_region.data()) = value_;
        const bool signaled = value_ % signal_interval == 0;
        wr_.send_flags = IBV_SEND_INLINE | (signaled ? IBV_SEND_SIGNALED : 0);
        pair_.a_qp.post(wr_);
        await(*reinterpret_cast<const std::uint64_t*>(pair_.b_region.data()), value_);
        if (signaled) {
            pair_.a.await_completion();
        }
    }

  private:
    static constexpr std::uint64_t signal_interval = Pair::depth / 4;

    const Pair pair_{0};
    ibv_sge sge_ = pair_.a_region.sge(sizeof(std::uint64_t));
    ibv_send_wr wr_ = write_request(sge_, pair_.b_region);
    std::uint64_t value_ = 0;
};

void isolation_write(benchmark::State& state) {
    pin_to_core(guest_core);
    Victim victim;
    while (state.KeepRunning()) {
        Samples samples = measure_single([&](std::uint64_t) { victim.write(); });
        report_tail(state, samples);
    }
}
BENCHMARK(isolation_write)->Iterations(1);

void isolation_query(benchmark::State& state) {
    pin_to_core(guest_core);
    const Pair pair{0};
    while (state.KeepRunning()) {
        Samples samples = measure_single([&](std::uint64_t) { pair.a_qp.query(); });
        report_tail(state, samples);
    }
}
BENCHMARK(isolation_query)->Iterations(1);

void isolation_create(benchmark::State& state) {
    pin_to_core(guest_core);
    const Device device{0};
    while (state.KeepRunning()) {
        Samples samples = measure_single([&](std::uint64_t) { device.make_cq(64); });
        report_tail(state, samples);
    }
}
BENCHMARK(isolation_create)->Iterations(1);

// A tenant that always has the same number of outstanding WRITEs, over that many QPs.
class Tenant {
  public:
    Tenant(unsigned first_device, std::int64_t qps) : pair_{first_device, message} {
        wr_.send_flags = IBV_SEND_SIGNALED;
        const auto depth = static_cast<std::uint32_t>(outstanding / qps);
        for (std::int64_t i = 0; i < qps; ++i) {
            const Qp& from = qps_.emplace_back(pair_.a, depth);
            const Qp& to = qps_.emplace_back(pair_.b, 1);
            connect_both(from, to);
            for (std::uint32_t posted = 0; posted < depth; ++posted) {
                post(qps_.size() - 2);
            }
        }
    }

    // Posts a WRITE for each one that has completed.
    void go_on() {
        std::array<ibv_wc, 64> completions;
        for (const ibv_wc& completion : pair_.a.poll(completions)) {
            ++done_;
            post(completion.wr_id);
        }
    }
    double done() const { return static_cast<double>(done_); }

  private:
    static constexpr std::size_t message = 64 << 10;
    static constexpr std::int64_t outstanding = 1024;

    void post(std::uint64_t qp) {
        wr_.wr_id = qp;
        qps_[qp].post(wr_);
    }

    const Pair pair_;
    ibv_sge sge_ = pair_.a_region.sge(message);
    ibv_send_wr wr_ = write_request(sge_, pair_.b_region);
    std::deque<Qp> qps_;
    std::uint64_t done_ = 0;
};

// The difference in bandwidth between two tenants, one of which has more QPs.
void isolation_share(benchmark::State& state) {
    pin_to_core(guest_core);
    Tenant one{0, 1};
    Tenant other{2, state.range(0)};
    const auto run = [&](Clock::time_point end) {
        while (Clock::now() < end) {
            one.go_on();
            other.go_on();
        }
    };
    while (state.KeepRunning()) {
        run(Clock::now() + duration / 4);
        const double one_before = one.done();
        const double other_before = other.done();
        run(Clock::now() + duration);
        const double a = one.done() - one_before;
        const double b = other.done() - other_before;
        report(state, "%", 100 * std::abs(a - b) / std::max({a, b, 1.0}));
    }
}
BENCHMARK(isolation_share)->Arg(1)->Arg(16)->Iterations(1);

} // namespace
} // namespace vrdma::bench
