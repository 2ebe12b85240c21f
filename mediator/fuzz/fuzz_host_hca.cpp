// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A host's HCA that lies: completions of any work, QP, status, opcode and length, and events of any
// QP, while the guest posts sends and receives. Nothing may break, no work of the guest may have
// two completions, memory of another PD stays as it is, and a guest beside it notices nothing.
//
// The input is a list of steps. The first byte of each selects its kind.
#include <memory>
#include <optional>
#include <vector>

#include "mediator/fuzz/bystander.h"
#include "mediator/fuzz/input.h"
#include "mediator/fuzz/make_hca.h"
#include "mediator/fuzz/require.h"
#include "mediator/hca/host/tests/fake_hca.h"
#include "mediator/tests/guest/guest.h"

namespace vrdma::test {
namespace {

using fuzz::require;

class LiarsStage {
  public:
    LiarsStage() {
        fake_.add_gid(ipv4_gid(1));
        fake_.add_gid(ipv4_gid(2));
        require(hca_->add_host_uplink(uplink, FakeHca::library(), FakeHca::name).has_value());
        guest_.emplace(*hca_, "guest", ipv4_gid(1), std::move(*ArenaMemory::create(memory_size)),
                       hca::QpnRange{}, uplink);
        set_up();
    }

    void step(fuzz::Input& input) {
        const auto kind = input.take<std::uint8_t>();
        switch (kind % 8) {
            case 0:
                return kind > 240 ? renew() : poll();
            case 1:
                return send(input);
            case 2:
                return receive(input);
            case 3:
                return report(input);
            case 4:
                return fake_.fail_next(static_cast<ibv_wc_status>(input.take<std::uint8_t>() % 32));
            case 5:
                return kind > 250 ? fake_.break_down() : poll();
            default:
                lie(input);
                return poll();
        }
    }

    void check() {
        bystander_.check([this] { poll(); }, secret_.buffer);
    }

  private:
    static constexpr char uplink[] = "wire";
    static constexpr std::uint64_t memory_size = 2 << 20;
    static constexpr std::uint32_t region_size = 4 * VRDMA_PAGE_SIZE;
    static constexpr std::uint32_t qkey = 0x1234;

    void set_up() {
        cq_.emplace(guest_->create_cq(1024));
        region_ = guest_->register_mr(region_size);
        secret_ = guest_->register_mr(region_size, {.pd = PdId{2}});
        ah_ = guest_->create_ah(ipv4_gid(2));
        for (const auto type : {hca::QpType::rc, hca::QpType::uc, hca::QpType::ud}) {
            qps_.push_back(guest_->create_qp(*cq_, *cq_, {.type = type}));
            start(qps_.back());
        }
    }

    // The peer is on another host, as no device here has its address.
    void start(const GuestQp& qp) {
        if (qp.shape().type == hca::QpType::ud) {
            return activate_ud(*guest_, qp, qkey);
        }
        connect(*guest_, qp, ipv4_gid(2), Qpn{0x777});
    }

    // Resets and reconnects all QPs.
    void renew() {
        poll();
        for (GuestQp& qp : qps_) {
            qp.reset();
            require(guest_->slice().modify_qp(qp.id(), state_attr(IBV_QPS_RESET)).has_value());
            start(qp);
        }
        poll();
        posted_ = completed_ = 0;
    }

    GuestQp& pick(fuzz::Input& input) { return qps_[input.take<std::uint8_t>() % qps_.size()]; }

    void send(fuzz::Input& input) {
        constexpr vrdma_sq_opcode opcodes[] = {
            VRDMA_SQ_SEND,      VRDMA_SQ_SEND_WITH_IMM,      VRDMA_SQ_RDMA_WRITE,
            VRDMA_SQ_RDMA_READ, VRDMA_SQ_ATOMIC_CMP_AND_SWP, VRDMA_SQ_ATOMIC_FETCH_AND_ADD};
        GuestQp& qp = pick(input);
        const vrdma_sq_opcode opcode = opcodes[input.take<std::uint8_t>() % std::size(opcodes)];
        const bool word =
            opcode == VRDMA_SQ_ATOMIC_CMP_AND_SWP || opcode == VRDMA_SQ_ATOMIC_FETCH_AND_ADD;
        const vrdma_sge sge = region_.sge(0, word ? 8u : input.take<std::uint16_t>() % region_size);
        const bool remote = opcode != VRDMA_SQ_SEND && opcode != VRDMA_SQ_SEND_WITH_IMM;
        qp.post_send({.opcode = opcode,
                      .flags = VRDMA_SQ_SIGNALED,
                      .sges = {&sge, 1},
                      .rkey = Key{remote ? 0x1234u : 0},
                      .ah = ah_,
                      .dest_qpn = Qpn{0x777},
                      .qkey = qkey});
        ++posted_;
    }

    void receive(fuzz::Input& input) {
        const vrdma_sge to = region_.sge(0, input.take<std::uint16_t>() % region_size);
        pick(input).post_recv({&to, 1});
        ++posted_;
    }

    // Most lies name work that is under way, or nearly.
    void lie(fuzz::Input& input) {
        const auto flags = input.take<std::uint8_t>();
        ibv_wc wc{};
        wc.wr_id = (flags & 1) != 0 ? fake_.last_receive() : fake_.last_wr_id();
        wc.wr_id -= (flags & 2) != 0 ? input.take<std::uint8_t>() % 8 : 0;
        wc.wr_id ^= (flags & 4) != 0 ? input.take<std::uint64_t>() : 0;
        wc.qp_num = pick(input).id().value + ((flags & 8) != 0 ? input.take<std::uint8_t>() : 0);
        wc.status = static_cast<ibv_wc_status>((flags & 16) != 0 ? input.take<std::uint8_t>() : 0);
        wc.opcode = static_cast<ibv_wc_opcode>(input.take<std::uint8_t>());
        wc.byte_len = (flags & 32) != 0 ? input.take<std::uint32_t>() : input.take<std::uint8_t>();
        wc.wc_flags = input.take<std::uint8_t>();
        wc.imm_data = input.take<std::uint8_t>();
        wc.src_qp = input.take<std::uint32_t>();
        fake_.inject(wc);
    }

    void report(fuzz::Input& input) {
        const auto event = static_cast<ibv_event_type>(input.take<std::uint8_t>() % 24);
        hca_->with_host_port(uplink, [&](auto& port) {
            port.tell(event, Qpn{pick(input).id().value + input.take<std::uint8_t>() % 2});
        });
    }

    void poll() {
        constexpr int rounds = 8;
        for (int i = 0; i < rounds; ++i) {
            hca_->poll();
        }
        while (cq_->poll()) {
            ++completed_;
        }
        require(completed_ <= posted_);
        while (guest_->eq().poll()) {
        }
    }

    FakeHca fake_;
    std::unique_ptr<hca::soft::SoftHca> hca_ = fuzz::make_hca();
    verbs::GidRegistry gids_;
    fuzz::Bystander bystander_{*hca_, gids_};
    std::optional<Guest> guest_;
    std::optional<GuestCq> cq_;
    MemoryRegion region_;
    MemoryRegion secret_;
    AhId ah_{};
    std::vector<GuestQp> qps_;
    unsigned posted_ = 0;
    unsigned completed_ = 0;
};

} // namespace
} // namespace vrdma::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr int max_steps = 300;
    spdlog::set_level(spdlog::level::off);
    vrdma::fuzz::Input input{{data, size}};
    vrdma::test::LiarsStage stage;
    for (int i = 0; i < max_steps && !input.empty(); ++i) {
        stage.step(input);
    }
    stage.check();
    return 0;
}
