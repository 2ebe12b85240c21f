// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A guest whose QPs are connected to a hostile peer on the network. The fuzzer's input plays the
// peer. Its packets have a valid ICRC and come from the right address, so that they get past the
// first checks.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <span>

#include "mediator/fuzz/bystander.h"
#include "mediator/fuzz/changing_memory.h"
#include "mediator/fuzz/input.h"
#include "mediator/fuzz/make_hca.h"
#include "mediator/hca/soft/transport/roce/tests/cable.h"
#include "mediator/tests/guest/guest.h"
#include "mediator/wire/headers.h"
#include "vrdma/roce.h"

namespace vrdma::test {

using fuzz::require;

class RoceStage {
  public:
    static constexpr std::uint32_t first_psn = 0xfffff0;

    RoceStage() : RoceStage{Cable::lay()} {}

    // The input selects QP, fields and payload.
    void packet(fuzz::Input& input, std::uint8_t operation) {
        const unsigned which = input.take<std::uint8_t>() % targets_.size();
        wire::Headers headers;
        headers.opcode = targets_[which].transport | (operation & VRDMA_ROCE_OPERATION);
        const wire::Shape& shape = wire::shape_of(headers.opcode);
        if (shape.size == 0) {
            return;
        }
        const auto flags = input.take<std::uint8_t>();
        headers.target_qpn = targets_[which].id.value;
        headers.srqn = srq_.id().value;
        headers.psn = (next_[which] + static_cast<std::uint32_t>(input.take<std::int8_t>())) &
                      VRDMA_MASK(23, 0);
        headers.ack_request = (flags & 1) != 0;
        headers.solicited = (flags & 2) != 0;
        headers.rkey = (flags & 4) != 0 ? input.take<std::uint32_t>() : region_.key.value;
        headers.address = region_.start + input.take<std::uint16_t>();
        headers.length = (flags & 8) != 0 ? input.take<std::uint32_t>() : 0;
        headers.swap_add = input.take<std::uint8_t>();
        headers.syndrome = input.take<std::uint8_t>();
        headers.qkey = qkey;
        headers.source_qpn = peer_qpn;
        const std::size_t payload = shape.may_have_payload ? payload_of(input) : 0;
        if ((flags & 8) == 0) {
            headers.length = static_cast<std::uint32_t>(payload);
        }
        next_[which] += (flags & 16) != 0 ? 0 : 1;
        inject(headers, payload);
    }

    // A frame of any bytes.
    void raw(fuzz::Input& input) {
        const auto frame = end_->prepare({}, 0);
        const std::size_t size = 1 + input.take<std::uint8_t>() % 200;
        for (std::byte& byte : frame.first(size)) {
            byte = input.take<std::byte>();
        }
        end_->commit(size);
    }

    void receive(fuzz::Input& input) {
        const vrdma_sge to = region_.sge(0, input.take<std::uint16_t>() % region_size);
        GuestQp& qp = pick(input);
        if (qp.shape().type == hca::QpType::xrc_send) {
            return srq_.post_recv(0, {&to, 1});
        }
        qp.post_recv({&to, 1});
    }

    // Plans a change of the guest's memory while it is read.
    void change(fuzz::Input& input) { changing_.plan(input); }

    void send(fuzz::Input& input) {
        constexpr vrdma_sq_opcode opcodes[] = {
            VRDMA_SQ_SEND,         VRDMA_SQ_SEND_WITH_IMM,      VRDMA_SQ_RDMA_WRITE,
            VRDMA_SQ_RDMA_READ,    VRDMA_SQ_ATOMIC_CMP_AND_SWP, VRDMA_SQ_ATOMIC_FETCH_AND_ADD,
            VRDMA_SQ_ATOMIC_WRITE, VRDMA_SQ_LOCAL_INV};
        GuestQp& qp = pick(input);
        const vrdma_sq_opcode opcode = opcodes[input.take<std::uint8_t>() % std::size(opcodes)];
        const bool word = opcode == VRDMA_SQ_ATOMIC_CMP_AND_SWP ||
                          opcode == VRDMA_SQ_ATOMIC_FETCH_AND_ADD ||
                          opcode == VRDMA_SQ_ATOMIC_WRITE;
        const auto length = input.take<std::uint16_t>();
        const vrdma_sge sge = region_.sge(0, word ? 8 : length % region_size);
        const bool xrc = qp.shape().type == hca::QpType::xrc_send;
        const bool remote = opcode != VRDMA_SQ_SEND && opcode != VRDMA_SQ_SEND_WITH_IMM;
        qp.post_send({.opcode = opcode,
                      .flags = VRDMA_SQ_SIGNALED | (length % 3 == 0 ? VRDMA_SQ_FENCE : 0u),
                      .sges = {&sge, opcode == VRDMA_SQ_LOCAL_INV ? 0u : 1u},
                      .rkey = Key{remote ? 0x1234u : 0},
                      .ah = ah_,
                      .dest_qpn = Qpn{peer_qpn},
                      .qkey = qkey,
                      .srq = Srqn{xrc ? 0x888u : 0}});
    }

    void poll() {
        constexpr int rounds = 8;
        changing_.turn([&] {
            for (int i = 0; i < rounds; ++i) {
                hca_->poll();
            }
        });
        while (!end_->receive().empty()) { // whatever it says, it is a packet
            wire::Packet packet;
            require(wire::parse(end_->receive(), packet) == wire::Drop::none);
            require(packet.path.source == guest_.gid());
            end_->release();
        }
        constexpr int most = 1100; // the guest may have made its own rings endless
        for (int i = 0; i < most && cq_.poll(); ++i) {
        }
        for (int i = 0; i < most && guest_.eq().poll(); ++i) {
        }
    }

