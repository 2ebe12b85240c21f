// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What it costs a device that its virtual machine monitor asks which pages it has written. The
// module takes the dirty bits of the page tables, and flushes the TLBs (vfio-mdev/log.c). The next
// write to each page sets the bit again. Here a thread has the kernel do the same to the memory
// that is written: MADV_FREE clears the bits of private memory, which keeps its contents if it is
// written again, and may lose them otherwise. Nobody reads them. Baseline, in turns: no questions.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "mediator/bench/stream.h"

namespace vrdma::bench {
namespace {

// Passes of a migration are rarely shorter.
constexpr std::chrono::milliseconds between_questions{100};

void make_private(const test::MemoryRegion& region) {
    void* const place = region.buffer.at(0);
    const std::uint64_t size = region.buffer.size();
    if (::mmap(place, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
               0) == MAP_FAILED ||
        ::madvise(place, size, MADV_NOHUGEPAGE) != 0) {
        std::abort();
    }
    std::memset(place, 1, size);
}

// Asks until it is destroyed.
class Questions {
  public:
    explicit Questions(const test::MemoryRegion& region)
        : region_{region}, thread_{[this] { run(); }} {}
    Questions(const Questions&) = delete;
    Questions& operator=(const Questions&) = delete;
    ~Questions() {
        done_ = true;
        thread_.join();
    }

  private:
    void run() {
        for (auto next = Clock::now(); !done_; next += between_questions) {
            std::this_thread::sleep_until(next);
            if (::madvise(region_.buffer.at(0), region_.buffer.size(), MADV_FREE) != 0) {
                std::abort();
            }
        }
    }

    const test::MemoryRegion& region_;
    std::atomic<bool> done_{false};
    std::thread thread_;
};

// Several questions long.
template <typename Post>
double mean_ns(Post&& post) {
    constexpr std::chrono::milliseconds duration{400};
    std::uint64_t posted = 0;
    const auto begin = Clock::now();
    auto now = begin;
    for (; now - begin < duration; now = Clock::now()) {
        posted += post();
    }
    return std::chrono::duration<double, std::nano>{now - begin}.count() /
           static_cast<double>(posted);
}

struct Tracking {
    template <typename Post>
    void measure(benchmark::State& state, Pair& pair, Post&& post) {
        make_private(pair.b_mr());
        while (state.KeepRunning()) {
            off.add(mean_ns(post));
            const Questions questions{pair.b_mr()};
            on.add(mean_ns(post));
        }
    }

    Samples off;
    Samples on;
};

// 64 KiB at a time, to so much memory in turn.
void tracked_bandwidth(benchmark::State& state) {
    constexpr std::uint32_t size = 64 << 10;
    constexpr std::uint32_t batch = 4;
    const auto written = static_cast<std::uint64_t>(state.range(0));
    Pair pair{{.region_size = written}};
    Stream stream{pair, batch, 8};
    const vrdma_sge from = pair.a_mr().sge(0, size);
    test::SendWr wr{.opcode = VRDMA_SQ_RDMA_WRITE, .sges = {&from, 1}, .rkey = pair.b_mr().key};
    std::uint64_t place = 0;
    Tracking tracking;
    tracking.measure(state, pair, [&] {
        wr.raddr = pair.b_mr().start + place;
        place = (place + size) % written;
        stream.post_batch(wr);
        return batch;
    });
    stream.finish();
    state.counters["GB_s"] = size / tracking.on.quiet();
    state.counters["off_GB_s"] = size / tracking.off.quiet();
}
BENCHMARK(tracked_bandwidth)
    ->RangeMultiplier(16)
    ->Range(256 << 10, 64 << 20)
    ->Iterations(8)
    ->Unit(benchmark::kMillisecond);

// 8 bytes, to one page.
void tracked_rate(benchmark::State& state) {
    constexpr std::uint32_t batch = 32;
    Pair pair;
    Stream stream{pair, batch, 7};
    const std::uint64_t value = 1;
    const test::SendWr wr = word_write(pair, value);
    Tracking tracking;
    tracking.measure(state, pair, [&] {
        stream.post_batch(wr);
        return batch;
    });
    stream.finish();
    state.counters["Mmsg_s"] = 1e3 / tracking.on.quiet();
    state.counters["off_Mmsg_s"] = 1e3 / tracking.off.quiet();
}
BENCHMARK(tracked_rate)->Iterations(8)->Unit(benchmark::kMillisecond);

} // namespace
} // namespace vrdma::bench
