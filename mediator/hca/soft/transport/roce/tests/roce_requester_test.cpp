// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The packets that an RC QP sends, and its reaction to the peer's answers (IBA 9.7.5, 9.7.6).
#include <chrono>

#include "mediator/hca/soft/transport/retry.h"
#include "mediator/hca/soft/transport/roce/tests/network_peer.h"

namespace vrdma::test {
namespace {

class RoceRequester : public NetworkPeer {
  protected:
    explicit RoceRequester(const Terms& terms = {}) : NetworkPeer{terms} { mr_.buffer.fill(1); }

    void respond(std::uint8_t operation, std::uint32_t n, const Payload& payload) {
        wire::Headers headers = packet(operation, n);
        headers.syndrome = ack;
        deliver(headers, payload);
    }

    // Waits for the next packets, which timers may send.
    std::vector<Arrived> await() {
        const auto limit = Clock::now() + std::chrono::seconds{10};
        std::vector<Arrived> packets;
        while (packets.empty() && Clock::now() < limit) {
            hca_->poll();
            packets = sent();
        }
        return packets;
    }
    // Waits for a completion. await() cannot be used for a failed QP, which sends no packets.
    ibv_wc_status await_completion() {
        const auto limit = Clock::now() + std::chrono::seconds{10};
        while (Clock::now() < limit) {
            if (const auto completion = cq_.poll()) {
                return completion->status;
            }
            hca_->poll();
        }
        ADD_FAILURE() << "no completion";
        return IBV_WC_GENERAL_ERR;
    }

    static std::vector<std::uint32_t> psns(const std::vector<Arrived>& packets) {
        std::vector<std::uint32_t> found;
        found.reserve(packets.size());
        for (const Arrived& packet : packets) {
            found.push_back(hca::soft::roce::add(packet.headers.psn, -first_psn));
        }
        return found;
    }
    using Psns = std::vector<std::uint32_t>;