    // Resets and reconnects all QPs.
    void renew() {
        for (GuestQp& qp : qps_) {
            qp.reset();
        }
        for (unsigned which = 0; which < targets_.size(); ++which) {
            modify(which, state_attr(IBV_QPS_RESET));
            start(which);
        }
    }

    void check() {
        bystander_.check([this] { poll(); }, secret_.buffer);
    }

  private:
    static constexpr std::uint64_t memory_size = 2 << 20;
    static constexpr std::uint32_t region_size = 4 * VRDMA_PAGE_SIZE;
    static constexpr std::uint32_t peer_qpn = 0x777;
    static constexpr std::uint32_t qkey = 0x1234;
    static constexpr wire::Mac peer_mac{2, 0, 0, 0, 0, 9};
    static constexpr std::size_t mtu = 256;
    using Ends = std::pair<std::unique_ptr<wire::Uplink>, std::unique_ptr<wire::Uplink>>;

    explicit RoceStage(Ends ends)
        : hca_{make_hca(std::move(ends.first))}, end_{std::move(ends.second)} {
        for (unsigned which = 0; which < targets_.size(); ++which) {
            start(which);
        }
    }

    void modify(unsigned which, const vrdma_qp_attr& attr) {
        require(guest_.slice().modify_qp(targets_[which].id, attr).has_value());
    }

    // There is one poller, because all devices of an uplink share one, and the bystander has to
    // share it, too.
    static std::unique_ptr<hca::soft::SoftHca> make_hca(std::unique_ptr<wire::Uplink> uplink) {
        auto hca = fuzz::make_hca();
        require(hca->add_uplink("cable", std::move(uplink)).has_value());
        hca->with_port("cable", [](hca::soft::roce::Port& port) {
            port.set_neighbour(ipv4_gid(9), peer_mac);
        });
        return hca;
    }

    void start(unsigned which) {
        next_[which] = first_psn;
        if (targets_[which].transport == VRDMA_ROCE_UD) {
            return activate_ud(guest_, qps_[which], qkey);
        }
        modify(which, init_attr());
        vrdma_qp_attr attr = rtr_attr(ipv4_gid(9), Qpn{peer_qpn});
        attr.path_mtu = IBV_MTU_256;
        attr.rq_psn = first_psn;
        attr.max_dest_rd_atomic = 4;
        modify(which, attr);
        attr = rts_attr();
        attr.sq_psn = first_psn;
        attr.max_rd_atomic = 4;
        modify(which, attr);
    }

    GuestQp& pick(fuzz::Input& input) { return qps_[input.take<std::uint8_t>() % qps_.size()]; }

    // Most messages consist of full packets.
    static std::size_t payload_of(fuzz::Input& input) {
        const auto draw = input.take<std::uint8_t>();
        return draw < 128 ? mtu : draw % 64 * 5;
    }

    void inject(const wire::Headers& headers, std::size_t payload) {
        wire::Path path;
        path.source_mac = peer_mac;
        path.source = ipv4_gid(9);
        path.target = guest_.gid();
        path.hop_limit = 64;
        end_->commit(wire::finish(end_->prepare({}, 0), path, headers, payload));
    }

    std::unique_ptr<hca::soft::SoftHca> hca_;
    std::unique_ptr<wire::Uplink> end_; // the peer's
    verbs::GidRegistry gids_;
    fuzz::Bystander bystander_{*hca_, gids_};
    Guest guest_{*hca_, "guest", ipv4_gid(1), std::move(*ArenaMemory::create(memory_size)),
                 {},    "cable"};
    fuzz::ChangingMemory changing_{{guest_.memory().at(Iova{0}, memory_size), memory_size}};
    GuestCq cq_ = guest_.create_cq(1024);
    MemoryRegion region_ = guest_.register_mr(region_size);
    MemoryRegion secret_ = guest_.register_mr(region_size, {.pd = PdId{2}});
    AhId ah_ = guest_.create_ah(ipv4_gid(9));
    GuestSrq srq_ = guest_.create_srq({.xrcd = XrcdId{1}, .cq = cq_.id()});
    std::array<GuestQp, 4> qps_{guest_.create_qp(cq_, cq_),
                                guest_.create_qp(cq_, cq_, {.type = hca::QpType::uc}),
                                guest_.create_qp(cq_, cq_, {.type = hca::QpType::ud}),
                                guest_.create_qp(cq_, cq_, QpShape::xrc_send())};
    // Packets go to these QPs, and to one without queues.
    struct Target {
        Qpn id;
        std::uint8_t transport;
    };
    const std::array<Target, 5> targets_{{{qps_[0].id(), VRDMA_ROCE_RC},
                                          {qps_[1].id(), VRDMA_ROCE_UC},
                                          {qps_[2].id(), VRDMA_ROCE_UD},
                                          {qps_[3].id(), VRDMA_ROCE_XRC},
                                          {guest_.create_xrc_recv(XrcdId{1}), VRDMA_ROCE_XRC}}};
    std::array<std::uint32_t, 5> next_{};
};

// Executes the input's steps on a new stage.
template <typename Step>
int play(std::span<const std::uint8_t> bytes, Step&& step) {
    constexpr int max_steps = 300;
    fuzz::Input input{bytes};
    RoceStage stage;
    for (int i = 0; i < max_steps && !input.empty(); ++i) {
        step(stage, input);
    }
    stage.check();
    return 0;
}

} // namespace vrdma::test
