// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The attacks of "ReDMArk: Bypassing RDMA Security Mechanisms" (Rothenberger et al., USENIX
// Security 2021), by its numbers. Weaknesses V1, V2, V3 and V5 concern numbers of keys and QPs. V4
// (the address of a program's memory) concerns the program. V6 (the first PSN) concerns the
// connection manager: see providers/vrdma/direct/cm/tests. Attacks A1 to A3 are packets of an
// attacker that can send any packet, but does not see those of the connection. A4 and A5 are
// neighbours that exhaust a resource. shares_test.cpp and contention_test.cpp test the other
// resources.
#include <algorithm>
#include <set>

#include "mediator/hca/soft/transport/roce/tests/network_peer.h"
#include "mediator/verbs/key_space.h"

namespace vrdma::test {
namespace {

using verbs::KeySpace;

constexpr std::size_t many = 4096;

std::vector<std::uint32_t> keys_of(KeySpace& space) {
    std::vector<std::uint32_t> keys;
    std::generate_n(std::back_inserter(keys), many, [&] { return space.take()->value; });
    return keys;
}

std::vector<std::uint32_t> qpns(const hca::QpnRange& range) {
    verbs::RandomIds numbers{range.first, range.last};
    std::vector<std::uint32_t> taken;
    std::generate_n(std::back_inserter(taken), many,
                    [&] { return *numbers.pick([](std::uint32_t) { return false; }); });
    return taken;
}

// Expects each bit to be set in half of the numbers. The tolerance fails by chance once in 10^9
// times.
void expect_even_bits(const std::vector<std::uint32_t>& numbers, unsigned bits) {
    constexpr double tolerance = 6.0 * 32; // standard deviations: half the root of 4096
    for (unsigned bit = 0; bit < bits; ++bit) {
        const auto set = std::ranges::count_if(
            numbers, [&](std::uint32_t number) { return (number >> bit & 1) != 0; });
        EXPECT_NEAR(set, many / 2.0, tolerance) << "bit " << bit;
    }
}

// Expects the differences between consecutive numbers to be distinct, apart from coincidences.
void expect_no_steps(const std::vector<std::uint32_t>& numbers) {
    std::set<std::uint32_t> steps;
    for (std::size_t i = 1; i < numbers.size(); ++i) {
        steps.insert(numbers[i] - numbers[i - 1]);
    }
    EXPECT_GT(steps.size(), many * 99 / 100);
}

// Take thousands of keys; expect all bits to be random.
TEST(RedmarkNumbers, V1KeysHaveEntropy) {
    KeySpace space;
    const auto keys = keys_of(space);
    expect_even_bits(keys, 32);
    EXPECT_EQ(std::set(keys.begin(), keys.end()).size(), many);
}

// The keys of one PD do not reveal those of the next: expect the differences between consecutive
// keys to be distinct.
TEST(RedmarkNumbers, V2KeysDoNotFollowFromOthers) {
    KeySpace space;
    expect_no_steps(keys_of(space));
}

// Two devices, or one before and after it starts anew; expect other keys, in another order.
TEST(RedmarkNumbers, V3KeysDoNotBeginTheSame) {
    KeySpace first;
    KeySpace second;
    const auto before = keys_of(first);
    const auto after = keys_of(second);
    const std::set known(before.begin(), before.end());
    EXPECT_LT(std::ranges::count_if(after, [&](auto key) { return known.contains(key); }), 16);
    EXPECT_NE(before.front(), after.front());
}

TEST(RedmarkNumbers, V5QpNumbersAreNotCounted) {
    const auto numbers = qpns({2, VRDMA_MULTICAST_QPN - 1});
    expect_even_bits(numbers, 24);
    expect_no_steps(numbers);
}

class RedmarkPackets : public NetworkPeer {
  protected:
    static constexpr wire::Mac attackers_mac{2, 0, 0, 0, 0, 0x66};

    RedmarkPackets() {
        mr_.buffer.fill(1);
        forged_.source_mac = attackers_mac;
    }

    static Payload loot() { return Buffer::pattern(9, 8); }