    std::vector<ibv_wc_status> statuses() {
        settle();
        std::vector<ibv_wc_status> found;
        while (const auto completion = cq_.poll()) {
            found.push_back(completion->status);
        }
        return found;
    }
    using Statuses = std::vector<ibv_wc_status>;
};

// Send and write two packets and a byte with every path MTU; expect first, middle and last with
// consecutive PSNs across the wrap-around, the RETH in the first, and the last to ask for an ACK.
TEST_F(RoceRequester, DividesMessagesIntoPackets) {
    for (std::uint8_t path_mtu = IBV_MTU_256; path_mtu <= IBV_MTU_4096; ++path_mtu) {
        const std::uint32_t size = 128u << path_mtu;
        SCOPED_TRACE(size);
        renew({.path_mtu = path_mtu});
        post(VRDMA_SQ_SEND, 2 * size + 1);
        post(VRDMA_SQ_RDMA_WRITE, 2 * size + 1);
        const auto packets = replies();
        EXPECT_EQ(psns(packets), (Psns{0, 1, 2, 3, 4, 5}));
        constexpr std::uint8_t operations[] = {VRDMA_ROCE_SEND_FIRST,   VRDMA_ROCE_SEND_MIDDLE,
                                               VRDMA_ROCE_SEND_LAST,    VRDMA_ROCE_WRITE_FIRST,
                                               VRDMA_ROCE_WRITE_MIDDLE, VRDMA_ROCE_WRITE_LAST};
        ASSERT_EQ(packets.size(), std::size(operations));
        for (std::size_t i = 0; i < packets.size(); ++i) {
            EXPECT_EQ(packets[i].operation(), operations[i]);
            EXPECT_EQ(packets[i].payload, mr_.buffer.read(i % 3 * size, i % 3 == 2 ? 1 : size));
            EXPECT_EQ(packets[i].headers.target_qpn, peer_qpn);
            EXPECT_EQ(packets[i].path.target_mac, peer_mac);
        }
        EXPECT_TRUE(packets[2].headers.ack_request);
        EXPECT_EQ(packets[3].headers.length, 2 * size + 1);
        EXPECT_EQ(packets[3].headers.address, 0x10000u);
        EXPECT_EQ(packets[3].headers.rkey, 0x1234u);
    }
}

// Send five; receive an ACK of the third, then of the last; expect three completions, then two.
// Receive ACKs of PSNs that were never sent, and of PSNs that were acknowledged long ago; expect no
// effect.
TEST_F(RoceRequester, TakesAcknowledgements) {
    for (int i = 0; i < 5; ++i) {
        post(VRDMA_SQ_SEND, 8);
    }
    EXPECT_EQ(psns(replies()), (Psns{0, 1, 2, 3, 4}));
    answer(5);
    answer(1000);
    answer(5, nak(VRDMA_NAK_REMOTE_ACCESS));
    EXPECT_EQ(statuses(), Statuses{});
    answer(2);
    EXPECT_EQ(statuses(), Statuses(3, IBV_WC_SUCCESS));
    answer(0);
    answer(1, nak(VRDMA_NAK_REMOTE_OPERATION));
    answer(0, syndrome(VRDMA_SYNDROME_RNR_NAK, 1));
    EXPECT_EQ(statuses(), Statuses{});
    answer(4);
    EXPECT_EQ(statuses(), Statuses(2, IBV_WC_SUCCESS));
    expect_silence();
    EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_RTS);
}

// Send messages of three packets; receive an ACK in the middle of the second, and a NAK of its last
// packet; expect one completion, and the packets that were not acknowledged again, with the same
// bytes.
TEST_F(RoceRequester, GoesBackToTheGap) {
    post(VRDMA_SQ_SEND, 3 * mtu);
    post(VRDMA_SQ_SEND, 3 * mtu);
    EXPECT_EQ(psns(replies()), (Psns{0, 1, 2, 3, 4, 5}));
    answer(3);
    EXPECT_EQ(statuses(), Statuses{IBV_WC_SUCCESS});
    answer(5, nak(VRDMA_NAK_PSN_SEQUENCE));
    const auto packets = replies();
    EXPECT_EQ(psns(packets), Psns{5});
    EXPECT_EQ(packets.at(0).operation(), VRDMA_ROCE_SEND_LAST);
    EXPECT_EQ(packets.at(0).payload, mr_.buffer.read(2ul * mtu, mtu));
    EXPECT_EQ(counter(VRDMA_COUNTER_SEQUENCE_NAKS), 1u);
    EXPECT_EQ(counter(VRDMA_COUNTER_RETRANSMITS), 1u);
    EXPECT_EQ(counter(VRDMA_COUNTER_TX_PACKETS), 7u);
    answer(5);
    EXPECT_EQ(statuses(), Statuses{IBV_WC_SUCCESS});
}

// Announce credits for one receive, then for two more; expect as many SENDs, and each time one more
// that asks for credits. WRITEs between them need none.
TEST_F(RoceRequester, SendsWhatThereAreReceivesFor) {
    post(VRDMA_SQ_SEND, 8);
    EXPECT_EQ(psns(replies()), Psns{0});
    answer(0, syndrome(VRDMA_SYNDROME_ACK, 1));
    EXPECT_EQ(statuses(), Statuses{IBV_WC_SUCCESS});
    post(VRDMA_SQ_RDMA_WRITE, 8);
    for (int i = 0; i < 4; ++i) {
        post(VRDMA_SQ_SEND, 8);
        post(VRDMA_SQ_RDMA_WRITE_WITH_IMM, 8);
    }
    EXPECT_EQ(psns(replies()), (Psns{1, 2, 3}));
    answer(1, syndrome(VRDMA_SYNDROME_ACK, 1)); // the same receive
    expect_silence();
    answer(2, syndrome(VRDMA_SYNDROME_ACK, 2));
    EXPECT_EQ(psns(replies()), (Psns{4, 5}));
    answer(5, ack); // ends the use of credits
    EXPECT_EQ(psns(replies()), (Psns{6, 7, 8, 9}));
    answer(9, ack);
    EXPECT_EQ(statuses(), Statuses(9, IBV_WC_SUCCESS));
}

// Announce no receive, and post a long SEND; expect only its first packet, which asks for an
// answer, also after an RNR NAK. Then acknowledge it; expect the rest.
TEST_F(RoceRequester, AsksWithOnePacketOfALongSend) {
    post(VRDMA_SQ_SEND, 8);
    EXPECT_EQ(replies().size(), 1u);
    answer(0, syndrome(VRDMA_SYNDROME_ACK, 0));
    EXPECT_EQ(statuses(), Statuses{IBV_WC_SUCCESS});
    post(VRDMA_SQ_SEND, 3 * mtu);
    post(VRDMA_SQ_SEND, 8);
    auto packets = replies();
    EXPECT_EQ(psns(packets), Psns{1});
    EXPECT_TRUE(packets.at(0).headers.ack_request);
    answer(1, syndrome(VRDMA_SYNDROME_RNR_NAK, 1));
    packets = await();
    EXPECT_EQ(psns(packets), Psns{1});
    EXPECT_TRUE(packets.at(0).headers.ack_request);
    answer(1, syndrome(VRDMA_SYNDROME_ACK, 1));
    EXPECT_EQ(psns(replies()), (Psns{2, 3, 4}));
    answer(4, ack);
    EXPECT_EQ(statuses(), Statuses(2, IBV_WC_SUCCESS));
}

// Announce no receive each time, by responses to READs, which imply that the SENDs before them were
// accepted; expect the next SEND to ask nevertheless.
TEST_F(RoceRequester, GoesOnWithoutCredits) {
    post(VRDMA_SQ_SEND, 8);
    EXPECT_EQ(psns(replies()), Psns{0});
    answer(0, syndrome(VRDMA_SYNDROME_ACK, 0));
    EXPECT_EQ(statuses(), Statuses{IBV_WC_SUCCESS});
    for (std::uint32_t n = 1; n < 4; ++n) {
        post(VRDMA_SQ_SEND, 8);
        post(VRDMA_SQ_RDMA_READ, 8);
    }
    for (std::uint32_t n = 1; n < 7; n += 2) {
        EXPECT_EQ(psns(replies()), (Psns{n, n + 1}));
        wire::Headers headers = packet(VRDMA_ROCE_READ_RESPONSE_ONLY, n + 1);
        headers.syndrome = syndrome(VRDMA_SYNDROME_ACK, 0);
        deliver(headers, Payload(8));
    }
    EXPECT_EQ(statuses(), Statuses(6, IBV_WC_SUCCESS));
}

// Receive an RNR NAK with a timer of 1.28 ms; expect the packet again after that time.
TEST_F(RoceRequester, WaitsForAReceiver) {
    post(VRDMA_SQ_SEND, 8);
    post(VRDMA_SQ_SEND, 8);
    EXPECT_EQ(replies().size(), 2u);
    const auto begin = Clock::now();
    answer(0, syndrome(VRDMA_SYNDROME_RNR_NAK, 14));
    const auto packets = await();
    EXPECT_GE(Clock::now() - begin, hca::soft::rnr_delay(14));
    ASSERT_FALSE(packets.empty());
    EXPECT_EQ(packets[0].headers.psn, psn(0));
    answer(1);
    EXPECT_EQ(statuses(), Statuses(2, IBV_WC_SUCCESS));
}

// Receive an RNR NAK and a sequence NAK; expect one packet, and not before the delay of the former
// is over. Receive the same again, with a delay of 491 ms; expect all packets at once.
TEST_F(RoceRequester, GoesOnWhenAPeerEndsItsRest) {
    renew({.rnr_retry = 7});
    post(VRDMA_SQ_SEND, 8);
    post(VRDMA_SQ_SEND, 8);
    EXPECT_EQ(replies().size(), 2u);
    const auto begin = Clock::now();
    answer(0, syndrome(VRDMA_SYNDROME_RNR_NAK, 20)); // 10 ms
    answer(0, nak(VRDMA_NAK_PSN_SEQUENCE));          // for the second packet
    EXPECT_EQ(psns(await()), Psns{0});
    EXPECT_GE(Clock::now() - begin, hca::soft::rnr_delay(20));
    answer(0, syndrome(VRDMA_SYNDROME_RNR_NAK, 31));
    expect_silence();
    answer(0, nak(VRDMA_NAK_PSN_SEQUENCE));
    EXPECT_EQ(psns(replies()), (Psns{0, 1}));
    answer(1);
    EXPECT_EQ(statuses(), Statuses(2, IBV_WC_SUCCESS));
}

// Receive half of a READ, and an RNR NAK for the rest; expect the request for the rest when the
// delay is over, and the completion when it is answered.
TEST_F(RoceRequester, WaitsForTheRestOfARead) {
    renew({.rnr_retry = 7});
    post(VRDMA_SQ_RDMA_READ, 2 * mtu);
    EXPECT_EQ(psns(replies()), Psns{0});
    deliver(packet(VRDMA_ROCE_READ_RESPONSE_FIRST, 0), Payload(mtu));
    answer(1, syndrome(VRDMA_SYNDROME_RNR_NAK, 1));
    EXPECT_EQ(statuses(), Statuses{});
    const auto again = await();
    EXPECT_EQ(psns(again), Psns{1});
    EXPECT_EQ(again.at(0).operation(), VRDMA_ROCE_READ_REQUEST);
    deliver(packet(VRDMA_ROCE_READ_RESPONSE_ONLY, 1), Payload(mtu));
    EXPECT_EQ(statuses(), Statuses{IBV_WC_SUCCESS});
}

// Receive RNR NAKs until the peer rests, and then sequence NAKs only; expect all but the first to
// use up the retries.
TEST_F(RoceRequester, GivesUpOnAPeerThatOnlySaysThatItIsReady) {
    renew({.retry_cnt = 2, .rnr_retry = 7});
    post(VRDMA_SQ_SEND, 8);
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(psns(await()), Psns{0});
        answer(0, syndrome(VRDMA_SYNDROME_RNR_NAK, 1));
    }
    for (int tries = 0; tries < 4; ++tries) {
        EXPECT_EQ(statuses(), Statuses{});
        answer(0, nak(VRDMA_NAK_PSN_SEQUENCE));
        (void)replies();
    }
    EXPECT_EQ(statuses(), Statuses{IBV_WC_RETRY_EXC_ERR});
}

