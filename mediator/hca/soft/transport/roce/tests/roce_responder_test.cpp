// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The answers of an RC QP to a peer's packets (IBA 9.7.4, 9.7.5).
#include "mediator/hca/soft/transport/roce/tests/network_peer.h"

namespace vrdma::test {
namespace {

class RoceResponder : public NetworkPeer {
  protected:
    RoceResponder() { mr_.buffer.fill(1); }

    // The length of three full packets.
    static constexpr std::uint32_t three_packets = 3 * mtu;

    void expect_response(const Arrived& arrived, std::uint8_t operation, std::uint32_t n,
                         std::uint64_t offset, std::uint32_t bytes) const {
        EXPECT_EQ(arrived.operation(), operation);
        EXPECT_EQ(arrived.headers.psn, psn(n));
        EXPECT_EQ(arrived.payload, mr_.buffer.read(offset, bytes));
    }

    // Binds a window to memory. The peer may read by it.
    Key bind_window(const MemoryRegion& memory) {
        const Key window = guest_.allocate_mw(IBV_MW_TYPE_2);
        const vrdma_sq_bind bind{memory.start, memory.buffer.size(), memory.key.value,
                                 IBV_ACCESS_REMOTE_READ};
        qp_.post_send({.opcode = VRDMA_SQ_BIND_MW, .rkey = window, .bind = &bind});
        settle();
        const auto done = cq_.poll();
        EXPECT_TRUE(done && done->status == IBV_WC_SUCCESS);
        return window;
    }

    MemoryRegion register_for_windows() {
        return guest_.register_mr(4096, {.access_flags = all_access | IBV_ACCESS_MW_BIND});
    }

    static wire::Headers by_window(wire::Headers headers, Key window, const MemoryRegion& memory) {
        headers.rkey = window.value;
        headers.address = memory.start;
        return headers;
    }

    // The peer broke a rule: expects that NAK, and the QP in error with the event for it.
    void expect_refusal(std::uint32_t n, vrdma_nak why) {
        const auto packets = replies();
        ASSERT_FALSE(packets.empty());
        expect_acknowledge(packets.back(), n, nak(why));
        EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_ERR);
        const std::uint32_t event =
            why == VRDMA_NAK_REMOTE_ACCESS ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR;
        EXPECT_EQ(event_types(), std::vector{event});
    }
};

// Receive SEND only; expect an ACK with its PSN, and the message.
TEST_F(RoceResponder, AcknowledgesASend) {
    post_receive(0, 100);
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 0), Buffer::pattern(7, 33));
    const Arrived answer = reply();
    expect_acknowledge(answer, 0, ack);
    EXPECT_EQ(answer.headers.msn, 1u);
    EXPECT_EQ(answer.path.target, peer_gid_);
    EXPECT_EQ(answer.path.target_mac, peer_mac);
    expect_received(33);
    EXPECT_EQ(mr_.buffer.read(0, 33), Buffer::pattern(7, 33));
}

// Receive a SEND while more receives are posted; expect the ACK to announce them, or the next
// smaller number that has a code (IBA 9.7.7.2, table 47).
TEST_F(RoceResponder, PromisesItsReceives) {
    const std::vector<std::pair<int, unsigned>> codes{{0, 0}, {1, 1}, {2, 2}, {4, 4},
                                                      {5, 4}, {6, 5}, {9, 6}, {15, 7}};
    for (const auto& [left, code] : codes) {
        renew();
        for (int i = 0; i <= left; ++i) {
            post_receive(0, 100);
        }
        deliver(asking(VRDMA_ROCE_SEND_ONLY, 0));
        EXPECT_EQ(reply().headers.syndrome, syndrome(VRDMA_SYNDROME_ACK, code)) << left;
    }
}

// Consume the receives one after the other; expect the ACKs never to announce more than there are,
// and at least half of them.
TEST_F(RoceResponder, PromisesNoReceiveThatIsTaken) {
    constexpr std::uint32_t posted = 12;
    for (std::uint32_t i = 0; i < posted; ++i) {
        post_receive(0, 100);
    }
    for (std::uint32_t n = 0; n < posted; ++n) {
        deliver(asking(VRDMA_ROCE_SEND_ONLY, n));
        const std::uint32_t left = posted - n - 1;
        const std::uint8_t told = reply().headers.syndrome;
        ASSERT_LT(told, hca::soft::roce::credits_of_code.size());
        EXPECT_LE(hca::soft::roce::credits_of_code[told], left);
        EXPECT_GE(hca::soft::roce::credits_of_code[told], left / 2);
    }
    post_receive(0, 100);
    deliver(remote(VRDMA_ROCE_WRITE_ONLY, posted, 4), Buffer::pattern(1, 4));
    EXPECT_EQ(reply().headers.syndrome, syndrome(VRDMA_SYNDROME_ACK, 1));
}

// Receive a READ and an atomic; expect their responses to announce receives as well.
TEST_F(RoceResponder, ResponsesPromiseReceives) {
    post_receive(0, 100);
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, 2 * mtu));
    deliver(remote(VRDMA_ROCE_FETCH_ADD, 2, 8));
    const auto packets = replies();
    ASSERT_EQ(packets.size(), 3u);
    for (const Arrived& packet : packets) {
        EXPECT_EQ(packet.headers.syndrome, syndrome(VRDMA_SYNDROME_ACK, 1));
    }
}

