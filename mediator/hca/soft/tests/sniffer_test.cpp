// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What a slice's sniffer records. Between two hosts, packets carry the same messages, so the same
// frames are expected but for acknowledgements.
#include <algorithm>
#include <optional>

#include "mediator/hca/soft/tests/two_guests.h"
#include "mediator/sniffer/ring.h"
#include "vrdma/roce.h"

namespace vrdma::test {
namespace {

using sniffer::Direction;

struct Recorded {
    Direction direction;
    std::uint64_t original; // bytes of the frame
    std::size_t bytes;
    wire::Path path;
    wire::Headers headers;
    std::vector<std::byte> payload;

    std::uint8_t operation() const { return headers.opcode & VRDMA_ROCE_OPERATION; }
    bool acknowledges() const {
        return operation() == VRDMA_ROCE_ACKNOWLEDGE &&
               VRDMA_GET(VRDMA_SYNDROME_TYPE, std::uint32_t{headers.syndrome}) ==
                   VRDMA_SYNDROME_ACK;
    }
};

class Sniffer {
  public:
    explicit Sniffer(Guest& guest, std::uint32_t payload_limit = sniffer::usual_payload)
        : guest_{guest}, created_{std::move(*sniffer::Ring::create(payload_limit))} {
        guest_.slice().set_sniffer(&created_.ring);
    }
    Sniffer(const Sniffer&) = delete;
    Sniffer& operator=(const Sniffer&) = delete;
    ~Sniffer() { stop(); }

    void stop() { guest_.slice().set_sniffer(nullptr); }
    sniffer::Ring& ring() { return created_.ring; }

    // The frames since the last call. Each is a valid packet.
    std::vector<Recorded> frames() {
        std::vector<Recorded> all;
        while (const auto frame = reader_.next()) {
            wire::Packet packet;
            EXPECT_EQ(wire::parse(frame->bytes, packet), wire::Drop::none);
            Recorded recorded{
                frame->record.direction, frame->record.original,
                frame->bytes.size(),     packet.path,
                packet.headers,          {packet.payload.begin(), packet.payload.end()}};
            if (!recorded.acknowledges()) {
                all.push_back(std::move(recorded));
            }
        }
        reader_.release();
        return all;
    }

  private:
    Guest& guest_;
    sniffer::Ring::Created created_;
    sniffer::RingReader reader_ = std::move(*sniffer::RingReader::open(created_.file));
};

std::vector<std::uint8_t> operations_of(const std::vector<Recorded>& frames) {
    std::vector<std::uint8_t> operations(frames.size());
    std::ranges::transform(frames, operations.begin(), &Recorded::operation);
    return operations;
}

class SnifferTest : public ConnectedPair {
  protected:
    void send(const SendWr& wr, ibv_wc_status status = IBV_WC_SUCCESS) {
        a_qp_.post_send(wr);
        EXPECT_EQ(wait(a_cq_).status, status);
        settle();
    }
    SendWr write(std::uint32_t size) const {
        return {.opcode = VRDMA_SQ_RDMA_WRITE,
                .sges = {&source_, 1},
                .rkey = b_mr_.key,
                .raddr = b_mr_.start + size};
    }
    SendWr inline_send() const {
        return {.flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE, .inline_data = data_};
    }
    static bool is_from(const Recorded& frame, Guest& guest) {
        return frame.path.source == guest.gid();
    }