// Receive an RNR NAK, and copies of it before its delay is over; expect the copies to cost no
// retry. Then receive one more after each retry; expect RNR_RETRY_EXC_ERR after the agreed number.
TEST_F(RoceRequester, GivesUpOnAReceiverThatStaysNotReady) {
    renew({.rnr_retry = 2});
    post(VRDMA_SQ_SEND, 8);
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(psns(await()), Psns{0});
        for (int copies = 0; copies < 3; ++copies) {
            answer(0, syndrome(VRDMA_SYNDROME_RNR_NAK, 16));
        }
        EXPECT_EQ(statuses(), Statuses{});
    }
    EXPECT_EQ(psns(await()), Psns{0});
    answer(0, syndrome(VRDMA_SYNDROME_RNR_NAK, 16));
    EXPECT_EQ(statuses(), Statuses{IBV_WC_RNR_RETRY_EXC_ERR});
    EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_ERR);
}

// Let a transmission time out before each RNR NAK, more often in total than there are retries;
// expect no error, because the peer answers.
TEST_F(RoceRequester, APeerThatAnswersIsThere) {
    renew({.timeout = 9, .retry_cnt = 1});
    post(VRDMA_SQ_SEND, 8);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(psns(await()), Psns{0});
        EXPECT_EQ(psns(await()), Psns{0});
        answer(0, syndrome(VRDMA_SYNDROME_RNR_NAK, 1));
        EXPECT_EQ(statuses(), Statuses{});
    }
    EXPECT_EQ(psns(await()), Psns{0});
    answer(0);
    EXPECT_EQ(statuses(), Statuses{IBV_WC_SUCCESS});
}