    // PSNs other than the next one: next to it, half of all PSNs away, and some between.
    static std::vector<std::uint32_t> wrong_psns() {
        std::vector<std::uint32_t> wrong;
        constexpr std::uint32_t all = hca::soft::roce::psn_mask + 1;
        for (std::uint32_t distance = 1; distance < all; distance *= 2) {
            wrong.push_back(distance);
            wrong.push_back(all - distance);
        }
        return wrong;
    }
    // Requests of all kinds: some end a connection, and some do not.
    std::vector<wire::Headers> requests(std::uint32_t n) const {
        wire::Headers wrong_key = remote(VRDMA_ROCE_WRITE_ONLY, n, 8);
        wrong_key.rkey ^= 0x100;
        wire::Headers too_far = remote(VRDMA_ROCE_WRITE_ONLY, n, 8, 1 << 16);
        return {remote(VRDMA_ROCE_WRITE_ONLY, n, 8),
                wrong_key,
                too_far,
                remote(VRDMA_ROCE_WRITE_FIRST, n, 8),
                asking(VRDMA_ROCE_SEND_ONLY, n),
                packet(VRDMA_ROCE_SEND_MIDDLE, n)};
    }
    void inject_all(const wire::Path& path, const std::vector<wire::Headers>& packets) {
        for (const wire::Headers& headers : packets) {
            inject(frame_of(path, headers, loot()));
            settle();
        }
    }
    // Expects that nothing has changed, and that the peer's next message arrives.
    void expect_undisturbed(std::uint32_t next) {
        settle();
        static_cast<void>(sent());
        EXPECT_FALSE(cq_.poll());
        EXPECT_EQ(mr_.buffer.read(0, 1 << 16), Buffer::pattern(1, 1 << 16));
        ASSERT_EQ(state_of(guest_, qp_), IBV_QPS_RTS);
        EXPECT_TRUE(event_types().empty());
        post_receive(0, 100);
        deliver(asking(VRDMA_ROCE_SEND_ONLY, next));
        const Arrived answer = reply();
        expect_acknowledge(answer, next, ack);
        EXPECT_EQ(answer.path.target_mac, peer_mac);
        expect_received(0);
    }