    const std::vector<std::byte> data_ = Buffer::pattern(1, 30);
    vrdma_sge source_ = a_mr_.sge(0, 100);
};

// Send, write, read and add; expect each as a packet with all that it says, at both ends, and the
// responses with what they fetch.
TEST_F(SnifferTest, EachOperationIsAPacket) {
    Sniffer a{a_};
    Sniffer b{b_};
    a_mr_.buffer.write(0, Buffer::pattern(5, 100));
    b_mr_.buffer.write(200, Buffer::pattern(6, 100));
    b_qp_.post_recv(std::array{b_mr_.sge(0, 100)});
    send(inline_send());
    send(write(500));
    send({.opcode = VRDMA_SQ_RDMA_READ,
          .sges = {&source_, 1},
          .rkey = b_mr_.key,
          .raddr = b_mr_.start + 200});
    const vrdma_sge word = a_mr_.sge(0, 8);
    send({.opcode = VRDMA_SQ_ATOMIC_FETCH_AND_ADD,
          .sges = {&word, 1},
          .rkey = b_mr_.key,
          .raddr = b_mr_.start + 1024,
          .compare_add = 7});
    const std::vector<std::uint8_t> expected{
        VRDMA_ROCE_SEND_ONLY,          VRDMA_ROCE_WRITE_ONLY, VRDMA_ROCE_READ_REQUEST,
        VRDMA_ROCE_READ_RESPONSE_ONLY, VRDMA_ROCE_FETCH_ADD,  VRDMA_ROCE_ATOMIC_ACKNOWLEDGE};
    for (Sniffer* const sniffer : {&a, &b}) {
        const auto frames = sniffer->frames();
        ASSERT_EQ(operations_of(frames), expected);
        for (std::size_t i = 0; i < frames.size(); ++i) {
            const bool request = i != 3 && i != 5;
            EXPECT_EQ(is_from(frames[i], request ? a_ : b_), true);
            EXPECT_EQ(frames[i].headers.target_qpn, (request ? b_qp_ : a_qp_).id().value);
            EXPECT_EQ(frames[i].direction == Direction::sent, request == (sniffer == &a));
            EXPECT_EQ(frames[i].original, frames[i].bytes);
        }
        EXPECT_EQ(frames[0].payload, data_);
        EXPECT_EQ(frames[1].payload, Buffer::pattern(5, 100));
        EXPECT_EQ(frames[1].headers.address, b_mr_.start + 500);
        EXPECT_EQ(frames[1].headers.rkey, b_mr_.key.value);
        EXPECT_EQ(frames[1].headers.length, 100u);
        EXPECT_EQ(frames[3].payload, Buffer::pattern(6, 100));
        EXPECT_EQ(frames[3].headers.psn, frames[2].headers.psn);
        EXPECT_EQ(frames[4].headers.swap_add, 7u);
    }
}

// Send without a receive, and write with a wrong key; expect the requests and their NAKs.
TEST_F(SnifferTest, NaksAreRecorded) {
    Sniffer a{a_};
    a_qp_.post_send(inline_send());
    settle();
    b_qp_.post_recv(std::array{b_mr_.sge(0, 100)});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    SendWr bad = write(0);
    bad.rkey = Key{4711};
    send(bad, IBV_WC_REM_ACCESS_ERR);
    const auto frames = a.frames();
    ASSERT_GE(frames.size(), 5u);
    EXPECT_EQ(frames[0].operation(), VRDMA_ROCE_SEND_ONLY);
    EXPECT_EQ(frames[1].operation(), VRDMA_ROCE_ACKNOWLEDGE);
    EXPECT_EQ(VRDMA_GET(VRDMA_SYNDROME_TYPE, std::uint32_t{frames[1].headers.syndrome}),
              std::uint32_t{VRDMA_SYNDROME_RNR_NAK});
    EXPECT_EQ(frames[1].direction, Direction::received);
    EXPECT_EQ(frames[frames.size() - 2].operation(), VRDMA_ROCE_WRITE_ONLY);
    EXPECT_EQ(VRDMA_GET(VRDMA_SYNDROME_VALUE, std::uint32_t{frames.back().headers.syndrome}),
              std::uint32_t{VRDMA_NAK_REMOTE_ACCESS});
}

// Write with a sniffer, without it, and with another one; expect the first and the last message.
TEST_F(SnifferTest, NothingIsRecordedWithoutIt) {
    Sniffer first{a_};
    send(write(0));
    first.stop();
    send(write(0));
    EXPECT_EQ(first.frames().size(), 1u);
    Sniffer second{a_};
    send(write(0));
    EXPECT_EQ(second.frames().size(), 1u);
    EXPECT_EQ(first.frames().size(), 0u);
}

// Write until the ring is full, and once more; expect that the message arrives and is counted.
TEST_F(SnifferTest, AFullRingCostsNoMessage) {
    Sniffer a{a_};
    while (a.ring().dropped() == 0) {
        a.ring().record(Buffer::pattern(1, 4000), Direction::sent);
    }
    const auto before = a.ring().dropped();
    send(write(0));
    EXPECT_EQ(a.ring().dropped() - before, across_hosts() ? 2u : 1u); // and its acknowledgement
    EXPECT_EQ(b_mr_.buffer.read(0, 100), a_mr_.buffer.read(0, 100));
}

// Connect two QPs of one device; expect each message once.
TEST_F(SnifferTest, AMessageToItselfIsRecordedOnce) {
    Sniffer a{a_};
    GuestQp one = a_.create_qp(a_cq_, a_cq_);
    GuestQp other = a_.create_qp(b_cq_, b_cq_);
    connect_both(a_, one, a_, other);
    one.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                   .sges = {&source_, 1},
                   .rkey = a_mr_.key,
                   .raddr = a_mr_.start + 1000});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(operations_of(a.frames()), std::vector<std::uint8_t>{VRDMA_ROCE_WRITE_ONLY});
}

class LocalSniffer : public SnifferTest {};