// Receive a NAK of the second of three; expect success, the NAK's status, and a flush.
TEST_F(RoceRequester, FailsByTheNak) {
    const std::pair<vrdma_nak, ibv_wc_status> cases[] = {
        {VRDMA_NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR},
        {VRDMA_NAK_REMOTE_ACCESS, IBV_WC_REM_ACCESS_ERR},
        {VRDMA_NAK_REMOTE_OPERATION, IBV_WC_REM_OP_ERR}};
    for (const auto& [why, status] : cases) {
        SCOPED_TRACE(status);
        renew();
        for (int i = 0; i < 3; ++i) {
            post(VRDMA_SQ_RDMA_WRITE, 8);
        }
        EXPECT_EQ(replies().size(), 3u);
        answer(1, nak(why));
        EXPECT_EQ(statuses(), (Statuses{IBV_WC_SUCCESS, status, IBV_WC_WR_FLUSH_ERR}));
        EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_ERR);
        expect_silence();
    }
}

// Answer nothing; expect everything to be sent again after each timeout. Expect RETRY_EXC_ERR after
// one silence more than the agreed number of retries, each of four timeouts.
TEST_F(RoceRequester, GivesUpOnAPeerThatIsGone) {
    constexpr std::uint8_t timeout = 14; // 67 ms: the engine may lose its core for a while
    renew({.timeout = timeout, .retry_cnt = 2});
    post(VRDMA_SQ_SEND, 8);
    const auto begin = Clock::now();
    auto last = begin;
    for (int tries = 0; tries < 3; ++tries) {
        EXPECT_EQ(psns(await()), Psns{0});
        const auto now = Clock::now();
        EXPECT_TRUE(tries == 0 || now - last > hca::soft::ack_timeout(timeout) / 4);
        last = now;
    }
    EXPECT_EQ(await_completion(), IBV_WC_RETRY_EXC_ERR);
    EXPECT_GT(Clock::now() - begin, 2 * hca::soft::silence_timeout(timeout));
    EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_ERR);
    EXPECT_EQ(counter(VRDMA_COUNTER_ACK_TIMEOUTS), 3u);
    // If the engine loses its core, fewer packets go out.
    EXPECT_EQ(counter(VRDMA_COUNTER_RETRANSMITS), 2 + counter(VRDMA_COUNTER_EARLY_RETRIES));
    EXPECT_LE(counter(VRDMA_COUNTER_EARLY_RETRIES), 9u);
}

