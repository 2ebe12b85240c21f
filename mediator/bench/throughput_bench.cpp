// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The rate at which a poller executes small WRITEs, and the speed at which it copies. The baseline
// is memcpy between the same buffers by one thread.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "mediator/bench/parties.h"

namespace vrdma::bench {
namespace {

// Keeps the send queue filled in batches; the last of a batch is signaled.
class Stream {
  public:
    Stream(Pair& pair, std::uint32_t batch, std::uint32_t window)
        : pair_{pair}, batch_{batch}, window_{window} {}

    void post_batch(const test::SendWr& wr) {
        while (in_flight_ == window_) {
            take();
        }
        test::SendWr unsignaled = wr;
        unsignaled.flags &= ~VRDMA_SQ_SIGNALED;
        for (std::uint32_t i = 1; i < batch_; ++i) {
            pair_.a_qp().write_send(unsignaled);
        }
        pair_.a_qp().write_send(wr);
        pair_.a_qp().announce_sends();
        ++in_flight_;
    }

    void finish() {
        while (in_flight_ != 0) {
            take();
        }
    }

  private:
    void take() {
        while (!pair_.a_cq().ready()) {
        }
        pair_.a_cq().take();
        --in_flight_;
    }

    Pair& pair_;
    const std::uint32_t batch_;
    const std::uint32_t window_; // batches
    std::uint32_t in_flight_ = 0;
};

void message_rate(benchmark::State& state) {
    constexpr std::uint32_t batch = 32;
    constexpr std::uint64_t rounds = 64;
    constexpr int batches = 200;
    Pair pair{{.pollers = static_cast<unsigned>(state.range(0))}};
    Stream stream{pair, batch, 7};
    const std::uint64_t value = 1;
    const test::SendWr wr{.opcode = VRDMA_SQ_RDMA_WRITE,
                          .flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
                          .inline_data = std::as_bytes(std::span{&value, 1}),
                          .rkey = pair.b_mr().key,
                          .raddr = pair.b_mr().start};
    Samples samples;
    while (state.KeepRunning()) {
        for (int i = 0; i < batches; ++i) {
            samples.add(time_each(rounds, [&](std::uint64_t) { stream.post_batch(wr); }) / batch);
        }
    }
    stream.finish();
    state.counters["ns"] = samples.quiet();
    state.counters["Mmsg_s"] = 1e3 / samples.quiet();
}
BENCHMARK(message_rate)->ArgName("pollers")->Arg(1)->Iterations(20)->Unit(benchmark::kMillisecond);
// Where three threads share two cores, pollers sleep and wake for each message.
BENCHMARK(message_rate)->ArgName("pollers")->Arg(2)->Iterations(1)->Unit(benchmark::kMillisecond);

// Enough rounds for a sample, but few enough to fit in a scheduler's time slice.
std::uint64_t rounds_of(std::size_t size) {
    constexpr std::size_t sample = 8 << 20;
    return std::clamp<std::uint64_t>(sample / size, 2, 1000);
}

double memcpy_ns(Pair& pair, std::size_t size) {
    std::byte* const from = pair.a_mr().buffer.at(0);
    std::byte* const to = pair.b_mr().buffer.at(0);
    const std::uint64_t rounds = rounds_of(size);
    return time_each(rounds, [&](std::uint64_t) {
        std::memcpy(to, from, size);
        benchmark::ClobberMemory();
    });
}

double write_ns(Pair& pair, std::size_t size) {
    constexpr std::uint32_t batch = 4;
    Stream stream{pair, batch, 8};
    const vrdma_sge from = pair.a_mr().sge(0, static_cast<std::uint32_t>(size));
    const test::SendWr wr{.opcode = VRDMA_SQ_RDMA_WRITE,
                          .sges = {&from, 1},
                          .rkey = pair.b_mr().key,
                          .raddr = pair.b_mr().start};
    const std::uint64_t rounds = std::max<std::uint64_t>(1, rounds_of(size) / batch);
    const auto begin = Clock::now();
    for (std::uint64_t i = 0; i < rounds; ++i) {
        stream.post_batch(wr);
    }
    stream.finish();
    const std::chrono::duration<double, std::nano> taken = Clock::now() - begin;
    return taken.count() / static_cast<double>(rounds * batch);
}

void bandwidth(benchmark::State& state) {
    const auto size = static_cast<std::size_t>(state.range(0));
    Pair pair{{.region_size = size}};
    Samples ours;
    Samples memcpys;
    while (state.KeepRunning()) {
        ours.add(write_ns(pair, size));
        memcpys.add(memcpy_ns(pair, size));
    }
    const auto bytes = static_cast<double>(size);
    state.counters["GB_s"] = bytes / ours.quiet();
    state.counters["memcpy_GB_s"] = bytes / memcpys.quiet();
    state.counters["of_memcpy"] = memcpys.quiet() / ours.quiet();
}
BENCHMARK(bandwidth)
    ->RangeMultiplier(4)
    ->Range(64, 64 << 20)
    ->Iterations(60)
    ->Unit(benchmark::kMillisecond);

} // namespace
} // namespace vrdma::bench
