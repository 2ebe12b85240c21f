// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The longest time for which a QP of a peer completes nothing while the other device moves to
// another vrdmad. ci/vrdmabench moves it when this program says that all QPs are busy.
#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <vector>

#include "bench/report.h"
#include "bench/verbs.h"

namespace vrdma::bench {
namespace {

// Longer than a move takes.
constexpr std::chrono::seconds observed{4};

// 1 s: with 10,000 QPs a move on a busy machine takes longer than the retries of 67 ms.
constexpr std::uint8_t patient = 18;

// The sides that WRITE. Each QP always has one WRITE under way.
class Peer {
  public:
    explicit Peer(std::int64_t qps)
        : pair_{0, region_size, static_cast<int>(qps) + 1}, last_(static_cast<std::size_t>(qps)) {
        wr_.send_flags |= IBV_SEND_SIGNALED;
        for (std::int64_t i = 0; i < qps; ++i) {
            const Qp& from = qps_.emplace_back(pair_.a, 1);
            const Qp& to = qps_.emplace_back(pair_.b, 1);
            from.connect(to, patient);
            to.connect(from);
        }
    }

    void start() {
        const auto now = Clock::now();
        for (std::size_t qp = 0; qp < last_.size(); ++qp) {
            post(qp, now);
        }
    }

    // Returns the longest time that a WRITE has taken, up to `end`.
    Clock::duration run_until(Clock::time_point end) {
        Clock::duration longest{};
        for (auto now = Clock::now(); now < end; now = Clock::now()) {
            std::array<ibv_wc, 64> completions;
            for (const ibv_wc& completion : pair_.a.poll(completions)) {
                longest = std::max(longest, now - last_[completion.wr_id]);
                post(completion.wr_id, now);
            }
        }
        for (const auto last : last_) { // a QP may never have continued
            longest = std::max(longest, end - last);
        }
        return longest;
    }

  private:
    void post(std::uint64_t qp, Clock::time_point now) {
        last_[qp] = now;
        wr_.wr_id = qp;
        qps_[2 * qp].post(wr_);
    }

    static constexpr std::size_t region_size = 4096;

    const Pair pair_;
    ibv_sge sge_ = pair_.a_region.sge(sizeof(std::uint64_t));
    ibv_send_wr wr_ = write_request(sge_, pair_.b_region);
    std::deque<Qp> qps_;
    std::vector<Clock::time_point> last_;
};

void report_gap(benchmark::State& state, Clock::duration gap) {
    report(state, "ms", std::chrono::duration<double, std::milli>{gap}.count());
}

void lifecycle_gap(benchmark::State& state) {
    Peer peer{state.range(0)};
    peer.start();
    peer.run_until(Clock::now() + observed / 4);
    std::puts("busy");
    (void)std::fflush(stdout);
    while (state.KeepRunning()) {
        report_gap(state, peer.run_until(Clock::now() + observed));
    }
}
BENCHMARK(lifecycle_gap)->Arg(16)->Arg(1000)->Arg(10000)->Iterations(1);

} // namespace
} // namespace vrdma::bench
