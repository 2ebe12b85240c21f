// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The rate at which a poller executes small WRITEs, and the speed at which it copies. The baseline
// is memcpy between the same buffers by one thread.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "mediator/bench/stream.h"
#include "mediator/sniffer/pcapng.h"
#include "mediator/sniffer/ring.h"

namespace vrdma::bench {
namespace {

void message_rate(benchmark::State& state) {
    constexpr std::uint32_t batch = 32;
    constexpr std::uint64_t rounds = 64;
    constexpr int batches = 200;
    Pair pair{{.pollers = static_cast<unsigned>(state.range(0))}};
    Stream stream{pair, batch, 7};
    const std::uint64_t value = 1;
    const test::SendWr wr = word_write(pair, value);
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

// Reads a ring as vrdma-management does: for a part of the time.
class SnifferReader {
  public:
    explicit SnifferReader(const UniqueFd& file)
        : ring_{std::move(*sniffer::RingReader::open(file))}, thread_{[this] { run(); }} {}
    SnifferReader(const SnifferReader&) = delete;
    SnifferReader& operator=(const SnifferReader&) = delete;
    ~SnifferReader() {
        done_ = true;
        thread_.join();
    }

  private:
    void run() {
        constexpr std::chrono::milliseconds interval{10};
        constexpr std::chrono::microseconds turn{500};
        for (auto begin = Clock::now(); !done_; begin = Clock::now()) {
            while (Clock::now() - begin < turn && read_some()) {
            }
            std::this_thread::sleep_until(begin + interval);
        }
    }
    bool read_some() {
        constexpr std::size_t at_a_time = 32 << 10;
        file_.clear();
        while (file_.size() < at_a_time) {
            const auto frame = ring_.next();
            if (!frame) {
                return false;
            }
            sniffer::Pcapng{file_}.add(frame->bytes, frame->record.original, frame->record.time_ns,
                                       frame->record.direction);
        }
        ring_.release();
        return true;
    }

    sniffer::RingReader ring_;
    std::string file_;
    std::atomic<bool> done_{false};
    std::thread thread_;
};

// The rate with a sniffer. Baseline, in turns with it: the rate without.
void sniffed_rate(benchmark::State& state) {
    constexpr std::uint32_t batch = 32;
    constexpr std::uint64_t rounds = 10'000; // long enough for a turn of the reader
    Pair pair;
    Stream stream{pair, batch, 7};
    auto created = sniffer::Ring::create(sniffer::usual_payload);
    const std::uint64_t value = 1;
    const test::SendWr wr = word_write(pair, value);
    const auto rate = [&] {
        return time_each(rounds, [&](std::uint64_t) { stream.post_batch(wr); }) / batch;
    };
    Samples off;
    Samples on;
    while (state.KeepRunning()) {
        off.add(rate());
        const SnifferReader reader{created->file};
        pair.a().slice().set_sniffer(&created->ring);
        on.add(rate());
        pair.a().slice().set_sniffer(nullptr);
    }
    stream.finish();
    state.counters["Mmsg_s"] = 1e3 / on.quiet();
    state.counters["off_Mmsg_s"] = 1e3 / off.quiet();
    state.counters["of_off"] = off.quiet() / on.quiet();
    state.counters["recorded"] = 1 - static_cast<double>(created->ring.dropped()) /
                                         static_cast<double>(created->ring.frames());
}
BENCHMARK(sniffed_rate)->Iterations(60)->Unit(benchmark::kMillisecond);

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
