// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The share of a poller that packets from the network consume, and how it is charged to the turns
// of the device that receives them.
#include <deque>
#include <functional>

#include "mediator/hca/soft/memory/tests/holey_memory.h"
#include "mediator/hca/soft/transport/roce/tests/network_peer.h"
#include "mediator/wire/derived_mac.h"

namespace vrdma::test {
namespace {

// A device that always has WRITEs to its own memory to execute.
class Writer {
  public:
    explicit Writer(Guest& guest) : guest_{guest} {
        for (std::uint64_t i = 0; i < queue_pairs; ++i) {
            senders_.push_back(guest.create_qp(cq_, cq_, {.sq_depth = depth}));
            receivers_.push_back(guest.create_qp(cq_, cq_, {.sq_depth = 1}));
            connect_both(guest, senders_.back(), guest, receivers_.back());
        }
        const vrdma_sge sge = region_.sge(0, size);
        for (GuestQp& qp : senders_) {
            for (unsigned i = 0; i < depth; ++i) {
                qp.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                              .flags = 0,
                              .sges = {&sge, 1},
                              .rkey = region_.key,
                              .raddr = region_.start + size});
            }
        }
    }

    std::uint64_t left() const { return total - done(); }
    // The number of completed messages, none of which is a packet.
    std::uint64_t done() const {
        return guest_.slice().counters().value[VRDMA_COUNTER_TX_MESSAGES];
    }

  private:
    static constexpr std::uint64_t queue_pairs = 4;
    static constexpr std::uint32_t depth = 512;
    static constexpr std::uint64_t total = queue_pairs * depth;
    static constexpr std::uint32_t size = 4 << 10; // of a message

    Guest& guest_;
    GuestCq cq_ = guest_.create_cq(64);
    MemoryRegion region_ = guest_.register_mr(std::uint64_t{2} * size, {.scattered = false});
    std::vector<GuestQp> senders_;
    std::vector<GuestQp> receivers_;
};

constexpr std::uint32_t datagram_qkey = 7;

class RoceShares : public NetworkPeer {
  protected:
    explicit RoceShares(const Terms& terms = {}) : NetworkPeer{terms} {}

    // The peer sends something in each round. The guest gets half of the poller's time that an
    // equal device gets: not more, because it pays for packets that it receives, and not less,
    // because it cannot avoid them.
    void expect_half(const std::function<void()>& send_some) { expect_half(guest_, send_some); }
    void expect_half(Guest& guest, const std::function<void()>& send_some) {
        Guest equal{*hca_, "equal", ipv4_gid(2)};
        const Writer mine{guest};
        const Writer theirs{equal};
        for (int round = 0; round < 200; ++round) {
            send_some();
            hca_->poll();
            sent();
        }
        ASSERT_GT(mine.left(), 0u);
        ASSERT_GT(theirs.left(), 0u);
        EXPECT_LE(mine.done(), theirs.done() * 6 / 10);
        EXPECT_GE(mine.done(), theirs.done() * 4 / 10);
    }

    wire::Headers datagram_to(std::uint32_t qpn) const {
        wire::Headers headers;
        headers.opcode = VRDMA_ROCE_UD_SEND_ONLY;
        headers.target_qpn = qpn;
        headers.qkey = datagram_qkey;
        headers.source_qpn = peer_qpn;
        return headers;
    }
    GuestQp datagram_qp() {
        GuestQp qp = guest_.create_qp(cq_, cq_, {.type = hca::QpType::ud});
        activate_ud(guest_, qp, datagram_qkey);
        return qp;
    }
};

class RoceSharesUc : public RoceShares {
  protected:
    RoceSharesUc() : RoceShares{{.type = hca::QpType::uc}} {}

    void send_writes(unsigned count) {
        for (unsigned i = 0; i < count; ++i) {
            deliver(remote(VRDMA_ROCE_WRITE_ONLY, next_++, mtu), Buffer::pattern(1, mtu));
        }
    }

  private:
    std::uint32_t next_ = 0;
};

// Send as many packets as there is room for; expect a round to take at most those of two turns.
TEST_F(RoceSharesUc, ARoundTakesSomePackets) {
    constexpr std::uint64_t cost = 4 * hca::soft::Account::operation_cost; // of a packet
    const std::uint64_t most = 2 * hca::soft::Config{}.turn_bytes / cost + 1;
    send_writes(Cable::capacity);
    std::uint64_t received = 0;
    while (received < Cable::capacity) {
        hca_->poll();
        const std::uint64_t now = counter(VRDMA_COUNTER_RX_PACKETS);
        ASSERT_GT(now, received);
        ASSERT_LE(now - received, most);
        received = now;
    }
}