// With an SRQ, expect no receives to be announced: any of its QPs may take them.
TEST_F(RoceResponder, PromisesNothingOfAnSrq) {
    GuestSrq srq = guest_.create_srq();
    qp_ = guest_.create_qp(cq_, cq_, QpShape::sharing(srq.id()));
    activate();
    const vrdma_sge to = mr_.sge(0, 100);
    srq.post_recv(1, {&to, 1});
    srq.post_recv(2, {&to, 1});
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 0));
    EXPECT_EQ(reply().headers.syndrome, syndrome(VRDMA_SYNDROME_ACK, VRDMA_SYNDROME_NO_CREDITS));
}

// Receive SEND first, middle, last, across the wrap-around of the PSNs; expect one ACK with the
// last PSN.
TEST_F(RoceResponder, AcknowledgesALongSendOnce) {
    post_receive(0, 1000);
    const auto data = Buffer::pattern(7, 2 * mtu + 5);
    const auto piece = [&](std::size_t from, std::size_t to) {
        return Payload{&data[from], &data[0] + to};
    };
    deliver(packet(VRDMA_ROCE_SEND_FIRST, 0), piece(0, mtu));
    deliver(packet(VRDMA_ROCE_SEND_MIDDLE, 1), piece(mtu, 2ul * mtu));
    deliver(asking(VRDMA_ROCE_SEND_LAST, 2), piece(2ul * mtu, data.size()));
    expect_acknowledge(reply(), 2, ack);
    expect_received(2 * mtu + 5);
    EXPECT_EQ(mr_.buffer.read(0, data.size()), data);
}

// Receive a SEND that asks for no ACK; expect none. Receive three that do; expect one ACK for all.
TEST_F(RoceResponder, CoalescesAcknowledgements) {
    for (int i = 0; i < 4; ++i) {
        post_receive(0, 100);
    }
    deliver(packet(VRDMA_ROCE_SEND_ONLY, 0));
    expect_silence();
    for (const std::uint32_t n : {1, 2, 3}) {
        deliver(asking(VRDMA_ROCE_SEND_ONLY, n));
    }
    const Arrived answer = reply();
    expect_acknowledge(answer, 3, ack);
    EXPECT_EQ(answer.headers.msn, 4u);
}

// Receive WRITE of three packets, and one with an immediate; expect the bytes and the immediate.
TEST_F(RoceResponder, TakesWrites) {
    const auto data = Buffer::pattern(7, 2 * mtu + 5);
    deliver(remote(VRDMA_ROCE_WRITE_FIRST, 0, 2 * mtu + 5, 8), {data.begin(), data.begin() + mtu});
    deliver(packet(VRDMA_ROCE_WRITE_MIDDLE, 1), {data.begin() + mtu, data.begin() + 2L * mtu});
    deliver(asking(VRDMA_ROCE_WRITE_LAST, 2), {data.begin() + 2L * mtu, data.end()});
    expect_acknowledge(reply(), 2, ack);
    EXPECT_EQ(mr_.buffer.read(8, data.size()), data);
    post_receive(0, 0);
    wire::Headers headers = remote(VRDMA_ROCE_WRITE_ONLY_WITH_IMM, 3, 4);
    headers.imm = 0x1234;
    deliver(headers, Buffer::pattern(9, 4));
    expect_acknowledge(reply(), 3, ack);
    const auto completion = cq_.poll();
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(completion->imm, 0x1234u);
    EXPECT_EQ(mr_.buffer.read(0, 4), Buffer::pattern(9, 4));
}

// Receive a PSN that is ahead, and more after it; expect one NAK with the expected PSN. Receive the
// expected packet and the rest; expect an ACK, and another NAK at the next gap.
TEST_F(RoceResponder, TellsOfAGapOnce) {
    for (int i = 0; i < 5; ++i) {
        post_receive(0, 100);
    }
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 1));
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 2));
    expect_acknowledge(reply(), 0, nak(VRDMA_NAK_PSN_SEQUENCE));
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 1));
    expect_silence();
    EXPECT_FALSE(cq_.poll());
    for (const std::uint32_t n : {0, 1, 2}) {
        deliver(asking(VRDMA_ROCE_SEND_ONLY, n));
    }
    expect_acknowledge(reply(), 2, ack);
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 4));
    expect_acknowledge(reply(), 3, nak(VRDMA_NAK_PSN_SEQUENCE));
    EXPECT_EQ(counter(VRDMA_COUNTER_OUT_OF_SEQUENCE), 4u);
    EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_RTS);
}