// Send and receive the ACK; send again just before the first message's timeout would expire. Expect
// the second message to have its full timeout.
TEST_F(RoceRequester, EachMessageHasItsTime) {
    constexpr std::uint8_t timeout = 16; // 268 ms: the engine may lose its core for a while
    renew({.timeout = timeout, .retry_cnt = 0});
    post(VRDMA_SQ_SEND, 8);
    EXPECT_EQ(replies().size(), 1u);
    answer(0);
    EXPECT_EQ(statuses(), Statuses{IBV_WC_SUCCESS});
    pass(hca::soft::ack_timeout(timeout) * 3 / 4);
    const auto begin = Clock::now();
    post(VRDMA_SQ_SEND, 8);
    EXPECT_EQ(psns(await()), Psns{1});
    EXPECT_EQ(await_completion(), IBV_WC_RETRY_EXC_ERR);
    EXPECT_GE(Clock::now() - begin, hca::soft::ack_timeout(timeout) / 2); // not a quarter
    EXPECT_EQ(counter(VRDMA_COUNTER_ACK_TIMEOUTS), 1u);
}

class RequesterWithShortRto : public RoceRequester {
  protected:
    // The engine may lose its core for a while.
    RequesterWithShortRto() : RoceRequester{{.min_rto = std::chrono::milliseconds{100}}} {}

    // The peer answers the first message at once.
    void begin() {
        renew({.timeout = 22, .retry_cnt = 0}); // 17 s
        post(VRDMA_SQ_SEND, 8);
        EXPECT_EQ(psns(await()), Psns{0});
        answer(0);
        EXPECT_EQ(statuses(), Statuses{IBV_WC_SUCCESS});
    }
};

// Send and receive the ACK at once; write three packets and answer nothing. Expect the first packet
// to be sent again long before the timeout, repeatedly and alone, without counting as a retry.
// Expect the other packets again when they turn out to be lost.
TEST_F(RequesterWithShortRto, RetransmitsToAPeerThatUsedToAnswer) {
    begin();
    post(VRDMA_SQ_RDMA_WRITE, 3 * mtu);
    EXPECT_EQ(psns(await()), (Psns{1, 2, 3}));
    for (int times = 0; times < 3; ++times) {
        const auto again = await();
        EXPECT_EQ(psns(again), Psns{1});
        EXPECT_TRUE(again.front().headers.ack_request);
    }
    EXPECT_GE(counter(VRDMA_COUNTER_EARLY_RETRIES), 3u);
    EXPECT_EQ(counter(VRDMA_COUNTER_ACK_TIMEOUTS), 0u);
    answer(1);
    EXPECT_EQ(psns(await()), (Psns{2, 3}));
    answer(3);
    EXPECT_EQ(statuses(), Statuses{IBV_WC_SUCCESS});
}

// Answer a probe with a sequence NAK, as a peer that was frozen does; expect all packets again,
// although there are no retries. Answer them with another NAK; expect the QP to fail.
TEST_F(RequesterWithShortRto, ANakForAProbeIsNoRetry) {
    begin();
    post(VRDMA_SQ_RDMA_WRITE, 3 * mtu);
    EXPECT_EQ(psns(await()), (Psns{1, 2, 3}));
    EXPECT_EQ(psns(await()), Psns{1});
    answer(1, nak(VRDMA_NAK_PSN_SEQUENCE));
    EXPECT_EQ(psns(replies()), (Psns{1, 2, 3}));
    answer(1, nak(VRDMA_NAK_PSN_SEQUENCE));
    EXPECT_EQ(await_completion(), IBV_WC_RETRY_EXC_ERR);
}