// Send WRITEs of UC, which are not acknowledged.
TEST_F(RoceSharesUc, RequestsAreTheReceivers) {
    expect_half([this] { send_writes(16); });
}

// Read memory again and again; expect the answers to be charged, of which each request has many.
TEST_F(RoceShares, AnswersAreTheResponders) {
    expect_half([this] {
        deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, static_cast<std::uint32_t>(mr_.buffer.size())));
    });
}

// Send datagrams for which there is no receive.
TEST_F(RoceShares, DatagramsAreTheReceivers) {
    const GuestQp qp = datagram_qp();
    expect_half([&] {
        for (int i = 0; i < 16; ++i) {
            deliver(datagram_to(qp.id().value), Buffer::pattern(1, 100));
        }
    });
}

// Send one datagram in each round to a group of many of the device's QPs; expect each copy to be
// charged.
TEST_F(RoceShares, CopiesAreTheMembers) {
    constexpr hca::Gid group{0xff, 0x0e, 1};
    std::vector<GuestQp> members;
    for (int i = 0; i < 32; ++i) {
        members.push_back(datagram_qp());
        ASSERT_TRUE(guest_.slice().attach_multicast(members.back().id(), group));
    }
    path_.source = {0xfd, 9};
    path_.target = group;
    path_.target_mac = *wire::derived_mac(group);
    expect_half([this] { deliver(datagram_to(VRDMA_MULTICAST_QPN), Buffer::pattern(1, 200)); });
}

// A device that receives datagrams in memory with holes.
class HoleyReceiver {
  public:
    HoleyReceiver(hca::Hca& hca, std::uint8_t number)
        : guest{hca, "holey", ipv4_gid(number), HoleyMemory::create(), {}, "cable"} {
        activate_ud(guest, qp, datagram_qkey);
        for (std::uint64_t i = 0; i < qp.shape().rq_depth; ++i) {
            const vrdma_sge to = region_.sge(i * page, page);
            qp.post_recv({&to, 1});
        }
        EXPECT_FALSE(cq.ready()); // this access makes the CQ's page
    }

    static constexpr std::uint32_t page = HoleyMemory::page;
    static constexpr std::uint32_t depth = 512;

    Guest guest;
    GuestCq cq = guest.create_cq(depth);
    GuestQp qp = guest.create_qp(cq, cq, {.type = hca::QpType::ud, .rq_depth = depth});

  private:
    MemoryRegion region_ = guest.register_mr(std::uint64_t{depth} * page, {.scattered = false});
};

// Send one datagram in each round to a device whose receives lie in holes; expect each hole to be
// charged as a turn.
TEST_F(RoceShares, HolesAreTheReceivers) {
    HoleyReceiver receiver{*hca_, 3};
    path_.target = receiver.guest.gid();
    expect_half(receiver.guest,
                [&] { deliver(datagram_to(receiver.qp.id().value), Buffer::pattern(1, 100)); });
    EXPECT_TRUE(receiver.cq.poll());
}

// Send one datagram to a group of devices, whose receives each lie in a hole; expect a round to
// fill one hole.
TEST_F(RoceShares, ACopyToAHoleEndsTheRound) {
    constexpr hca::Gid group{0xff, 0x0e, 1};
    std::deque<HoleyReceiver> members;
    for (std::uint8_t i = 0; i < 8; ++i) {
        members.emplace_back(*hca_, static_cast<std::uint8_t>(20 + i));
        ASSERT_TRUE(members.back().guest.slice().attach_multicast(members.back().qp.id(), group));
    }
    path_.source = {0xfd, 9};
    path_.target = group;
    path_.target_mac = *wire::derived_mac(group);
    deliver(datagram_to(VRDMA_MULTICAST_QPN), Buffer::pattern(1, 100));
    for (std::size_t received = 0; received < members.size(); ++received) {
        const std::uint64_t before = FaultGuard::met();
        hca_->poll();
        EXPECT_EQ(FaultGuard::met() - before, 1u);
    }
    for (HoleyReceiver& member : members) {
        EXPECT_TRUE(member.cq.poll());
    }
}

} // namespace
} // namespace vrdma::test