// Receive a SEND and a WRITE twice; expect ACKs of the last PSN, and neither to be executed again.
TEST_F(RoceResponder, AcknowledgesDuplicatesWithoutExecutingThem) {
    post_receive(0, 100);
    post_receive(0, 100);
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 0), Buffer::pattern(7, 33));
    deliver(remote(VRDMA_ROCE_WRITE_ONLY, 1, 4, 500), Buffer::pattern(8, 4));
    expect_acknowledge(reply(), 1, ack);
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 0), Buffer::pattern(9, 50));
    const Arrived answer = reply();
    expect_acknowledge(answer, 1, ack);
    EXPECT_EQ(answer.headers.msn, 2u);
    deliver(remote(VRDMA_ROCE_WRITE_ONLY, 1, 4, 500), Buffer::pattern(9, 4));
    expect_acknowledge(reply(), 1, ack);
    expect_received(33);
    EXPECT_FALSE(cq_.poll());
    EXPECT_EQ(mr_.buffer.read(500, 4), Buffer::pattern(8, 4));
    EXPECT_EQ(counter(VRDMA_COUNTER_DUPLICATE_REQUESTS), 2u);
}

// Receive READ of three packets and a byte; expect first, middle, middle, last with their PSNs, and
// the next request to be expected after them.
TEST_F(RoceResponder, AnswersAReadInPackets) {
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, three_packets + 1, 16));
    const auto packets = replies();
    ASSERT_EQ(packets.size(), 4u);
    expect_response(packets[0], VRDMA_ROCE_READ_RESPONSE_FIRST, 0, 16, mtu);
    expect_response(packets[1], VRDMA_ROCE_READ_RESPONSE_MIDDLE, 1, 16 + mtu, mtu);
    expect_response(packets[2], VRDMA_ROCE_READ_RESPONSE_MIDDLE, 2, 16 + 2 * mtu, mtu);
    expect_response(packets[3], VRDMA_ROCE_READ_RESPONSE_LAST, 3, 16 + 3 * mtu, 1);
    EXPECT_EQ(packets[0].headers.syndrome, syndrome(VRDMA_SYNDROME_ACK, 0));
    EXPECT_EQ(packets[3].headers.msn, 1u);
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 4, mtu));
    expect_response(reply(), VRDMA_ROCE_READ_RESPONSE_ONLY, 4, 0, mtu);
}

// Receive a READ of length 0 with an unknown key; expect a response without payload (IBA 9.7.4.1.4:
// the key is not checked).
TEST_F(RoceResponder, AnswersAReadOfNothing) {
    wire::Headers headers = remote(VRDMA_ROCE_READ_REQUEST, 0, 0);
    headers.rkey = 0x4711;
    deliver(headers);
    expect_response(reply(), VRDMA_ROCE_READ_RESPONSE_ONLY, 0, 0, 0);
}

// Receive a READ with an unknown key as the first message of a QP in RTR; expect COMM_EST
// nevertheless, as on one host.
TEST_F(RoceResponder, ARefusedReadEstablishesToo) {
    qp_ = guest_.create_qp(cq_, cq_);
    move_to_init(guest_, qp_);
    vrdma_qp_attr attr = rtr_attr(peer_gid_, Qpn{peer_qpn});
    attr.rq_psn = first_psn;
    ASSERT_TRUE(guest_.slice().modify_qp(qp_.id(), attr));
    wire::Headers headers = remote(VRDMA_ROCE_READ_REQUEST, 0, 8);
    headers.rkey = 0x4711;
    deliver(headers);
    EXPECT_EQ(event_types(), (std::vector<std::uint32_t>{IBV_EVENT_QP_ACCESS_ERR,
                                                         IBV_EVENT_COMM_EST})); // both in one turn
}

// Receive a READ of many turns; expect all of it in order.
TEST_F(RoceResponder, AnswersALongRead) {
    constexpr std::uint32_t packets_asked = 200;
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, packets_asked * mtu));
    const auto packets = replies();
    ASSERT_EQ(packets.size(), packets_asked);
    for (std::uint32_t n = 0; n < packets_asked; ++n) {
        EXPECT_EQ(packets[n].headers.psn, psn(n));
        EXPECT_EQ(packets[n].payload, mr_.buffer.read(std::uint64_t{n} * mtu, mtu));
    }
}

// Receive READ twice, then a request for its last two packets only; expect the whole response
// again, and then the rest, which begins with a first packet (IBA 9.7.5.1.9: as for a new request).
TEST_F(RoceResponder, AnswersADuplicateReadAgain) {
    for (int i = 0; i < 2; ++i) {
        deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, three_packets));
        const auto packets = replies();
        ASSERT_EQ(packets.size(), 3u);
        expect_response(packets[0], VRDMA_ROCE_READ_RESPONSE_FIRST, 0, 0, mtu);
        expect_response(packets[2], VRDMA_ROCE_READ_RESPONSE_LAST, 2, 2ul * mtu, mtu);
    }
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 1, 2 * mtu, mtu));
    auto packets = replies();
    ASSERT_EQ(packets.size(), 2u);
    expect_response(packets[0], VRDMA_ROCE_READ_RESPONSE_FIRST, 1, mtu, mtu);
    expect_response(packets[1], VRDMA_ROCE_READ_RESPONSE_LAST, 2, 2ul * mtu, mtu);
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 2, mtu, 2ul * mtu));
    expect_response(reply(), VRDMA_ROCE_READ_RESPONSE_ONLY, 2, 2ul * mtu, mtu);
    EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_RTS);
}

