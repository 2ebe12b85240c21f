// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The rate at which a poller executes small WRITEs, and the speed at which it copies. The baseline
// is memcpy between the same buffers by one thread.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include "bench/cores.h"
#include "bench/report.h"
#include "bench/verbs.h"

namespace vrdma::bench {
namespace {

// A list of WRITEs that is posted again and again. The last WRITE is signaled.
class Batch {
  public:
    Batch(std::size_t length, std::size_t size, std::uint64_t id, const Region& from,
          const Region& to, std::size_t offset)
        : sge_{from.sge(size, offset)}, list_(length) {
        for (std::size_t i = 0; i < length; ++i) {
            ibv_send_wr& wr = list_[i] = write_request(sge_, to);
            wr.wr_id = id;
            wr.next = i + 1 < length ? &list_[i + 1] : nullptr;
        }
        list_.back().send_flags |= IBV_SEND_SIGNALED;
    }
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;
    ~Batch() = default;

    void post(const Qp& qp) { qp.post(list_.front()); }

  private:
    ibv_sge sge_;
    std::deque<ibv_send_wr> list_;
};

// QPs of one device that send batches in turn, as many as their send queues take.
class Streams {
  public:
    // The source begins `offset` bytes after the start of its region.
    Streams(const Pair& pair, std::size_t qps, std::size_t batch, std::size_t size,
            std::size_t offset = 0)
        : pair_{pair}, window_{Pair::depth / batch} {
        for (std::uint64_t id = 0; id < qps; ++id) {
            Stream& stream = streams_.emplace_back(pair, batch, size, id, offset);
            connect_both(stream.from, stream.to);
        }
    }

    // Sends that many batches, and returns when all have completed.
    void run(std::uint64_t batches) {
        for (std::uint64_t sent = 0, done = 0; done < batches;) {
            for (Stream& stream : streams_) {
                if (sent < batches && stream.in_flight < window_) {
                    stream.batch.post(stream.from);
                    ++stream.in_flight;
                    ++sent;
                }
                done += reap();
            }
        }
    }

  private:
    struct Stream {
        Stream(const Pair& pair, std::size_t length, std::size_t size, std::uint64_t id,
               std::size_t offset)
            : from{pair.a, Pair::depth}, to{pair.b, 1}, batch{length,
                                                              size,
                                                              id,
                                                              pair.a_region,
                                                              pair.b_region,
                                                              offset} {}

        Qp from;
        Qp to;
        Batch batch;
        std::size_t in_flight = 0; // batches
    };

    std::uint64_t reap() {
        std::array<ibv_wc, 16> completions;
        const auto found = pair_.a.poll(completions);
        for (const ibv_wc& completion : found) {
            --streams_[completion.wr_id].in_flight;
        }
        return found.size();
    }

    const Pair& pair_;
    const std::size_t window_;
    std::deque<Stream> streams_;
};

void message_rate(benchmark::State& state) {
    pin_to_core(guest_core);
    constexpr std::size_t batch = 32;
    constexpr std::uint64_t batches = 512;
    constexpr int samples_per_turn = 10;
    const Pair pair{0};
    Streams streams{pair, static_cast<std::size_t>(state.range(0)), batch, sizeof(std::uint64_t)};
    const auto send = [&](std::uint64_t) { streams.run(batches); };
    Samples times;
    while (state.KeepRunning()) {
        settle(send);
        for (int i = 0; i < samples_per_turn; ++i) {
            times.add(time_each(1, send) / static_cast<double>(batches * batch));
        }
    }
    report(state, "M/s", 1e3 / times.quiet());
}
BENCHMARK(message_rate)->RangeMultiplier(2)->Range(1, 64)->Iterations(20);

// A buffer of malloc() begins somewhere in a cache line.
void measure_bandwidth(benchmark::State& state, std::size_t offset) {
    pin_to_core(guest_core);
    const auto size = static_cast<std::size_t>(state.range(0));
    constexpr std::size_t sample = 16 << 20; // fits in a scheduler's slice
    const std::size_t batch = size * 4 > sample ? 1 : 4;
    const std::uint64_t batches = std::clamp<std::uint64_t>(sample / size / batch, 2, 1000);
    const Pair pair{0, size + offset};
    Streams streams{pair, 1, batch, size, offset};
    const auto write = [&](std::uint64_t) { streams.run(batches); };
    const auto copy = [&](std::uint64_t) {
        for (std::uint64_t i = 0; i < batches * batch; ++i) {
            std::memcpy(pair.b_region.data(), pair.a_region.data() + offset, size);
            benchmark::ClobberMemory();
        }
    };
    Samples ours;
    Samples memcpys;
    while (state.KeepRunning()) {
        settle(write);
        ours.add(time_each(1, write));
        memcpys.add(time_each(1, copy));
    }
    const auto bytes = static_cast<double>(batches * batch * size);
    report(state, "GB/s", bytes / ours.quiet(), bytes / memcpys.quiet());
}

void write_bandwidth(benchmark::State& state) {
    measure_bandwidth(state, 0);
}
BENCHMARK(write_bandwidth)->RangeMultiplier(4)->Range(64, 64 << 20)->Iterations(40);

void write_bandwidth_askew(benchmark::State& state) {
    constexpr std::size_t as_malloc = 16;
    measure_bandwidth(state, as_malloc);
}
BENCHMARK(write_bandwidth_askew)->RangeMultiplier(4)->Range(4096, 1 << 20)->Iterations(40);

} // namespace
} // namespace vrdma::bench