// Write to a slow peer: its answers to the first transmission arrive after the probe. Expect
// one probe each time for the rest, too, and no other retransmission.
TEST_F(RequesterWithShortRto, DoesNotOverwhelmASlowPeer) {
    begin();
    post(VRDMA_SQ_RDMA_WRITE, 30 * mtu);
    EXPECT_EQ(await().size(), 30u);
    EXPECT_EQ(psns(await()), Psns{1});
    for (const std::uint32_t n : {8u, 16u, 29u}) {
        answer(n);
        EXPECT_EQ(psns(await()), Psns{n + 1});
    }
    answer(30);
    EXPECT_EQ(statuses(), Statuses{IBV_WC_SUCCESS});
    post(VRDMA_SQ_RDMA_WRITE, 2 * mtu);
    EXPECT_EQ(psns(await()), (Psns{31, 32}));
}

// Read three packets from a slow peer; expect one more request, and no other while the responses
// arrive.
TEST_F(RequesterWithShortRto, AsksASlowPeerForAReadOnce) {
    begin();
    const auto data = Buffer::pattern(7, std::size_t{3} * mtu);
    post(VRDMA_SQ_RDMA_READ, 3 * mtu);
    EXPECT_EQ(psns(await()), Psns{1});
    EXPECT_EQ(psns(await()), Psns{1});
    constexpr std::uint8_t operations[] = {VRDMA_ROCE_READ_RESPONSE_FIRST,
                                           VRDMA_ROCE_READ_RESPONSE_MIDDLE,
                                           VRDMA_ROCE_READ_RESPONSE_LAST};
    for (std::uint32_t n = 0; n < 3; ++n) {
        const auto from = data.begin() + std::ptrdiff_t{n} * mtu;
        respond(operations[n], n + 1, Payload{from, from + mtu});
        expect_silence();
    }
    EXPECT_EQ(statuses(), Statuses{IBV_WC_SUCCESS});
    EXPECT_EQ(mr_.buffer.read(0, data.size()), data);
}

// Read four packets; receive the first, and the third without the second; expect a request for the
// rest only, and the bytes in place when it has arrived.
TEST_F(RoceRequester, AsksForTheRestOfARead) {
    const auto data = Buffer::pattern(7, 3 * mtu + 9);
    const auto piece = [&](std::uint32_t n) {
        const std::size_t from = std::size_t{n} * mtu;
        return Payload{
            data.begin() + static_cast<std::ptrdiff_t>(from),
            data.begin() + static_cast<std::ptrdiff_t>(std::min(from + mtu, data.size()))};
    };
    post(VRDMA_SQ_RDMA_READ, 3 * mtu + 9);
    const auto request = reply();
    EXPECT_EQ(request.headers.length, 3 * mtu + 9);
    respond(VRDMA_ROCE_READ_RESPONSE_FIRST, 0, piece(0));
    respond(VRDMA_ROCE_READ_RESPONSE_MIDDLE, 2, piece(2));
    respond(VRDMA_ROCE_READ_RESPONSE_LAST, 3, piece(3));
    const Arrived again = reply();
    EXPECT_EQ(again.operation(), VRDMA_ROCE_READ_REQUEST);
    EXPECT_EQ(again.headers.psn, psn(1));
    EXPECT_EQ(again.headers.length, 2 * mtu + 9);
    EXPECT_EQ(again.headers.address, 0x10000u + mtu);
    EXPECT_EQ(statuses(), Statuses{});
    respond(VRDMA_ROCE_READ_RESPONSE_FIRST, 1, piece(1));
    respond(VRDMA_ROCE_READ_RESPONSE_MIDDLE, 2, piece(2));
    respond(VRDMA_ROCE_READ_RESPONSE_LAST, 3, piece(3));
    EXPECT_EQ(statuses(), Statuses{IBV_WC_SUCCESS});
    EXPECT_EQ(mr_.buffer.read(0, data.size()), data);
}