// Receive the same READ 16 times per round; expect a neighbour's WRITE to complete within a few
// rounds, each of which answers no more than two slices' turns.
TEST_F(RoceResponder, RepeatedReadsTakeTheirTurnsOnly) {
    Guest a{*hca_, "a", ipv4_gid(2)};
    Guest b{*hca_, "b", ipv4_gid(3)};
    GuestCq cq = a.create_cq(64);
    const GuestCq b_cq = b.create_cq(64);
    GuestQp qp = a.create_qp(cq, cq);
    connect_both(a, qp, b, b.create_qp(b_cq, b_cq));
    const MemoryRegion region = b.register_mr(4096);
    const std::uint32_t all = static_cast<std::uint32_t>(mr_.buffer.size());
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, all));
    EXPECT_EQ(replies().size(), all / mtu);
    const std::uint64_t value = 1;
    const std::uint64_t turn = hca::soft::Config{}.turn_bytes;
    for (unsigned messages = 0, rounds = 0; messages < 100; ++rounds) {
        if (cq.poll()) {
            ++messages;
        }
        if (rounds % 4 == 0) {
            qp.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                          .flags = VRDMA_SQ_INLINE | VRDMA_SQ_SIGNALED,
                          .inline_data = std::as_bytes(std::span{&value, 1}),
                          .rkey = region.key,
                          .raddr = region.start});
        }
        for (int i = 0; i < 16; ++i) {
            deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, all));
        }
        hca_->poll();
        std::uint64_t bytes = 0;
        for (const Arrived& packet : sent()) {
            bytes += packet.payload.size();
        }
        ASSERT_LE(bytes, 2 * turn + std::uint64_t{8} * mtu) << rounds;
        ASSERT_LE(rounds, 4 * (messages + 2)) << "the neighbour waits";
    }
}

// Receive an atomic twice, and once more after another one; expect the original value each time,
// and the word to have changed once.
TEST_F(RoceResponder, ReplaysAtomics) {
    *mr_.buffer.at<std::uint64_t>(0) = 40;
    wire::Headers add_two = remote(VRDMA_ROCE_FETCH_ADD, 0, 0);
    add_two.swap_add = 2;
    wire::Headers swap = remote(VRDMA_ROCE_COMPARE_SWAP, 1, 0);
    swap.compare = 42;
    swap.swap_add = 50;
    const auto expect_original = [&](const wire::Headers& headers, std::uint64_t original) {
        deliver(headers);
        const Arrived answer = reply();
        EXPECT_EQ(answer.operation(), VRDMA_ROCE_ATOMIC_ACKNOWLEDGE);
        EXPECT_EQ(answer.headers.psn, headers.psn);
        EXPECT_EQ(answer.headers.original, original);
    };
    expect_original(add_two, 40);
    expect_original(add_two, 40);
    expect_original(swap, 42);
    expect_original(add_two, 40);
    expect_original(swap, 42);
    EXPECT_EQ(*mr_.buffer.at<std::uint64_t>(0), 50u);
}

// Receive an atomic write twice; expect a response without payload each time, and one write.
TEST_F(RoceResponder, ReplaysAtomicWrites) {
    const wire::Headers headers = remote(VRDMA_ROCE_ATOMIC_WRITE, 0, 8, 64);
    for (const std::uint8_t seed : {3, 4}) {
        deliver(headers, Buffer::pattern(seed, 8));
        expect_response(reply(), VRDMA_ROCE_READ_RESPONSE_ONLY, 0, 0, 0);
    }
    EXPECT_EQ(mr_.buffer.read(64, 8), Buffer::pattern(3, 8));
}

// Receive SENDs without a receive; expect one RNR NAK with the QP's timer and then no answer. Post
// a receive; expect the same packet to be accepted.
TEST_F(RoceResponder, IsNotReadyWithoutAReceive) {
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 0));
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 1));
    expect_acknowledge(reply(), 0, syndrome(VRDMA_SYNDROME_RNR_NAK, 14));
    post_receive(0, 100);
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 1));
    expect_silence();
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 0), Buffer::pattern(7, 3));
    expect_acknowledge(reply(), 0, ack);
    expect_received(3);
    deliver(remote(VRDMA_ROCE_WRITE_ONLY_WITH_IMM, 1, 0));
    expect_acknowledge(reply(), 1, syndrome(VRDMA_SYNDROME_RNR_NAK, 14));
    EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_RTS);
}

// Receive READ, SEND and READ at once; expect the responses in order, and no ACK before the
// response of the READ that precedes it.
TEST_F(RoceResponder, AnswersInOrder) {
    post_receive(0x8000, 100);
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, three_packets));
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 3));
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 4, mtu));
    const auto packets = replies();
    ASSERT_GE(packets.size(), 4u);
    for (std::uint32_t n = 0; n < 3; ++n) {
        EXPECT_EQ(packets[n].headers.psn, psn(n));
        EXPECT_NE(packets[n].operation(), VRDMA_ROCE_ACKNOWLEDGE);
    }
    std::uint32_t last = first_psn;
    for (const Arrived& packet : packets) {
        EXPECT_GE(hca::soft::roce::distance(last, packet.headers.psn), 0);
        last = packet.headers.psn;
    }
    EXPECT_EQ(last, psn(4));
}

