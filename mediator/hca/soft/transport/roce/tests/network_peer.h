// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A guest whose peer on the network is the test itself: the test makes the packets that arrive, and
// reads those that leave. The poller is the test's own thread.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "mediator/hca/soft/soft_hca.h"
#include "mediator/hca/soft/transport/roce/psn.h"
#include "mediator/hca/soft/transport/roce/tests/cable.h"
#include "mediator/tests/guest/guest.h"
#include "vrdma/roce.h"

namespace vrdma::test {

using Payload = std::vector<std::byte>;

// A packet that the guest's HCA sent.
struct Arrived {
    wire::Path path;
    wire::Headers headers;
    Payload payload;

    std::uint8_t operation() const { return headers.opcode & VRDMA_ROCE_OPERATION; }
};

// The attributes with which the guest's QP is connected.
struct Terms {
    hca::QpType type = hca::QpType::rc;
    std::uint8_t path_mtu = IBV_MTU_256;
    std::uint32_t access_flags = all_access;
    std::uint8_t max_dest_rd_atomic = 16;
    std::uint8_t min_rnr_timer = 14;
    std::uint8_t timeout = 17; // 0.5 s: no retransmission within a test that does not wait
    std::uint8_t retry_cnt = 7;
    std::uint8_t rnr_retry = 7;
    std::uint8_t max_rd_atomic = 16;
    // The guest's HCA retransmits nothing early, however slow the test is.
    std::chrono::nanoseconds min_rto = std::chrono::hours{1};
};

class NetworkPeer : public ::testing::Test {
  protected:
    using Clock = std::chrono::steady_clock;

    static constexpr std::uint32_t mtu = 256;
    static constexpr std::uint32_t peer_qpn = 0x777;
    static constexpr wire::Mac peer_mac{2, 0, 0, 0, 0, 9};
    // Near the largest PSN, so that the next ones wrap.
    static constexpr std::uint32_t first_psn = hca::soft::roce::psn_mask - 1;

    explicit NetworkPeer(const Terms& terms = {}) : NetworkPeer{terms, Cable::lay()} {}

    static std::uint32_t psn(std::uint32_t n) { return hca::soft::roce::add(first_psn, n); }

    // Replaces the guest's QP by a new one, connected to the same peer.
    void renew(const Terms& terms = {}) {
        qp_ = guest_.create_qp(cq_, cq_, {.type = terms.type});
        activate(terms);
        transport_ = terms.type == hca::QpType::uc ? VRDMA_ROCE_UC : VRDMA_ROCE_RC;
    }
    // Connects the QP, which is in RESET.
    void activate(const Terms& terms = {}) {
        vrdma_qp_attr attr = rtr_attr(peer_gid_, Qpn{peer_qpn});
        attr.path_mtu = terms.path_mtu;
        attr.max_dest_rd_atomic = terms.max_dest_rd_atomic;
        attr.min_rnr_timer = terms.min_rnr_timer;
        attr.rq_psn = first_psn;
        move_to_init(guest_, qp_, terms.access_flags);
        ASSERT_TRUE(guest_.slice().modify_qp(qp_.id(), attr));
        attr = rts_attr();
        attr.sq_psn = first_psn;
        attr.timeout = terms.timeout;
        attr.retry_cnt = terms.retry_cnt;
        attr.rnr_retry = terms.rnr_retry;
        attr.max_rd_atomic = terms.max_rd_atomic;
        ASSERT_TRUE(guest_.slice().modify_qp(qp_.id(), attr));
    }

    // The n-th packet of the peer, with that operation.
    wire::Headers packet(std::uint8_t operation, std::uint32_t n) const {
        wire::Headers headers;
        headers.opcode = transport_ | operation;
        headers.target_qpn = qp_.id().value;
        headers.psn = psn(n);
        return headers;
    }
    wire::Headers asking(std::uint8_t operation, std::uint32_t n) const {
        wire::Headers headers = packet(operation, n);
        headers.ack_request = true;
        return headers;
    }
    // With an RETH that names the guest's region.
    wire::Headers remote(std::uint8_t operation, std::uint32_t n, std::uint32_t length,
                         std::uint64_t offset = 0) const {
        wire::Headers headers = asking(operation, n);
        headers.rkey = mr_.key.value;
        headers.address = mr_.start + offset;
        headers.length = length;
        return headers;
    }

    Frame frame_of(const wire::Path& path, const wire::Headers& headers,
                   const Payload& payload = {}) const {
        const std::size_t before = wire::header_size(path, headers.opcode);
        Frame frame(before + payload.size() + wire::trailer_size(payload.size()));
        std::ranges::copy(payload, frame.begin() + static_cast<std::ptrdiff_t>(before));
        wire::finish(frame, path, headers, payload.size());
        return frame;
    }

    // The frame waits in the guest's uplink until the next poll.
    void inject(const Frame& frame) {
        std::ranges::copy(frame, end_->prepare({}, 0).begin());
        end_->commit(frame.size());
    }
    void deliver(const wire::Headers& headers, const Payload& payload = {}) {
        inject(frame_of(path_, headers, payload));
    }

    // Polls until the engine finds nothing to do for a while. Timers may still run. If a timer is
    // short, a slow engine (ThreadSanitizer) finds it expired each time.
    void settle() {
        constexpr int quiet_rounds = 40;
        constexpr int most_rounds = 20000;
        for (int quiet = 0, rounds = 0; quiet < quiet_rounds && rounds < most_rounds; ++rounds) {
            quiet = hca_->poll() ? 0 : quiet + 1;
        }
    }

