// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The cost of not spinning: the first message to a sleeping poller, a program that sleeps until its
// completion, and the CPU time of an idle device. The baseline, measured in turns with them, is a
// thread that is woken by an eventfd and answers in the same way. This is the kernel's part.
#include <cstdlib>
#include <thread>

#include "bench/cores.h"
#include "bench/report.h"
#include "bench/sleeper.h"
#include "bench/verbs.h"

namespace vrdma::bench {
namespace {

constexpr int wakeups = 200;

// After this time, a poller without work sleeps (see ci/vrdmabench/devices.py).
void let_sleep() {
    std::this_thread::sleep_for(std::chrono::milliseconds{4});
}

class Message {
  public:
    explicit Message(const Pair& pair)
        : pair_{pair},
          word_{*reinterpret_cast<std::uint64_t*>(pair.a_region.data())},
          target_{*reinterpret_cast<std::uint64_t*>(pair.b_region.data())},
          sge_{pair.a_region.sge(sizeof(std::uint64_t))},
          wr_{write_request(sge_, pair.b_region)} {
        wr_.send_flags |= IBV_SEND_SIGNALED;
    }

    void send() {
        ++word_;
        pair_.a_qp.post(wr_);
    }
    void spin_for_arrival() const { await(target_, word_); }

  private:
    const Pair& pair_;
    std::uint64_t& word_;
    const std::uint64_t& target_;
    ibv_sge sge_;
    ibv_send_wr wr_;
};

void report_wakeups(benchmark::State& state, Samples& ours, Samples& baseline) {
    report(state, "us", ours.quantile(0.5) / 1e3, baseline.quantile(0.5) / 1e3);
    report_distribution(state, ours, 1e3);
}

// From posting to a sleeping poller until the bytes are there.
void wakeup_write(benchmark::State& state) {
    pin_to_core(guest_core);
    const Pair pair{0};
    Message message{pair};
    Sleeper sleeper{Sleeper::as_poller};
    Samples ours;
    Samples baseline;
    std::uint64_t number = 0;
    while (state.KeepRunning()) {
        let_sleep();
        ours.add(time_each(1, [&](std::uint64_t) {
            message.send();
            message.spin_for_arrival();
        }));
        pair.a.await_completion();
        let_sleep();
        baseline.add(time_each(1, [&](std::uint64_t) {
            sleeper.ask();
            sleeper.spin_for_answer(++number);
        }));
    }
    report_wakeups(state, ours, baseline);
}
BENCHMARK(wakeup_write)->Iterations(wakeups);

// From posting to a sleeping poller until ibv_get_cq_event() has returned.
void wakeup_event(benchmark::State& state) {
    pin_to_any_core();
    const Pair pair{0};
    Message message{pair};
    Sleeper sleeper{Sleeper::as_poller};
    Samples ours;
    Samples baseline;
    while (state.KeepRunning()) {
        check(::ibv_req_notify_cq(pair.a.cq(), 0), "ibv_req_notify_cq");
        let_sleep();
        ours.add(time_each(1, [&](std::uint64_t) {
            message.send();
            pair.a.await_event();
        }));
        pair.a.await_completion();
        let_sleep();
        baseline.add(time_each(1, [&](std::uint64_t) {
            sleeper.ask();
            sleeper.sleep_for_answer();
        }));
    }
    report_wakeups(state, ours, baseline);
}
BENCHMARK(wakeup_event)->Iterations(wakeups);

double cpu_seconds(clockid_t clock) {
    timespec time{};
    check(::clock_gettime(clock, &time) != 0 ? errno : 0, "clock_gettime");
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

clockid_t mediator_clock() {
    const char* const pid = std::getenv("VRDMA_BENCH_MEDIATOR");
    clockid_t clock{};
    check(pid == nullptr
              ? EINVAL
              : ::clock_getcpuclockid(static_cast<pid_t>(std::strtol(pid, nullptr, 10)), &clock),
          "VRDMA_BENCH_MEDIATOR");
    return clock;
}

// Percent of a core that vrdmad takes while so many QPs are connected and nothing is sent.
void idle_cpu(benchmark::State& state) {
    const clockid_t mediator = mediator_clock();
    const Pair pair{0};
    const std::deque<Qp> idle = connect_idle(pair, state.range(0) - 1);
    let_sleep();
    Samples percent;
    while (state.KeepRunning()) {
        const double before = cpu_seconds(mediator);
        const double ours_before = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
        const double wall_ns = time_each(
            1, [](std::uint64_t) { std::this_thread::sleep_for(std::chrono::seconds{2}); });
        percent.add((cpu_seconds(mediator) - before) / wall_ns * 1e11);
        state.counters["program"] =
            (cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - ours_before) / wall_ns * 1e11;
    }
    report(state, "%", percent.quantile(0.5));
}
BENCHMARK(idle_cpu)->Arg(1)->Arg(1000)->Iterations(1);

} // namespace
} // namespace vrdma::bench