// Receive WRITEs, READs and atomics that the memory gate refuses; expect a NAK of the PSN of each,
// with the number of messages before it, and an error event of the QP.
TEST_F(RoceResponder, RefusesWhatTheMemoryRefuses) {
    const MemoryRegion foreign = guest_.register_mr(4096, {.pd = PdId{2}});
    const MemoryRegion closed = guest_.register_mr(4096, {.access_flags = 0});
    struct Case {
        const char* name;
        std::uint32_t rkey;
        std::uint64_t address;
        std::uint32_t length;
    };
    const Case cases[] = {
        {"no such key", 0x4711, mr_.start, 8},
        {"key with another tag", mr_.key.value ^ 1, mr_.start, 8},
        {"another PD's", foreign.key.value, foreign.start, 8},
        {"no rights", closed.key.value, closed.start, 8},
        {"before its begin", mr_.key.value, mr_.start - 8, 8},
        {"past its end", mr_.key.value, mr_.start + (1 << 16), 8},
        {"around the end of all addresses", mr_.key.value, ~std::uint64_t{7}, 8},
    };
    for (const auto& [name, rkey, address, length] : cases) {
        for (const std::uint8_t operation :
             {VRDMA_ROCE_WRITE_ONLY, VRDMA_ROCE_READ_REQUEST, VRDMA_ROCE_FETCH_ADD,
              VRDMA_ROCE_COMPARE_SWAP, VRDMA_ROCE_ATOMIC_WRITE}) {
            SCOPED_TRACE(std::string{name} + ", operation " + std::to_string(operation));
            renew();
            deliver(remote(VRDMA_ROCE_WRITE_ONLY, 0, 1), Buffer::pattern(1, 1));
            wire::Headers headers = asking(operation, 1);
            headers.rkey = rkey;
            headers.address = address;
            headers.length = length;
            const bool writes =
                operation == VRDMA_ROCE_WRITE_ONLY || operation == VRDMA_ROCE_ATOMIC_WRITE;
            deliver(headers, Buffer::pattern(9, writes ? length : 0));
            settle();
            const auto packets = sent();
            ASSERT_FALSE(packets.empty());
            expect_acknowledge(packets.back(), 1, nak(VRDMA_NAK_REMOTE_ACCESS));
            EXPECT_EQ(packets.back().headers.msn, 1u);
            EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_ERR);
            EXPECT_EQ(event_types(), std::vector<std::uint32_t>{IBV_EVENT_QP_ACCESS_ERR});
            deliver(remote(VRDMA_ROCE_WRITE_ONLY, 1, 1), Buffer::pattern(9, 1));
            expect_silence();
        }
    }
    EXPECT_EQ(mr_.buffer.read(0, 1 << 16), Buffer::pattern(1, 1 << 16));
}

// Receive operations that the QP itself does not allow, and atomics on misaligned words; expect NAK
// invalid request.
TEST_F(RoceResponder, RefusesWhatTheQpDoesNotDo) {
    for (const std::uint8_t operation :
         {VRDMA_ROCE_WRITE_ONLY, VRDMA_ROCE_READ_REQUEST, VRDMA_ROCE_FETCH_ADD}) {
        SCOPED_TRACE(operation);
        renew({.access_flags = 0});
        deliver(remote(operation, 0, operation == VRDMA_ROCE_FETCH_ADD ? 0 : 8),
                Buffer::pattern(9, operation == VRDMA_ROCE_WRITE_ONLY ? 8 : 0));
        expect_refusal(0, VRDMA_NAK_INVALID_REQUEST);
    }
    renew({.max_dest_rd_atomic = 0});
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, 8));
    expect_refusal(0, VRDMA_NAK_INVALID_REQUEST);
    renew();
    deliver(remote(VRDMA_ROCE_FETCH_ADD, 0, 0, 4));
    expect_refusal(0, VRDMA_NAK_INVALID_REQUEST);
}

// Receive packets in an order that no message has; expect NAK invalid request for the one that is
// out of place.
TEST_F(RoceResponder, RefusesOpcodesOutOfPlace) {
    const std::vector<std::uint8_t> cases[] = {
        {VRDMA_ROCE_SEND_MIDDLE},
        {VRDMA_ROCE_SEND_LAST},
        {VRDMA_ROCE_WRITE_MIDDLE},
        {VRDMA_ROCE_WRITE_LAST_WITH_IMM},
        {VRDMA_ROCE_SEND_FIRST, VRDMA_ROCE_SEND_FIRST},
        {VRDMA_ROCE_SEND_FIRST, VRDMA_ROCE_SEND_ONLY},
        {VRDMA_ROCE_SEND_FIRST, VRDMA_ROCE_WRITE_MIDDLE},
        {VRDMA_ROCE_SEND_FIRST, VRDMA_ROCE_WRITE_LAST},
        {VRDMA_ROCE_SEND_FIRST, VRDMA_ROCE_READ_REQUEST},
        {VRDMA_ROCE_SEND_FIRST, VRDMA_ROCE_FETCH_ADD},
        {VRDMA_ROCE_WRITE_FIRST, VRDMA_ROCE_WRITE_FIRST},
        {VRDMA_ROCE_WRITE_FIRST, VRDMA_ROCE_SEND_MIDDLE},
        {VRDMA_ROCE_WRITE_FIRST, VRDMA_ROCE_SEND_LAST_WITH_INV},
        {VRDMA_ROCE_WRITE_FIRST, VRDMA_ROCE_READ_REQUEST},
    };
    for (const auto& operations : cases) {
        SCOPED_TRACE(::testing::PrintToString(operations));
        renew();
        post_receive(0x8000, 4096);
        for (std::uint32_t n = 0; n < operations.size(); ++n) {
            const std::uint8_t operation = operations[n];
            const bool bare =
                operation == VRDMA_ROCE_READ_REQUEST || operation == VRDMA_ROCE_FETCH_ADD;
            deliver(remote(operation, n, 4 * mtu), Buffer::pattern(1, bare ? 0 : mtu));
        }
        expect_refusal(static_cast<std::uint32_t>(operations.size()) - 1,
                       VRDMA_NAK_INVALID_REQUEST);
    }
}