// Write and read more than a turn, with a limit; expect one frame of each, which says how long the
// message is, and has the beginning.
TEST_F(LocalSniffer, ALongMessageIsOneFrame) {
    constexpr std::uint32_t size = 60'000;
    Sniffer a{a_, 16};
    Sniffer b{b_, 0};
    a_mr_.buffer.write(0, Buffer::pattern(5, size));
    source_ = a_mr_.sge(0, size);
    send(write(0));
    send({.opcode = VRDMA_SQ_RDMA_READ,
          .sges = {&source_, 1},
          .rkey = b_mr_.key,
          .raddr = b_mr_.start});
    const std::vector<std::uint8_t> expected{VRDMA_ROCE_WRITE_ONLY, VRDMA_ROCE_READ_REQUEST,
                                             VRDMA_ROCE_READ_RESPONSE_ONLY};
    const auto sent = a.frames();
    ASSERT_EQ(operations_of(sent), expected);
    for (const std::size_t i : {0, 2}) {
        EXPECT_EQ(sent[i].payload, Buffer::pattern(5, 16));
        EXPECT_EQ(sent[i].original, sent[i].bytes + size - 16);
    }
    EXPECT_EQ(sent[0].headers.length, size);
    const auto received = b.frames();
    ASSERT_EQ(operations_of(received), expected);
    EXPECT_TRUE(received[0].payload.empty());
}

// Destroy a device with its sniffer on; expect that the others go on.
TEST_F(LocalSniffer, ADeviceGoesWithItsSniffer) {
    Sniffer a{a_};
    auto created = std::move(*sniffer::Ring::create(sniffer::usual_payload));
    {
        Guest c{*hca_, "c", ipv4_gid(3)};
        c.slice().set_sniffer(&created.ring);
    }
    send(write(0));
    EXPECT_EQ(a.frames().size(), 1u);
    EXPECT_EQ(created.ring.frames(), 0u);
}

class DatagramSniffer : public TwoGuests {
  protected:
    static constexpr std::uint32_t qkey = 7;

    DatagramSniffer() {
        activate_ud(a_, a_qp_, qkey);
        activate_ud(b_, b_qp_, qkey);
    }
    void send(const hca::Gid& to, Qpn qpn) {
        a_qp_.post_send({.flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
                         .inline_data = data_,
                         .ah = a_.create_ah(to),
                         .dest_qpn = qpn,
                         .qkey = qkey});
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
        settle();
    }
    void expect_datagram(Sniffer& sniffer, Direction direction, const hca::Gid& to, Qpn qpn) {
        const auto frames = sniffer.frames();
        ASSERT_EQ(operations_of(frames), std::vector<std::uint8_t>{VRDMA_ROCE_SEND_ONLY});
        const Recorded& frame = frames.front();
        EXPECT_EQ(frame.direction, direction);
        EXPECT_EQ(frame.path.source, a_.gid());
        EXPECT_EQ(frame.path.target, to);
        EXPECT_EQ(frame.headers.target_qpn, qpn.value);
        EXPECT_EQ(frame.headers.source_qpn, a_qp_.id().value);
        EXPECT_EQ(frame.headers.qkey, qkey);
        EXPECT_EQ(frame.payload, data_);
    }

    const std::vector<std::byte> data_ = Buffer::pattern(1, 30);
    GuestQp a_qp_ = a_.create_qp(a_cq_, a_cq_, {.type = hca::QpType::ud});
    GuestQp b_qp_ = b_.create_qp(b_cq_, b_cq_, {.type = hca::QpType::ud});
};

// Send a datagram to a QP, and one that is dropped there; expect both at both ends.
TEST_F(DatagramSniffer, DatagramsAreRecordedAtBothEnds) {
    Sniffer a{a_};
    Sniffer b{b_};
    MemoryRegion to = b_.register_mr(4096);
    b_qp_.post_recv(std::array{to.sge()});
    for (int i = 0; i < 2; ++i) {
        send(b_.gid(), b_qp_.id());
        expect_datagram(a, Direction::sent, b_.gid(), b_qp_.id());
        expect_datagram(b, Direction::received, b_.gid(), b_qp_.id());
    }
}

// Send to a group with members on both devices; expect the datagram once at each end.
TEST_F(DatagramSniffer, AGroupsDatagramIsRecordedOnce) {
    constexpr hca::Gid group{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 224, 0, 1, 2};
    Sniffer a{a_};
    Sniffer b{b_};
    ASSERT_TRUE(a_.slice().attach_multicast(a_qp_.id(), group));
    ASSERT_TRUE(b_.slice().attach_multicast(b_qp_.id(), group));
    GuestQp another = b_.create_qp(b_cq_, b_cq_, {.type = hca::QpType::ud});
    activate_ud(b_, another, qkey);
    ASSERT_TRUE(b_.slice().attach_multicast(another.id(), group));
    send(group, Qpn{VRDMA_MULTICAST_QPN});
    expect_datagram(a, Direction::sent, group, Qpn{VRDMA_MULTICAST_QPN});
    expect_datagram(b, Direction::received, group, Qpn{VRDMA_MULTICAST_QPN});
}

} // namespace
} // namespace vrdma::test
