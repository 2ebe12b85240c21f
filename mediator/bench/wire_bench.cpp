// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The cost of a packet without a network: two engines with a cable of memory between them. One
// thread plays both guests and both pollers. Packets are counted when they are sent. The time of a
// packet includes its reception, and its part of the acknowledgements that are sent and received.
#include <benchmark/benchmark.h>

#include <array>

#include "bench/samples.h"
#include "mediator/base/event_fd.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/tests/guest/guest.h"

namespace vrdma::bench {
namespace {

constexpr std::uint32_t mtu = 1024;

// One way of a cable: frames are made and read in place, which costs next to nothing.
class Way {
  public:
    std::span<std::byte> next() {
        return end_ - begin_ == frames_.size() ? std::span<std::byte>{}
                                               : frames_[end_ % frames_.size()].bytes;
    }
    void put(std::size_t size) { frames_[end_++ % frames_.size()].size = size; }
    std::span<const std::byte> front() const {
        if (begin_ == end_) {
            return {};
        }
        const Frame& frame = frames_[begin_ % frames_.size()];
        return std::span{frame.bytes}.first(frame.size);
    }
    void pop() { ++begin_; }

  private:
    struct Frame {
        std::size_t size = 0;
        std::array<std::byte, wire::max_frame_size> bytes{};
    };

    std::array<Frame, 256> frames_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
};

class End : public wire::Uplink {
  public:
    End(std::shared_ptr<Way> out, std::shared_ptr<Way> in)
        : out_{std::move(out)}, in_{std::move(in)} {}

    std::span<std::byte> prepare(const wire::Mac& /*target*/,
                                 std::uint8_t /*priority*/) noexcept override {
        return out_->next();
    }
    void commit(std::size_t bytes) noexcept override { out_->put(bytes); }
    void flush() noexcept override {}
    std::span<const std::byte> receive() noexcept override { return in_->front(); }
    void release() noexcept override { in_->pop(); }
    int fd() const noexcept override { return signal_.fd(); }
    void woken() noexcept override {}
    std::size_t frame_size() const noexcept override { return wire::max_frame_size; }

  private:
    const std::shared_ptr<Way> out_;
    const std::shared_ptr<Way> in_;
    EventFd signal_ = *EventFd::create(); // nobody sleeps
};

class Host {
  public:
    Host(std::unique_ptr<wire::Uplink> end, std::uint8_t number)
        : hca_{make_hca(std::move(end))},
          guest_{*hca_, "guest", test::ipv4_gid(number), test::Guest::default_memory(), {}, cable} {
    }

    void connect(const Host& peer) {
        test::move_to_init(guest_, qp_);
        vrdma_qp_attr attr = test::rtr_attr(peer.guest_.gid(), peer.qp_.id());
        attr.path_mtu = IBV_MTU_1024;
        (void)guest_.slice().modify_qp(qp_.id(), attr);
        (void)guest_.slice().modify_qp(qp_.id(), test::rts_attr());
    }

    void poll() const { hca_->poll(); }
    test::GuestCq& cq() { return cq_; }
    test::GuestQp& qp() { return qp_; }
    const test::MemoryRegion& mr() const { return mr_; }

  private:
    static constexpr char cable[] = "cable";

    static std::unique_ptr<hca::soft::SoftHca> make_hca(std::unique_ptr<wire::Uplink> end) {
        hca::soft::Config config;
        config.threads = false;
        auto hca = std::move(*hca::soft::SoftHca::create(config));
        (void)hca->add_uplink(cable, std::move(end));
        hca->with_port(cable, [](hca::soft::roce::Port& port) {
            for (const std::uint8_t n : {1, 2}) {
                port.set_neighbour(test::ipv4_gid(n), wire::Mac{2, 0, 0, 0, 0, n});
            }
        });
        return hca;
    }

    std::unique_ptr<hca::soft::SoftHca> hca_;
    test::Guest guest_;
    test::GuestCq cq_ = guest_.create_cq(256);
    test::GuestQp qp_ = guest_.create_qp(cq_, cq_);
    test::MemoryRegion mr_ = guest_.register_mr(1 << 20, {.scattered = false});
};

// Posts a request and polls until it is completed. callgrind counts the instructions of this
// function, which it finds by its name.
[[gnu::noinline]] void carry_out(Host& here, const Host& there, const test::SendWr& wr) {
    here.qp().post_send(wr);
    while (!here.cq().poll()) {
        here.poll();
        there.poll();
    }
}

// One operation after the other, each of so many bytes.
void packets(benchmark::State& state, vrdma_sq_opcode opcode) {
    constexpr std::uint32_t batch = 20;
    const auto size = static_cast<std::uint32_t>(state.range(0));
    const auto out = std::make_shared<Way>();
    const auto back = std::make_shared<Way>();
    Host here{std::make_unique<End>(out, back), 1};
    Host there{std::make_unique<End>(back, out), 2};
    here.connect(there);
    there.connect(here);
    const vrdma_sge sge = here.mr().sge(0, size);
    const test::SendWr wr{
        .opcode = opcode, .sges = {&sge, 1}, .rkey = there.mr().key, .raddr = there.mr().start};
    const std::uint32_t each = (size + mtu - 1) / mtu;
    Samples samples;
    while (state.KeepRunning()) {
        samples.add(time_each(batch, [&](std::uint64_t) { carry_out(here, there, wr); }) / each);
    }
    state.counters["ns"] = samples.quiet();
    state.counters["Mpackets_s"] = 1e3 / samples.quiet();
    state.counters["packets"] = static_cast<double>(state.iterations()) * batch * each;
}
// A WRITE's packets are sent by the requester, a READ's by the responder.
BENCHMARK_CAPTURE(packets, write, VRDMA_SQ_RDMA_WRITE)
    ->Arg(8)
    ->Arg(65536)
    ->Iterations(40)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(packets, read, VRDMA_SQ_RDMA_READ)
    ->Arg(8)
    ->Arg(65536)
    ->Iterations(40)
    ->Unit(benchmark::kMicrosecond);

} // namespace
} // namespace vrdma::bench