// Receive packets whose length their position in the message does not allow; expect NAK invalid
// request.
TEST_F(RoceResponder, RefusesWrongLengths) {
    struct Case {
        const char* name;
        std::uint8_t first; // of a message, or 0xff
        std::uint8_t operation;
        std::uint32_t length;  // the RETH's
        std::uint32_t payload; // of the last packet
    };
    constexpr std::uint8_t none = 0xff;
    const Case cases[] = {
        {"short first", none, VRDMA_ROCE_SEND_FIRST, 0, mtu - 1},
        {"long first", none, VRDMA_ROCE_SEND_FIRST, 0, mtu + 1},
        {"short middle", VRDMA_ROCE_SEND_FIRST, VRDMA_ROCE_SEND_MIDDLE, 0, mtu - 4},
        {"empty middle", VRDMA_ROCE_SEND_FIRST, VRDMA_ROCE_SEND_MIDDLE, 0, 0},
        {"empty last", VRDMA_ROCE_SEND_FIRST, VRDMA_ROCE_SEND_LAST, 0, 0},
        {"long last", VRDMA_ROCE_SEND_FIRST, VRDMA_ROCE_SEND_LAST, 0, mtu + 1},
        {"long only", none, VRDMA_ROCE_SEND_ONLY, 0, mtu + 1},
        {"WRITE shorter than RETH", none, VRDMA_ROCE_WRITE_ONLY, 10, 9},
        {"WRITE longer than RETH", none, VRDMA_ROCE_WRITE_ONLY, 10, 11},
        {"first that is all", none, VRDMA_ROCE_WRITE_FIRST, mtu, mtu},
        {"short first WRITE", none, VRDMA_ROCE_WRITE_FIRST, 4 * mtu, mtu - 4},
        {"middle that is all", VRDMA_ROCE_WRITE_FIRST, VRDMA_ROCE_WRITE_MIDDLE, 2 * mtu, mtu},
        {"last too early", VRDMA_ROCE_WRITE_FIRST, VRDMA_ROCE_WRITE_LAST, 3 * mtu, mtu},
        {"last too short", VRDMA_ROCE_WRITE_FIRST, VRDMA_ROCE_WRITE_LAST, 2 * mtu, mtu - 1},
        {"longer than any message", none, VRDMA_ROCE_WRITE_FIRST, 0x80000001, mtu},
        {"READ longer than any message", none, VRDMA_ROCE_READ_REQUEST, 0x80000001, 0},
        {"atomic write of 4", none, VRDMA_ROCE_ATOMIC_WRITE, 8, 4},
        {"atomic write of 12", none, VRDMA_ROCE_ATOMIC_WRITE, 8, 12},
        {"atomic write of 8 that says 9", none, VRDMA_ROCE_ATOMIC_WRITE, 9, 8},
    };
    for (const auto& [name, first, operation, length, payload] : cases) {
        SCOPED_TRACE(name);
        renew();
        post_receive(0x8000, 4096);
        std::uint32_t n = 0;
        if (first != none) {
            deliver(remote(first, n++, length), Buffer::pattern(1, mtu));
        }
        deliver(remote(operation, n, length), Buffer::pattern(1, payload));
        expect_refusal(n, VRDMA_NAK_INVALID_REQUEST);
    }
}

// Receive a SEND that is longer than its receive; expect the receive to fail, and NAK invalid
// request.
TEST_F(RoceResponder, RefusesASendThatDoesNotFit) {
    post_receive(0, mtu + 3);
    deliver(packet(VRDMA_ROCE_SEND_FIRST, 0), Buffer::pattern(1, mtu));
    deliver(asking(VRDMA_ROCE_SEND_LAST, 1), Buffer::pattern(1, 4));
    expect_acknowledge(reply(), 1, nak(VRDMA_NAK_INVALID_REQUEST));
    const auto completion = cq_.poll();
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->status, IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_ERR);
}