    wire::Path forged_ = path_; // the peer's, except for the Ethernet address
};

// Forge requests with the peer's address, the QPN and the right key, but guessed PSNs; expect
// nothing to be executed, and the connection to go on.
TEST_F(RedmarkPackets, A1InjectedRequestsNeedThePsn) {
    for (const std::uint32_t n : wrong_psns()) {
        inject_all(forged_, {remote(VRDMA_ROCE_WRITE_ONLY, n, 8), asking(VRDMA_ROCE_SEND_ONLY, n)});
    }
    expect_undisturbed(0);
}

// Forge a READ's responses, and acknowledgements of it, with guessed PSNs; expect the bytes not to
// be accepted, and no completion until the peer answers.
TEST_F(RedmarkPackets, A1InjectedResponsesNeedThePsn) {
    post(VRDMA_SQ_RDMA_READ, 8);
    EXPECT_EQ(replies().size(), 1u);
    for (const std::uint32_t n : wrong_psns()) {
        for (const std::uint8_t operation :
             {VRDMA_ROCE_READ_RESPONSE_ONLY, VRDMA_ROCE_ACKNOWLEDGE}) {
            wire::Headers headers = packet(operation, n);
            headers.syndrome = ack;
            const bool read = operation == VRDMA_ROCE_READ_RESPONSE_ONLY;
            inject(frame_of(forged_, headers, read ? loot() : Payload{}));
        }
    }
    settle();
    EXPECT_FALSE(cq_.poll());
    EXPECT_EQ(mr_.buffer.read(0, 8), Buffer::pattern(1, 8));
    wire::Headers headers = packet(VRDMA_ROCE_READ_RESPONSE_ONLY, 0);
    headers.syndrome = ack;
    deliver(headers, Buffer::pattern(7, 8));
    settle();
    const auto completion = cq_.poll();
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->status, IBV_WC_SUCCESS);
    EXPECT_EQ(mr_.buffer.read(0, 8), Buffer::pattern(7, 8));
}

// Forge requests with the right PSN from other addresses, to other Ethernet addresses and for other
// QPs; expect none to be executed, and the connection to go on.
TEST_F(RedmarkPackets, A1ImpersonationNeedsAddressesAndQpn) {
    hca_->with_port("cable", [](auto& port) { port.set_macs(peer_mac, peer_mac); });
    wire::Path elsewhere = forged_;
    elsewhere.source = ipv4_gid(8);
    inject_all(elsewhere, requests(0));
    elsewhere = forged_;
    elsewhere.target = ipv4_gid(8);
    inject_all(elsewhere, requests(0));
    elsewhere = forged_;
    elsewhere.target_mac = attackers_mac;
    inject_all(elsewhere, requests(0));
    for (unsigned bit = 0; bit < 24; ++bit) {
        wire::Headers headers = remote(VRDMA_ROCE_WRITE_ONLY, 0, 8);
        headers.target_qpn ^= 1u << bit;
        inject_all(forged_, {headers});
    }
    expect_undisturbed(0);
}

// Forge a packet with a wrong PSN before the peer's Ethernet address is known; expect the QP's next
// packet to wait for that address, and not to go to the attacker's.
TEST_F(RedmarkPackets, A1NobodyTurnsAConnectionToHimself) {
    hca_->with_port("cable", [&](auto& port) { port.set_neighbour(peer_gid_, std::nullopt); });
    renew();
    inject_all(forged_,
               {remote(VRDMA_ROCE_WRITE_ONLY, 5, 8), asking(VRDMA_ROCE_SEND_ONLY, 1 << 20)});
    inject(frame_of(forged_, packet(VRDMA_ROCE_ACKNOWLEDGE, 3)));
    wire::Headers notice = packet(VRDMA_ROCE_SEND_FIRST, 0);
    notice.opcode = VRDMA_ROCE_CNP;
    notice.becn = true;
    inject(frame_of(forged_, notice));
    settle();
    static_cast<void>(sent());
    qp_.post_send({});
    expect_silence();
    hca_->with_port("cable", [&](auto& port) { port.set_neighbour(peer_gid_, peer_mac); });
    EXPECT_EQ(reply().path.target_mac, peer_mac);
}

// Forge packets from the broadcast address, so that answers would go to all hosts; expect no
// answer.
TEST_F(RedmarkPackets, A1NobodyIsManyPeers) {
    hca_->with_port("cable", [&](auto& port) { port.set_neighbour(peer_gid_, std::nullopt); });
    renew();
    forged_.source_mac = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    inject(frame_of(forged_, remote(VRDMA_ROCE_READ_REQUEST, 0, 64)));
    inject(frame_of(forged_, asking(VRDMA_ROCE_SEND_ONLY, 7)));
    expect_silence();
}

// Forge requests that end a connection, with guessed PSNs; expect it to go on.
TEST_F(RedmarkPackets, A2NobodyEndsAConnectionWithoutThePsn) {
    for (const std::uint32_t n : wrong_psns()) {
        inject_all(forged_, requests(n));
    }
    expect_undisturbed(0);
}

// Forge NAKs, with PSNs of packets that are not under way; expect the message to be acknowledged in
// the end.
TEST_F(RedmarkPackets, A2NobodyRefusesForThePeer) {
    post(VRDMA_SQ_RDMA_WRITE, 8);
    EXPECT_EQ(replies().size(), 1u);
    for (const std::uint32_t n : wrong_psns()) {
        for (const vrdma_nak why :
             {VRDMA_NAK_INVALID_REQUEST, VRDMA_NAK_REMOTE_ACCESS, VRDMA_NAK_REMOTE_OPERATION}) {
            wire::Headers headers = packet(VRDMA_ROCE_ACKNOWLEDGE, n);
            headers.syndrome = nak(why);
            inject(frame_of(forged_, headers));
        }
    }
    settle();
    EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_RTS);
    answer(0);
    settle();
    const auto completion = cq_.poll();
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->status, IBV_WC_SUCCESS);
}