// Receive responses of lengths and operations that the READ cannot have; expect BAD_RESP_ERR.
TEST_F(RoceRequester, RefusesWrongResponses) {
    struct Case {
        const char* name;
        std::uint8_t operation;
        std::uint32_t payload;
    };
    const Case cases[] = {
        {"short first", VRDMA_ROCE_READ_RESPONSE_FIRST, mtu - 4},
        {"long first", VRDMA_ROCE_READ_RESPONSE_FIRST, mtu + 4},
        {"empty first", VRDMA_ROCE_READ_RESPONSE_FIRST, 0},
        {"last too early", VRDMA_ROCE_READ_RESPONSE_LAST, mtu},
        {"only", VRDMA_ROCE_READ_RESPONSE_ONLY, mtu},
        {"an atomic's", VRDMA_ROCE_ATOMIC_ACKNOWLEDGE, 0},
    };
    for (const auto& [name, operation, payload] : cases) {
        SCOPED_TRACE(name);
        renew();
        post(VRDMA_SQ_SEND, 8);
        post(VRDMA_SQ_RDMA_READ, 2 * mtu);
        EXPECT_EQ(replies().size(), 2u);
        respond(operation, 1, Buffer::pattern(9, payload));
        EXPECT_EQ(statuses(), (Statuses{IBV_WC_SUCCESS, IBV_WC_BAD_RESP_ERR}));
    }
    renew();
    post(VRDMA_SQ_RDMA_READ, mtu + 5);
    EXPECT_EQ(replies().size(), 1u);
    respond(VRDMA_ROCE_READ_RESPONSE_FIRST, 0, mr_.buffer.read(0, mtu));
    respond(VRDMA_ROCE_READ_RESPONSE_LAST, 1, Buffer::pattern(9, 6));
    EXPECT_EQ(statuses(), Statuses{IBV_WC_BAD_RESP_ERR});
    renew();
    post(VRDMA_SQ_ATOMIC_FETCH_AND_ADD, 8);
    EXPECT_EQ(replies().size(), 1u);
    respond(VRDMA_ROCE_READ_RESPONSE_ONLY, 0, Buffer::pattern(9, 8));
    EXPECT_EQ(statuses(), Statuses{IBV_WC_BAD_RESP_ERR});
    EXPECT_EQ(mr_.buffer.read(0, 1000), Buffer::pattern(1, 1000));
}

// Read and send; receive the SEND's ACK without the READ's response; expect both to be sent again,
// once, and to complete by the answers to this retransmission.
TEST_F(RoceRequester, AsksAgainForAResponseThatWasLost) {
    post(VRDMA_SQ_RDMA_READ, 8);
    post(VRDMA_SQ_SEND, 8);
    EXPECT_EQ(psns(replies()), (Psns{0, 1}));
    answer(1);
    EXPECT_EQ(psns(replies()), (Psns{0, 1}));
    answer(1);
    expect_silence();
    EXPECT_FALSE(cq_.poll());
    respond(VRDMA_ROCE_READ_RESPONSE_ONLY, 0, Buffer::pattern(7, 8));
    answer(1);
    EXPECT_EQ(statuses(), Statuses(2, IBV_WC_SUCCESS));
    EXPECT_EQ(mr_.buffer.read(0, 8), Buffer::pattern(7, 8));
}

// Fetch and add; receive the original, twice; expect one completion with it.
TEST_F(RoceRequester, TakesTheOriginalOfAnAtomic) {
    post(VRDMA_SQ_ATOMIC_FETCH_AND_ADD, 8);
    EXPECT_EQ(reply().operation(), VRDMA_ROCE_FETCH_ADD);
    for (const std::uint64_t original : {77, 78}) {
        wire::Headers headers = packet(VRDMA_ROCE_ATOMIC_ACKNOWLEDGE, 0);
        headers.syndrome = ack;
        headers.original = original;
        deliver(headers);
    }
    EXPECT_EQ(statuses(), Statuses{IBV_WC_SUCCESS});
    EXPECT_EQ(*mr_.buffer.at<std::uint64_t>(0), 77u);
}

// Read, and send with and without a fence; expect the fenced SEND to leave when the response has
// arrived.
TEST_F(RoceRequester, FencesWaitForResponses) {
    post(VRDMA_SQ_RDMA_READ, 8);
    post(VRDMA_SQ_SEND, 8);
    post(VRDMA_SQ_SEND, 8, VRDMA_SQ_FENCE);
    EXPECT_EQ(psns(replies()), (Psns{0, 1}));
    respond(VRDMA_ROCE_READ_RESPONSE_ONLY, 0, Buffer::pattern(7, 8));
    EXPECT_EQ(psns(replies()), Psns{2});
    answer(2);
    EXPECT_EQ(statuses(), Statuses(3, IBV_WC_SUCCESS));
}