// Receive one READ more at once than the QP was set up for; expect the others to be answered, and
// then NAK invalid request. Receive as many one by one; expect answers.
TEST_F(RoceResponder, RefusesMoreReadsThanAgreed) {
    renew({.max_dest_rd_atomic = 2});
    for (std::uint32_t n = 0; n < 5; ++n) {
        deliver(remote(VRDMA_ROCE_READ_REQUEST, n, mtu));
        expect_response(reply(), VRDMA_ROCE_READ_RESPONSE_ONLY, n, 0, mtu);
    }
    for (std::uint32_t n = 5; n < 8; ++n) {
        deliver(remote(VRDMA_ROCE_READ_REQUEST, n, mtu));
    }
    settle();
    const auto packets = sent();
    ASSERT_EQ(packets.size(), 3u);
    expect_response(packets[0], VRDMA_ROCE_READ_RESPONSE_ONLY, 5, 0, mtu);
    expect_response(packets[1], VRDMA_ROCE_READ_RESPONSE_ONLY, 6, 0, mtu);
    expect_acknowledge(packets[2], 7, nak(VRDMA_NAK_INVALID_REQUEST));
    EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_ERR);
}

// Receive READ, SEND and a WRITE that is refused, at once; expect the answers to the first two, in
// order, and then the NAK.
TEST_F(RoceResponder, AnswersBeforeItRefuses) {
    post_receive(0x8000, 100);
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, three_packets));
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 3));
    wire::Headers headers = remote(VRDMA_ROCE_WRITE_ONLY, 4, 8);
    headers.rkey = 0x4711;
    deliver(headers, Buffer::pattern(9, 8));
    const auto packets = replies();
    ASSERT_EQ(packets.size(), 5u);
    for (std::uint32_t n = 0; n < 3; ++n) {
        EXPECT_EQ(packets[n].headers.psn, psn(n));
    }
    expect_acknowledge(packets[3], 3, ack);
    expect_acknowledge(packets[4], 4, nak(VRDMA_NAK_REMOTE_ACCESS));
}

// Receive READ, and a SEND that finds no receive or comes after a gap; expect the NAK behind all of
// the READ's responses (IBA 9.7.5.1.1).
TEST_F(RoceResponder, NaksComeBehindResponses) {
    const auto expect_behind = [&](std::uint32_t n, std::uint8_t aeth) {
        renew();
        deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, three_packets));
        deliver(asking(VRDMA_ROCE_SEND_ONLY, n));
        const auto packets = replies();
        ASSERT_EQ(packets.size(), 4u);
        for (std::uint32_t i = 0; i < 3; ++i) {
            EXPECT_EQ(packets[i].headers.psn, psn(i));
        }
        expect_acknowledge(packets[3], 3, aeth);
    };
    expect_behind(3, syndrome(VRDMA_SYNDROME_RNR_NAK, 14));
    expect_behind(4, nak(VRDMA_NAK_PSN_SEQUENCE));
}

// Receive READ, SEND without a receive, and the SEND again after a receive was posted, before any
// of it is answered; expect no NAK.
TEST_F(RoceResponder, TakesBackANakThatIsNotOut) {
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, 200 * mtu));
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 200));
    hca_->poll();
    post_receive(0, 100);
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 200));
    const auto packets = replies();
    ASSERT_FALSE(packets.empty());
    for (const Arrived& packet : packets) {
        EXPECT_EQ(packet.headers.syndrome & VRDMA_SYNDROME_TYPE, 0u);
    }
    expect_acknowledge(packets.back(), 200, ack);
}

// Receive a long READ and a WRITE that is refused; expect all of the READ's responses before the
// NAK, though the QP enters the error state at once and reports it once (IBA 9.9.2).
TEST_F(RoceResponder, AnswersALongReadBeforeItRefuses) {
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, 200 * mtu));
    wire::Headers bad = remote(VRDMA_ROCE_WRITE_ONLY, 200, 8);
    bad.rkey = 0x4711;
    deliver(bad, Buffer::pattern(9, 8));
    hca_->poll();
    EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_ERR);
    const auto packets = replies();
    ASSERT_EQ(packets.size(), 201u);
    for (std::uint32_t n = 0; n < 200; ++n) {
        EXPECT_EQ(packets[n].headers.psn, psn(n));
        EXPECT_EQ(packets[n].payload, mr_.buffer.read(std::uint64_t{n} * mtu, mtu));
    }
    expect_acknowledge(packets.back(), 200, nak(VRDMA_NAK_REMOTE_ACCESS));
    EXPECT_EQ(event_types(), std::vector<std::uint32_t>{IBV_EVENT_QP_ACCESS_ERR});
}

// The same, but the guest resets or destroys the QP, or deregisters the memory, while the READ is
// answered; expect the responses to end, with a NAK if the peer may still get one.
TEST_F(RoceResponder, EndsAnsweringWithTheQp) {
    const auto begin = [&] {
        renew();
        deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, 200 * mtu));
        deliver(asking(VRDMA_ROCE_COMPARE_SWAP, 200));
        hca_->poll();
        EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_ERR);
        EXPECT_LT(sent().size(), 200u);
    };
    begin();
    ASSERT_TRUE(guest_.slice().modify_qp(qp_.id(), state_attr(IBV_QPS_RESET)));
    EXPECT_LT(replies().size(), 20u);
    begin();
    guest_.slice().destroy_qp(qp_.id());
    EXPECT_LT(replies().size(), 20u);

    begin();
    ASSERT_TRUE(guest_.slice().deregister_mr(mr_.key));
    const auto packets = replies();
    ASSERT_FALSE(packets.empty());
    EXPECT_EQ(packets.back().headers.syndrome, nak(VRDMA_NAK_REMOTE_ACCESS));
    expect_silence();
}