// A peer with its own QP guesses keys of memory; expect each guess to end its own connection, and
// another's to go on.
TEST_F(RedmarkPackets, A3AGuessedKeyEndsTheGuessersConnection) {
    for (unsigned bit = 0; bit < 32; ++bit) {
        GuestQp guessing = guest_.create_qp(cq_, cq_);
        connect(guest_, guessing, peer_gid_, Qpn{peer_qpn});
        wire::Headers headers = remote(VRDMA_ROCE_WRITE_ONLY, 0, 8);
        headers.target_qpn = guessing.id().value;
        headers.psn = 0;
        headers.rkey ^= 1u << bit;
        inject_all(path_, {headers});
        EXPECT_EQ(state_of(guest_, guessing), IBV_QPS_ERR);
        EXPECT_EQ(event_types(), std::vector<std::uint32_t>{IBV_EVENT_QP_ACCESS_ERR});
    }
    expect_undisturbed(0);
}

// Forge far more READs than a responder remembers, with guessed PSNs; expect one packet in answer,
// which reports the expected PSN.
TEST_F(RedmarkPackets, A3ForgedReadsTakeNothing) {
    for (std::uint32_t n = 1; n <= 1000; ++n) {
        inject(frame_of(forged_, remote(VRDMA_ROCE_READ_REQUEST, 2 * n, 1 << 15)));
        settle();
    }
    EXPECT_EQ(sent().size(), 1u);
    expect_undisturbed(0);
}

// Forge notices of congestion from other addresses and for other QPs; expect all to be ignored.
TEST_F(RedmarkPackets, A1NobodyElseSlowsAConnection) {
    wire::Headers notice = packet(VRDMA_ROCE_SEND_FIRST, 0);
    notice.opcode = VRDMA_ROCE_CNP;
    notice.becn = true;
    wire::Path elsewhere = forged_;
    elsewhere.source = ipv4_gid(8);
    inject(frame_of(elsewhere, notice));
    notice.target_qpn ^= 0x100;
    inject(frame_of(forged_, notice));
    settle();
    EXPECT_EQ(counter(VRDMA_COUNTER_HEEDED_NOTICES), 0u);
    expect_undisturbed(0);
}

// A device makes thousands of QPs, and posts work to all of them; expect another device to get a
// QP, and its WRITEs to complete within a few rounds each. In a round, the first device has at most
// two turns.
TEST(RedmarkExhaustion, A4A5QueuePairsOfANeighbour) {
    hca::soft::Config config;
    config.threads = false;
    const auto hca = std::move(*hca::soft::SoftHca::create(config));
    Guest greedy{*hca, "greedy", ipv4_gid(1), std::move(*ArenaMemory::create(1ull << 28))};
    GuestCq cq = greedy.create_cq(many);
    const MemoryRegion region = greedy.register_mr(1 << 16, {.scattered = false});
    const vrdma_sge all = region.sge();
    std::vector<GuestQp> taken;
    for (std::size_t i = 0; i < many; ++i) {
        GuestQp& qp = taken.emplace_back(
            greedy.create_qp(cq, cq, {.sq_depth = 2, .rq_depth = 1, .max_inline = 0}));
        connect(greedy, qp, greedy.gid(), qp.id());
        qp.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                      .sges = {&all, 1},
                      .rkey = region.key,
                      .raddr = region.start});
    }

    Guest victim{*hca, "victim", ipv4_gid(2)};
    GuestCq victim_cq = victim.create_cq(16);
    GuestQp qp = victim.create_qp(victim_cq, victim_cq);
    connect(victim, qp, victim.gid(), qp.id());
    const MemoryRegion target = victim.register_mr(4096);
    constexpr unsigned writes = 100;
    constexpr unsigned most_rounds = 3 * writes;
    unsigned done = 0;
    unsigned rounds = 0;
    for (bool under_way = false; done < writes && rounds < most_rounds; ++rounds) {
        if (!under_way) {
            const vrdma_sge piece = target.sge(0, 8);
            qp.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                          .sges = {&piece, 1},
                          .rkey = target.key,
                          .raddr = target.start + 8});
        }
        hca->poll();
        under_way = !victim_cq.poll();
        done += under_way ? 0 : 1;
    }
    EXPECT_EQ(done, writes);
    EXPECT_LE(greedy.slice().counters().value[VRDMA_COUNTER_TX_BYTES],
              2 * config.turn_bytes * rounds);
}

} // namespace
} // namespace vrdma::test