// Post more READs, atomics and atomic writes than the peer answers at a time; expect that number of
// requests, and another one with each response.
TEST_F(RoceRequester, RespectsWhatThePeerCanAnswer) {
    for (const vrdma_sq_opcode opcode :
         {VRDMA_SQ_RDMA_READ, VRDMA_SQ_ATOMIC_FETCH_AND_ADD, VRDMA_SQ_ATOMIC_WRITE}) {
        SCOPED_TRACE(opcode);
        renew({.max_rd_atomic = 2});
        for (int i = 0; i < 4; ++i) {
            post(opcode, 8);
        }
        EXPECT_EQ(psns(replies()), (Psns{0, 1}));
        for (std::uint32_t n = 0; n < 4; ++n) {
            const bool atomic = opcode == VRDMA_SQ_ATOMIC_FETCH_AND_ADD;
            respond(atomic ? VRDMA_ROCE_ATOMIC_ACKNOWLEDGE : VRDMA_ROCE_READ_RESPONSE_ONLY, n,
                    Buffer::pattern(7, opcode == VRDMA_SQ_RDMA_READ ? 8 : 0));
            EXPECT_EQ(psns(replies()), n < 2 ? Psns{n + 2} : Psns{});
        }
        EXPECT_EQ(statuses(), Statuses(4, IBV_WC_SUCCESS));
    }
}

// Post an atomic write with no resources for outstanding requests; expect LOC_QP_OP_ERR.
TEST_F(RoceRequester, AtomicWritesNeedResources) {
    renew({.max_rd_atomic = 0});
    post(VRDMA_SQ_ATOMIC_WRITE, 8);
    expect_silence();
    EXPECT_EQ(statuses(), Statuses{IBV_WC_LOC_QP_OP_ERR});
}

// Post requests that ask for an event; expect the bit only in those that consume a receive (IBA
// 9.2.4).
TEST_F(RoceRequester, SolicitsEventsOfReceivesOnly) {
    const auto solicited = [&](vrdma_sq_opcode opcode) {
        post(opcode, 8, VRDMA_SQ_SOLICITED);
        const auto packets = replies();
        return packets.size() == 1 && packets.front().headers.solicited;
    };
    EXPECT_TRUE(solicited(VRDMA_SQ_SEND));
    EXPECT_TRUE(solicited(VRDMA_SQ_RDMA_WRITE_WITH_IMM));
    EXPECT_FALSE(solicited(VRDMA_SQ_RDMA_WRITE));
    EXPECT_FALSE(solicited(VRDMA_SQ_RDMA_READ));
}

// Answer with repeated sequence NAKs while no timeout is set; expect them to use up the retries.
TEST_F(RoceRequester, SequenceNaksAreRetriesWithoutATimeout) {
    renew({.timeout = 0, .retry_cnt = 2});
    post(VRDMA_SQ_SEND, 8);
    for (int tries = 0; tries < 3; ++tries) {
        EXPECT_EQ(psns(replies()), Psns{0}) << tries;
        answer(0, nak(VRDMA_NAK_PSN_SEQUENCE));
    }
    expect_silence();
    EXPECT_EQ(statuses(), Statuses{IBV_WC_RETRY_EXC_ERR});
}

// Post the longest READ at the smallest MTU, half of all PSNs, and a SEND; expect the responses to
// be accepted, and the SEND to wait for them.
TEST_F(RoceRequester, TheLongestReadIsHalfOfAllPsns) {
    const vrdma_sge nowhere{.addr = 0, .length = 1u << 31, .lkey = VRDMA_NULL_LKEY};
    qp_.post_send({.opcode = VRDMA_SQ_RDMA_READ,
                   .flags = VRDMA_SQ_SIGNALED,
                   .sges = {&nowhere, 1},
                   .rkey = Key{0x1234u},
                   .raddr = 0x10000u});
    post(VRDMA_SQ_SEND, 8);
    EXPECT_EQ(psns(replies()), Psns{0});
    respond(VRDMA_ROCE_READ_RESPONSE_FIRST, 0, Buffer::pattern(7, mtu));
    respond(VRDMA_ROCE_READ_RESPONSE_MIDDLE, 1, Buffer::pattern(7, mtu));
    expect_silence();
    EXPECT_EQ(counter(VRDMA_COUNTER_STALE_RESPONSES), 0u);
    EXPECT_EQ(statuses(), Statuses{});
}

} // namespace
} // namespace vrdma::test