// Receive an unknown operation; expect NAK invalid request (IBA 9.7.4.1.2). With a PSN behind the
// expected one it has no effect, and with one ahead it is a gap.
TEST_F(RoceResponder, RefusesUnknownOperations) {
    constexpr std::uint8_t flush = 0x1c;
    post_receive(0, 100);
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 0));
    expect_acknowledge(reply(), 0, ack);
    deliver(asking(flush, 0));
    expect_silence();
    deliver(asking(flush, 2));
    expect_acknowledge(reply(), 1, nak(VRDMA_NAK_PSN_SEQUENCE));
    deliver(asking(flush, 1), Buffer::pattern(1, 20));
    expect_refusal(1, VRDMA_NAK_INVALID_REQUEST);
    EXPECT_EQ(counter(VRDMA_COUNTER_MALFORMED_PACKETS), 3u);
}

// Receive an atomic write with no resources for outstanding answers; expect a refusal.
TEST_F(RoceResponder, AtomicWritesNeedResources) {
    renew({.max_dest_rd_atomic = 0});
    deliver(remote(VRDMA_ROCE_ATOMIC_WRITE, 0, 8, 64), Buffer::pattern(3, 8));
    expect_refusal(0, VRDMA_NAK_INVALID_REQUEST);
}

// Receive a long READ and a SEND, and deregister the memory while the READ is answered; expect a
// NAK for the packet that could not be made, and one error.
TEST_F(RoceResponder, MemoryGoesWhileItIsRead) {
    const MemoryRegion brief = guest_.register_mr(1 << 16);
    post_receive(0, 100);
    wire::Headers headers = remote(VRDMA_ROCE_READ_REQUEST, 0, 100 * mtu);
    headers.rkey = brief.key.value;
    headers.address = brief.start;
    deliver(headers);
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 100));
    hca_->poll();
    const auto begun = static_cast<std::uint32_t>(sent().size());
    ASSERT_GT(begun, 0u);
    ASSERT_LT(begun, 100u);
    ASSERT_TRUE(guest_.slice().deregister_mr(brief.key));
    expect_refusal(begun, VRDMA_NAK_REMOTE_ACCESS);
}

// Receive a long READ, deregister the memory, and destroy the QP, which fails as it answers for the
// last time; expect that nothing looks at the QP afterwards (AddressSanitizer would tell).
TEST_F(RoceResponder, AQpThatFailsAsItGoesIsGone) {
    const MemoryRegion brief = guest_.register_mr(1 << 16);
    wire::Headers headers = remote(VRDMA_ROCE_READ_REQUEST, 0, 100 * mtu);
    headers.rkey = brief.key.value;
    headers.address = brief.start;
    deliver(headers);
    hca_->poll();
    ASSERT_LT(sent().size(), 100u);
    ASSERT_TRUE(guest_.slice().deregister_mr(brief.key));
    guest_.slice().destroy_qp(qp_.id());
    const auto packets = replies();
    ASSERT_EQ(packets.size(), 1u);
    EXPECT_EQ(packets.front().headers.syndrome, nak(VRDMA_NAK_REMOTE_ACCESS));
}

// Receive a READ, and once more together with the SEND that invalidates its window: the peer had
// asked again before the answer came. Expect a NAK that tells the peer so, and the QP to go on.
TEST_F(RoceResponder, SendInvalidatesWhatIsReadAgain) {
    const MemoryRegion bound = register_for_windows();
    const Key window = bind_window(bound);
    post_receive(0, 100);
    post_receive(1, 100);
    const auto read = by_window(remote(VRDMA_ROCE_READ_REQUEST, 0, three_packets), window, bound);
    const auto end = by_window(asking(VRDMA_ROCE_SEND_ONLY_WITH_INV, 3), window, bound);
    deliver(read);
    EXPECT_EQ(replies().size(), 3u);
    deliver(read);
    deliver(end);
    auto packets = replies();
    ASSERT_EQ(packets.size(), 2u);
    expect_acknowledge(packets[0], 0, nak(VRDMA_NAK_REMOTE_ACCESS));
    expect_acknowledge(packets[1], 3, ack);
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 4));
    expect_acknowledge(reply(), 4, ack);
    EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_RTS);
    EXPECT_EQ(counter(VRDMA_COUNTER_REFUSED_REQUESTS), 0u);
}

// Receive a READ of a window together with the SEND that invalidates it; expect a NAK of the READ,
// and one error.
TEST_F(RoceResponder, SendInvalidatesWhatIsRead) {
    const MemoryRegion bound = register_for_windows();
    const Key window = bind_window(bound);
    post_receive(0, 100);
    deliver(by_window(remote(VRDMA_ROCE_READ_REQUEST, 0, mtu), window, bound));
    deliver(by_window(asking(VRDMA_ROCE_SEND_ONLY_WITH_INV, 1), window, bound));
    expect_refusal(0, VRDMA_NAK_REMOTE_ACCESS);
}

} // namespace
} // namespace vrdma::test