    // All that the guest's HCA has sent.
    std::vector<Arrived> sent() {
        std::vector<Arrived> packets;
        for (auto frame = end_->receive(); !frame.empty(); frame = end_->receive()) {
            wire::Packet read;
            EXPECT_EQ(wire::parse(frame, read), wire::Drop::none);
            packets.push_back(
                {read.path, read.headers, {read.payload.begin(), read.payload.end()}});
            end_->release();
        }
        return packets;
    }
    std::vector<Arrived> replies() {
        settle();
        return sent();
    }
    // Expects exactly one reply, and returns it.
    Arrived reply() {
        auto packets = replies();
        EXPECT_EQ(packets.size(), 1u);
        return packets.empty() ? Arrived{} : std::move(packets.front());
    }
    void expect_silence() { EXPECT_EQ(replies().size(), 0u); }

    static std::uint8_t syndrome(vrdma_syndrome_type type, std::uint32_t value) {
        return static_cast<std::uint8_t>(VRDMA_SET(VRDMA_SYNDROME_TYPE, std::uint32_t{type}) |
                                         VRDMA_SET(VRDMA_SYNDROME_VALUE, value));
    }
    static std::uint8_t nak(vrdma_nak why) { return syndrome(VRDMA_SYNDROME_NAK, why); }
    static constexpr std::uint8_t ack = VRDMA_SYNDROME_NO_CREDITS;

    // A positive acknowledgement may have any credits.
    static void expect_acknowledge(const Arrived& arrived, std::uint32_t n, std::uint8_t aeth) {
        EXPECT_EQ(arrived.operation(), VRDMA_ROCE_ACKNOWLEDGE);
        EXPECT_EQ(arrived.headers.psn, psn(n));
        const bool positive =
            VRDMA_GET(VRDMA_SYNDROME_TYPE, arrived.headers.syndrome) == VRDMA_SYNDROME_ACK;
        EXPECT_EQ(positive ? ack : arrived.headers.syndrome, aeth);
        EXPECT_EQ(arrived.headers.target_qpn, peer_qpn);
    }

    void post_receive(std::uint64_t offset, std::uint32_t length) {
        const vrdma_sge to = mr_.sge(offset, length);
        qp_.post_recv({&to, 1});
    }
    void expect_received(std::uint32_t bytes) {
        const auto completion = cq_.poll();
        ASSERT_TRUE(completion);
        EXPECT_EQ(completion->status, IBV_WC_SUCCESS);
        EXPECT_TRUE(completion->receive);
        EXPECT_EQ(completion->byte_len, bytes);
    }
    // Names the peer's memory, if it is no SEND.
    void post(vrdma_sq_opcode opcode, std::uint32_t length, std::uint32_t flags = 0) {
        const vrdma_sge local = mr_.sge(0, length);
        const bool remote = opcode != VRDMA_SQ_SEND;
        qp_.post_send({.opcode = opcode,
                       .flags = VRDMA_SQ_SIGNALED | flags,
                       .sges = {&local, 1},
                       .rkey = Key{remote ? 0x1234u : 0},
                       .raddr = remote ? 0x10000u : 0});
    }
    // The peer acknowledges the n-th packet.
    void answer(std::uint32_t n, std::uint8_t aeth = ack) {
        wire::Headers headers = packet(VRDMA_ROCE_ACKNOWLEDGE, n);
        headers.syndrome = aeth;
        deliver(headers);
    }
    void pass(Clock::duration time) {
        for (const auto end = Clock::now() + time; Clock::now() < end;) {
            hca_->poll();
        }
    }
    std::vector<std::uint32_t> event_types() {
        settle();
        std::vector<std::uint32_t> types;
        while (const auto event = guest_.eq().poll()) {
            types.push_back(event->type);
        }
        return types;
    }
    std::uint64_t counter(vrdma_counter which) { return guest_.slice().counters().value[which]; }

  private:
    using Ends = std::pair<std::unique_ptr<wire::Uplink>, std::unique_ptr<wire::Uplink>>;

    NetworkPeer(const Terms& terms, Ends ends)
        : hca_{make_hca(terms, std::move(ends.first))}, end_{std::move(ends.second)} {
        path_.source_mac = peer_mac;
        path_.source = peer_gid_;
        path_.target = guest_.gid();
        path_.source_port = 0xc123;
        path_.hop_limit = 64;
        renew(terms);
    }

    std::unique_ptr<hca::soft::SoftHca> make_hca(const Terms& terms,
                                                 std::unique_ptr<wire::Uplink> uplink) const {
        hca::soft::Config config;
        config.threads = false;
        config.min_rto = terms.min_rto;
        auto hca = std::move(*hca::soft::SoftHca::create(config));
        EXPECT_TRUE(hca->add_uplink("cable", std::move(uplink)));
        hca->with_port(
            "cable", [&](hca::soft::roce::Port& port) { port.set_neighbour(peer_gid_, peer_mac); });
        return hca;
    }

    std::uint8_t transport_ = VRDMA_ROCE_RC;

  protected:
    const hca::Gid peer_gid_ = ipv4_gid(9);
    std::unique_ptr<hca::soft::SoftHca> hca_;
    std::unique_ptr<wire::Uplink> end_; // the test's
    wire::Path path_;                   // of the peer's packets
    Guest guest_{*hca_, "guest", ipv4_gid(1), Guest::default_memory(), {}, "cable"};
    GuestCq cq_ = guest_.create_cq(256);
    MemoryRegion mr_ = guest_.register_mr(1 << 16);
    GuestQp qp_ = guest_.create_qp(cq_, cq_);
};

} // namespace vrdma::test
