// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Half a round trip. One thread plays both sides, so only it and the poller spin. The baseline,
// measured in turns with it, is the relay: as many threads, on the same cores, that move the same
// cache lines.
#include "bench/cores.h"
#include "bench/relay.h"
#include "bench/report.h"
#include "bench/verbs.h"

namespace vrdma::bench {
namespace {

constexpr std::uint64_t batch = 250; // round trips
constexpr int turns = 20;
constexpr int batches_per_turn = 4;

// The last word that a message writes. It arrives last.
std::uint64_t& last_word(const Region& region, std::size_t size) {
    return *reinterpret_cast<std::uint64_t*>(region.data() + size - sizeof(std::uint64_t));
}

// Messages from one side to the other.
class Way {
  public:
    Way(ibv_wr_opcode opcode, std::size_t size, const Device& device, const Qp& qp,
        const Region& from, const Region& to)
        : device_{device},
          qp_{qp},
          word_{last_word(from, size)},
          sge_{from.sge(size)},
          wr_{write_request(sge_, to)} {
        wr_.opcode = opcode;
    }
    Way(const Way&) = delete;
    Way& operator=(const Way&) = delete;
    ~Way() = default;

    // Few messages are signaled, only to free the send queue.
    void send(std::uint64_t value) {
        word_ = value;
        const bool signaled = ++sent_ % signal_interval == 0;
        const unsigned flags = wr_.send_flags;
        wr_.send_flags |= signaled ? IBV_SEND_SIGNALED : 0;
        qp_.post(wr_);
        wr_.send_flags = flags;
        signaled_ = signaled;
    }
    // Call it after the message has arrived.
    void finish() const {
        if (signaled_) {
            device_.await_completion();
        }
    }

  private:
    static constexpr std::uint64_t signal_interval = Pair::depth / 4;

    const Device& device_;
    const Qp& qp_;
    std::uint64_t& word_;
    ibv_sge sge_;
    ibv_send_wr wr_;
    std::uint64_t sent_ = 0;
    bool signaled_ = false;
};

class WritePingPong {
  public:
    WritePingPong(const Pair& pair, std::size_t size)
        : there_{IBV_WR_RDMA_WRITE, size, pair.a, pair.a_qp, pair.a_region, pair.b_region},
          back_{IBV_WR_RDMA_WRITE, size, pair.b, pair.b_qp, pair.b_region, pair.a_region},
          at_a_{last_word(pair.a_region, size)},
          at_b_{last_word(pair.b_region, size)} {}

    void round_trip() {
        ++value_;
        there_.send(value_);
        await(at_b_, value_);
        there_.finish();
        ++value_;
        back_.send(value_);
        await(at_a_, value_);
        back_.finish();
    }

  private:
    Way there_;
    Way back_;
    const std::uint64_t& at_a_;
    const std::uint64_t& at_b_;
    std::uint64_t value_ = 0;
};

// SEND, whose arrival is a completion; the receive is posted anew each time.
class SendPingPong {
  public:
    SendPingPong(const Pair& pair, std::size_t size)
        : pair_{pair},
          there_{IBV_WR_SEND, size, pair.a, pair.a_qp, pair.a_region, pair.b_region},
          back_{IBV_WR_SEND, size, pair.b, pair.b_qp, pair.b_region, pair.a_region},
          at_a_{pair.a_region.sge(size)},
          at_b_{pair.b_region.sge(size)} {}

    void round_trip() {
        pass(there_, pair_.b, pair_.b_qp, at_b_);
        pass(back_, pair_.a, pair_.a_qp, at_a_);
    }

  private:
    void pass(Way& way, const Device& to, const Qp& qp, ibv_sge sge) {
        qp.post_receive(0, sge);
        way.send(++value_);
        to.await_completion();
        way.finish();
    }

    const Pair& pair_;
    Way there_;
    Way back_;
    const ibv_sge at_a_;
    const ibv_sge at_b_;
    std::uint64_t value_ = 0;
};

template <typename RoundTrip>
void take_turn(Times& times, RoundTrip&& round_trip) {
    settle(round_trip);
    for (int i = 0; i < batches_per_turn; ++i) {
        times.measure(batch, round_trip);
    }
}

void relay_turn(Times& times) {
    Relay relay;
    std::uint64_t value = 0;
    take_turn(times, [&](std::uint64_t) {
        relay.pass(++value);
        relay.pass(++value);
    });
}

void report_half(benchmark::State& state, Times& ours, Times& baseline) {
    report(state, "ns", ours.means.quiet() / 2, baseline.means.quiet() / 2);
    report_distribution(state, ours.singles, 2);
}

template <typename PingPong>
void latency(benchmark::State& state) {
    pin_to_core(guest_core);
    const auto size = static_cast<std::size_t>(state.range(0));
    const Pair pair{0};
    PingPong ping_pong{pair, size};
    Times ours;
    Times floor;
    while (state.KeepRunning()) {
        relay_turn(floor);
        take_turn(ours, [&](std::uint64_t) { ping_pong.round_trip(); });
    }
    report_half(state, ours, floor);
}
BENCHMARK(latency<WritePingPong>)
    ->Name("write_latency")
    ->RangeMultiplier(8)
    ->Range(8, 64 << 10)
    ->Iterations(turns);
BENCHMARK(latency<SendPingPong>)
    ->Name("send_latency")
    ->RangeMultiplier(8)
    ->Range(8, 64 << 10)
    ->Iterations(turns);

// One active QP of a device among that many, compared with a QP that is alone on another vrdmad.
void among_latency(benchmark::State& state) {
    pin_to_core(guest_core);
    const Pair alone{0};
    const Pair among{2};
    const std::deque<Qp> idle = connect_idle(among, state.range(0) - 1);
    WritePingPong alone_ping_pong{alone, sizeof(std::uint64_t)};
    WritePingPong among_ping_pong{among, sizeof(std::uint64_t)};
    Times alone_times;
    Times among_times;
    while (state.KeepRunning()) {
        take_turn(alone_times, [&](std::uint64_t) { alone_ping_pong.round_trip(); });
        take_turn(among_times, [&](std::uint64_t) { among_ping_pong.round_trip(); });
    }
    report_half(state, among_times, alone_times);
}
BENCHMARK(among_latency)->Arg(1)->Arg(100)->Arg(10000)->Arg(60000)->Iterations(turns);

} // namespace
} // namespace vrdma::bench
