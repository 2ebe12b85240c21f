// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Shared receive queues: the WQE that each message takes, the guest's events, and the WQEs that a
// failed QP leaves to the others.
#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

constexpr std::uint32_t slot_size = 256;
constexpr std::uint32_t long_message = 3u << 20; // many pieces

constexpr std::uint64_t slot(std::uint32_t number) {
    return std::uint64_t{number} * slot_size;
}

// Two QPs of b share a receive queue; each has a peer in a.
class SharedReceive : public TwoGuests {
  protected:
    explicit SharedReceive(hca::QpType type = hca::QpType::rc) {
        for (int i = 0; i < 2; ++i) {
            senders_.push_back(a_.create_qp(a_cq_, a_cq_, {.type = type}));
            receivers_.push_back(make_receiver(type));
            connect_pair(senders_[i], receivers_[i]);
        }
    }

    GuestQp make_receiver(hca::QpType type = hca::QpType::rc) {
        return b_.create_qp(b_cq_, b_cq_, QpShape::sharing(srq_.id(), type));
    }

    // Posts a receive into slot number `cookie` of the region.
    void post(std::uint32_t cookie) {
        srq_.post_recv(cookie, std::array{mr_.sge(slot(cookie), slot_size)});
    }

    void send(int sender, std::uint8_t seed) {
        const auto data = Buffer::pattern(seed, 8);
        senders_[sender].post_send(
            {.flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE, .inline_data = data});
    }

    // Sends a message of many pieces, and posts a receive for it. Returns when the first piece has
    // arrived.
    void begin_long(std::uint32_t cookie) {
        srq_.post_recv(cookie, std::array{long_to_.sge()});
        senders_[0].post_send({.sges = std::array{long_from_.sge()}});
        await_begin(long_to_.buffer);
        ASSERT_FALSE(b_cq_.poll());
    }

    void fail_receiver(int i) {
        ASSERT_TRUE(b_.slice().modify_qp(receivers_[i].id(), state_attr(IBV_QPS_ERR)));
    }

    Event limit_event() const { return {IBV_EVENT_SRQ_LIMIT_REACHED, srq_.id().value}; }
    Event last_wqe_event(int i) const {
        return {IBV_EVENT_QP_LAST_WQE_REACHED, receivers_[i].id().value};
    }

    GuestSrq srq_ = b_.create_srq();
    MemoryRegion mr_ = b_.register_mr(1 << 16);
    MemoryRegion long_from_ = a_.register_mr(long_message);
    MemoryRegion long_to_ = b_.register_mr(long_message);
    std::vector<GuestQp> senders_;
    std::vector<GuestQp> receivers_;
};

// Send alternately on both QPs, beyond the ring's end; expect each message in the next WQE,
// completed with its cookie for the QP that received it.
TEST_F(SharedReceive, EachMessageTakesTheNext) {
    for (std::uint32_t i = 0; i < 40; ++i) {
        const std::uint32_t cookie = 7 * i % 16;
        post(cookie);
        send(i % 2, static_cast<std::uint8_t>(i));
        const Completion received = wait(b_cq_);
        EXPECT_EQ(received.status, IBV_WC_SUCCESS);
        EXPECT_TRUE(received.receive);
        EXPECT_EQ(received.qpn, receivers_[i % 2].id().value);
        EXPECT_EQ(received.index, cookie);
        EXPECT_EQ(received.byte_len, 8u);
        EXPECT_EQ(mr_.buffer.read(slot(cookie), 8),
                  Buffer::pattern(static_cast<std::uint8_t>(i), 8));
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    }
}

// Post a cookie of any value; expect it back unchanged.
TEST_F(SharedReceive, CookiesAreTheGuestsOwn) {
    srq_.post_recv(0xfffffff0, std::array{mr_.sge()});
    send(0, 1);
    EXPECT_EQ(wait(b_cq_).index, 0xfffffff0u);
}

// Begin a long message on one QP and send short ones on the other meanwhile; expect the short ones
// to take the next WQEs, and to complete first.
TEST_F(SharedReceive, CompleteOutOfOrder) {
    long_from_.buffer.fill(3);
    begin_long(100);
    for (std::uint32_t i = 0; i < 3; ++i) {
        post(i);
        senders_[1].post_send({.flags = VRDMA_SQ_INLINE, .inline_data = Buffer::pattern(1, 8)});
        EXPECT_EQ(wait(b_cq_).index, i);
    }
    const Completion last = wait(b_cq_);
    EXPECT_EQ(last.index, 100u);
    EXPECT_EQ(last.byte_len, long_message);
    EXPECT_EQ(long_to_.buffer.read(0, long_message), long_from_.buffer.read(0, long_message));
}

// Send to an empty queue; expect RNR retries to end in the sender's error, or to succeed if a WQE
// is posted in time.
TEST_F(SharedReceive, EmptyIsNotReady) {
    vrdma_qp_attr attr{};
    attr.attr_mask = IBV_QP_RNR_RETRY | IBV_QP_STATE;
    attr.state = IBV_QPS_RTS;
    attr.rnr_retry = 1;
    ASSERT_TRUE(a_.slice().modify_qp(senders_[0].id(), attr));
    send(0, 1);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_RNR_RETRY_EXC_ERR);
    send(1, 2);
    poll();
    post(1);
    EXPECT_EQ(wait(b_cq_).index, 1u);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
}

// Arm a limit of 3 with 4 posted; expect the event when the second message leaves 2, and no other.
TEST_F(SharedReceive, TellsOnceThatTheLimitIsReached) {
    for (std::uint32_t i = 0; i < 4; ++i) {
        post(i);
    }
    ASSERT_TRUE(b_.slice().modify_srq(srq_.id(), 3));
    send(0, 0);
    EXPECT_TRUE(events(b_).empty());
    EXPECT_EQ(b_.slice().query_srq(srq_.id()).value(), 3u);
    send(1, 0);
    EXPECT_EQ(events(b_), std::vector{limit_event()});
    EXPECT_EQ(b_.slice().query_srq(srq_.id()).value(), 0u);
    send(0, 0);
    EXPECT_TRUE(events(b_).empty());
}

// Arm limits on rings of every fill level, on both passes; expect the event at once if fewer WQEs
// are posted, and none if as many are.
TEST_F(SharedReceive, LimitArmedTooLateTellsAtOnce) {
    const std::uint32_t depth = srq_.shape().depth;
    for (std::uint32_t posted = 0; posted < depth; ++posted) {
        for (std::uint32_t limit = 1; limit <= depth; ++limit) {
            ASSERT_TRUE(b_.slice().modify_srq(srq_.id(), limit));
            EXPECT_EQ(events(b_).size(), limit > posted ? 1u : 0u) << limit << " of " << posted;
        }
        ASSERT_TRUE(b_.slice().modify_srq(srq_.id(), 0));
        // The ring advances while it fills.
        for (int i = 0; i < 3; ++i) {
            post(0);
            send(0, 0);
            wait(b_cq_);
        }
        post(0);
    }
    EXPECT_FALSE(b_.slice().modify_srq(srq_.id(), depth + 1));
}

// Fail one of two QPs; expect an event that it takes no more WQEs, and the posted WQEs to serve the
// other.
TEST_F(SharedReceive, FailedQpLeavesWhatIsPosted) {
    post(1);
    fail_receiver(0);
    EXPECT_EQ(events(b_), std::vector{last_wqe_event(0)});
    EXPECT_FALSE(b_cq_.poll());
    fail_receiver(0);
    EXPECT_TRUE(events(b_).empty()); // it had failed already
    send(1, 1);
    EXPECT_EQ(wait(b_cq_).index, 1u);
}

// Fail a QP in the middle of a message; expect its WQE flushed, then the event.
TEST_F(SharedReceive, WqeThatWasTakenIsFlushed) {
    long_from_.buffer.fill(1);
    begin_long(5);
    post(6);
    fail_receiver(0);
    const Completion flushed = wait(b_cq_);
    EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_TRUE(flushed.receive);
    EXPECT_EQ(flushed.index, 5u);
    EXPECT_EQ(flushed.qpn, receivers_[0].id().value);
    EXPECT_EQ(events(b_), std::vector{last_wqe_event(0)});
    send(1, 1);
    EXPECT_EQ(wait(b_cq_).index, 6u);
}

// Reset or destroy a QP in the middle of a message; expect its WQE flushed before the call returns,
// so that the guest finds it among the CQEs that it discards.
TEST_F(SharedReceive, WqeThatWasTakenComesBackWithTheQp) {
    long_from_.buffer.fill(1);
    begin_long(5);
    ASSERT_TRUE(b_.slice().modify_qp(receivers_[0].id(), state_attr(IBV_QPS_RESET)));
    EXPECT_EQ(b_cq_.poll().value().index, 5u);
    ASSERT_TRUE(a_.slice().modify_qp(senders_[0].id(), state_attr(IBV_QPS_RESET)));
    settle();
    senders_[0].reset();
    receivers_[0].reset();
    connect_pair(senders_[0], receivers_[0]);
    long_to_.buffer.write(0, std::vector<std::byte>(1));
    begin_long(6);
    b_.slice().destroy_qp(receivers_[0].id());
    const Completion flushed = b_cq_.poll().value();
    EXPECT_EQ(flushed.index, 6u);
    EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_TRUE(events(b_).empty());
}

// Post an invalid WQE, one that is too short, and one with a key of another PD; expect each to fail
// the sender's message and the receiver that took it, with the WQE's cookie.
TEST_F(SharedReceive, BadWqesFailTheQpThatTakesThem) {
    const MemoryRegion foreign = b_.register_mr(4096, {.pd = PdId{2}});
    const std::array<std::uint32_t, 3> raw{9, 1, 0}; // a cookie, then a reserved word
    srq_.post_raw(0, std::as_bytes(std::span{raw}));
    send(0, 1);
    Completion failed = wait(b_cq_);
    EXPECT_EQ(failed.status, IBV_WC_LOC_QP_OP_ERR);
    EXPECT_EQ(failed.index, 9u);
    EXPECT_EQ(state_of(b_, receivers_[0]), IBV_QPS_ERR);
    srq_.post_recv(10, std::array{foreign.sge()});
    send(1, 1);
    failed = wait(b_cq_);
    EXPECT_EQ(failed.status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(failed.index, 10u);
    GuestQp sender = a_.create_qp(a_cq_, a_cq_);
    GuestQp receiver = make_receiver();
    connect_pair(sender, receiver);
    srq_.post_recv(11, std::array{mr_.sge(0, 4)});
    sender.post_send({.flags = VRDMA_SQ_INLINE, .inline_data = Buffer::pattern(1, 8)});
    failed = wait(b_cq_);
    EXPECT_EQ(failed.status, IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(failed.index, 11u);
}

// The keys in WQEs belong to the SRQ's PD, not to the QP's.
TEST_F(SharedReceive, WqesNameKeysOfTheQueuesPd) {
    const PdId pd{2};
    GuestSrq srq = b_.create_srq({.pd = pd});
    const MemoryRegion mr = b_.register_mr(4096, {.pd = pd});
    GuestQp sender = a_.create_qp(a_cq_, a_cq_);
    GuestQp receiver = b_.create_qp(b_cq_, b_cq_, QpShape::sharing(srq.id()));
    connect_pair(sender, receiver);
    srq.post_recv(1, std::array{mr.sge()});
    sender.post_send({.flags = VRDMA_SQ_INLINE, .inline_data = Buffer::pattern(1, 8)});
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
}

// WRITE with immediate takes a WQE, only for the immediate.
TEST_F(SharedReceive, ServesWritesWithImmediate) {
    post(4);
    senders_[1].post_send({.opcode = VRDMA_SQ_RDMA_WRITE_WITH_IMM,
                           .flags = VRDMA_SQ_INLINE,
                           .imm = 17,
                           .inline_data = Buffer::pattern(1, 8),
                           .rkey = mr_.key,
                           .raddr = mr_.start});
    const Completion received = wait(b_cq_);
    EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(received.index, 4u);
    EXPECT_EQ(received.imm, 17u);
}

// Destroy the users and then the queue, while an event may wait; expect at most that event, and the
// queue to be gone.
TEST_F(SharedReceive, EndsWithAnEventThatWaits) {
    ASSERT_TRUE(b_.slice().modify_srq(srq_.id(), 1)); // raises the event at once
    for (const GuestQp& receiver : receivers_) {
        b_.slice().destroy_qp(receiver.id());
    }
    b_.slice().destroy_srq(srq_.id());
    EXPECT_LE(events(b_).size(), 1u);
    EXPECT_FALSE(b_.slice().query_srq(srq_.id()));
}

// Migrate the guest with a limit armed, WQEs posted, and one WQE in the middle of a message; expect
// the message to continue in that WQE, and the queue to continue at its position.
TEST_F(SharedReceive, Migrates) {
    long_from_.buffer.fill(9);
    begin_long(30);
    post(31);
    post(32);
    ASSERT_TRUE(b_.slice().modify_srq(srq_.id(), 2));
    b_.migrate(host_of(b_));
    EXPECT_EQ(b_.slice().query_srq(srq_.id()).value(), 2u);
    EXPECT_EQ(wait(b_cq_).index, 30u);
    EXPECT_EQ(long_to_.buffer.read(0, long_message), long_from_.buffer.read(0, long_message));
    EXPECT_TRUE(events(b_).empty());
    send(1, 1);
    EXPECT_EQ(wait(b_cq_).index, 31u);
    EXPECT_EQ(events(b_), std::vector{limit_event()});
}

// States that no slice saves; expect EINVAL for each.
TEST_F(SharedReceive, BadStatesAreRefused) {
    b_.slice().freeze();
    const auto id = receivers_[0].id();
    const hca::QpState good = b_.slice().save_qp(id);
    const auto restore = [&](auto change, std::size_t sges) {
        hca::QpState state = good;
        change(state);
        return b_.slice().restore_qp(id, state, std::vector<vrdma_sge>(sges)).has_value();
    };
    EXPECT_FALSE(restore([](auto& state) { state.holds_receive = 2; }, 0));
    EXPECT_FALSE(restore([](auto& state) { state.holds_receive = 1; }, 4));
    EXPECT_FALSE(restore([](auto& state) { state.holds_receive = 0; }, 1));
    EXPECT_FALSE(restore([](auto& state) { state.last_wqe_due = 2; }, 0));
    EXPECT_FALSE(b_.slice().restore_srq(srq_.id(), {.limit = 17}));
    EXPECT_FALSE(b_.slice().restore_srq(srq_.id(), {.events = 1}));
    EXPECT_TRUE(restore([](auto& state) { state.holds_receive = 1; }, 3));
    b_.thaw();
}

class ResizedReceive : public SharedReceive {
  protected:
    void post_next(std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) {
            post(posted_++ % 64);
        }
    }
    void take(std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) {
            send(static_cast<int>(taken_ % 2), static_cast<std::uint8_t>(taken_));
            EXPECT_EQ(wait(b_cq_).index, taken_++ % 64);
            EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
        }
    }

    std::uint32_t posted_ = 0;
    std::uint32_t taken_ = 0;
};

// Resize up and down, at many positions of the ring, with WQEs in it; expect each WQE once and in
// order, and room for as many as the new size.
TEST_F(ResizedReceive, KeepsWhatIsPosted) {
    constexpr std::array<std::uint32_t, 6> depths{32, 4, 64, 8, 4, 16};
    for (std::size_t round = 0; round < 60; ++round) {
        const std::uint32_t depth = depths[round % depths.size()];
        post_next(4);
        take(1);
        ASSERT_TRUE(b_.resize_srq(srq_, depth)) << depth;
        take(1);
        post_next(depth - 2);
        take(depth);
    }
    send(0, 0);
    settle();
    EXPECT_FALSE(b_cq_.poll()); // the earlier content of the entry is no WQE
    post_next(1);
    EXPECT_EQ(wait(b_cq_).index, taken_ % 64);
}

// Resize below the number of posted WQEs; expect EINVAL, and the old ring in use.
TEST_F(ResizedReceive, TooSmall) {
    post_next(5);
    EXPECT_EQ(b_.resize_srq(srq_, 4).error(), std::errc::invalid_argument);
    take(1);
    ASSERT_TRUE(b_.resize_srq(srq_, 4));
    take(4);
    EXPECT_FALSE(b_.slice().resize_srq(Srqn{99}, srq_.pages(), 4, {}));
}

// Resize in the middle of a message; expect the message to continue in its WQE, and to complete
// with its cookie.
TEST_F(ResizedReceive, WqeThatWasTakenStays) {
    long_from_.buffer.fill(5);
    begin_long(70);
    ASSERT_TRUE(b_.resize_srq(srq_, 4));
    post(71);
    send(1, 1);
    EXPECT_EQ(wait(b_cq_).index, 71u);
    EXPECT_EQ(wait(b_cq_).index, 70u);
    EXPECT_EQ(long_to_.buffer.read(0, long_message), long_from_.buffer.read(0, long_message));
}

// Resize with a limit armed; expect the limit to stay armed, its event at the right time, and
// EINVAL for a size below the limit.
TEST_F(ResizedReceive, StaysArmed) {
    post_next(7);
    ASSERT_TRUE(b_.slice().modify_srq(srq_.id(), 6));
    ASSERT_TRUE(b_.resize_srq(srq_, 32));
    ASSERT_TRUE(b_.resize_srq(srq_, 8));
    take(1);
    EXPECT_EQ(b_.resize_srq(srq_, 4).error(), std::errc::invalid_argument);
    ASSERT_TRUE(b_.resize_srq(srq_, 8));
    EXPECT_TRUE(events(b_).empty());
    take(1);
    EXPECT_EQ(events(b_), std::vector{limit_event()});
    take(1);
    ASSERT_TRUE(b_.resize_srq(srq_, 4));
}

// Resize and arm in one call; expect only the new limit to count, and neither change if the limit
// is too large.
TEST_F(ResizedReceive, ArmsTheLimit) {
    post_next(3);
    ASSERT_TRUE(b_.slice().modify_srq(srq_.id(), 3));
    EXPECT_EQ(b_.resize_srq(srq_, 4, 5).error(), std::errc::invalid_argument);
    EXPECT_EQ(b_.slice().query_srq(srq_.id()).value(), 3u);
    ASSERT_TRUE(b_.resize_srq(srq_, 4, 2));
    EXPECT_EQ(b_.slice().query_srq(srq_.id()).value(), 2u);
    EXPECT_TRUE(events(b_).empty());
    ASSERT_TRUE(b_.resize_srq(srq_, 8, 8)); // too late: the event comes at once
    EXPECT_EQ(events(b_), std::vector{limit_event()});
}

// Resize to a ring of arbitrary content in which all entries appear posted; expect a message that
// takes an entry to fail, and the apparent WQEs to count.
TEST_F(ResizedReceive, AnyRing) {
    constexpr std::uint32_t depth = 32;
    const unsigned stride_shift = srq_.shape().stride_shift;
    post_next(2);
    Buffer garbage = b_.pages().allocate(vrdma_srq_buffer_size(depth, stride_shift));
    garbage.fill(7);
    for (std::uint64_t i = 0; i < depth; ++i) {
        *garbage.at<std::uint32_t>(i << stride_shift) |= VRDMA_WQE_PHASE;
    }
    ASSERT_TRUE(b_.slice().resize_srq(srq_.id(), garbage.pages(), depth, {}));
    send(0, 1);
    EXPECT_NE(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(b_.slice().resize_srq(srq_.id(), garbage.pages(), 16, {}).error(),
              std::errc::invalid_argument);
}

// Migrate after a resize; expect WQEs to be taken from the new ring.
TEST_F(ResizedReceive, AndMigrates) {
    post_next(20 - 4);
    ASSERT_TRUE(b_.resize_srq(srq_, 64));
    post_next(4);
    b_.migrate(host_of(b_));
    take(20);
}

class SharedReceiveUc : public SharedReceive {
  protected:
    SharedReceiveUc() : SharedReceive{hca::QpType::uc} {}
};

// Send without a WQE, then a message that does not fit, then one that does; expect the first two to
// be dropped, and the WQE to serve the third.
TEST_F(SharedReceiveUc, DropsWhatDoesNotFit) {
    send(0, 1);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    srq_.post_recv(3, std::array{mr_.sge(0, 4)});
    send(0, 1);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_FALSE(b_cq_.poll());
    senders_[1].post_send({.flags = VRDMA_SQ_INLINE, .inline_data = Buffer::pattern(1, 4)});
    EXPECT_EQ(wait(b_cq_).index, 3u);
}

class SharedReceiveUd : public TwoGuests {};

// Send datagrams to two QPs with one queue; expect GRH and payload in WQEs of the queue, in order.
TEST_F(SharedReceiveUd, ServesDatagrams) {
    constexpr std::uint32_t qkey = 5;
    GuestSrq srq = b_.create_srq();
    const MemoryRegion mr = b_.register_mr(4096);
    GuestQp sender = a_.create_qp(a_cq_, a_cq_, {.type = hca::QpType::ud});
    activate_ud(a_, sender, qkey);
    const AhId ah = a_.create_ah(b_.gid());
    std::vector<GuestQp> receivers;
    for (int i = 0; i < 2; ++i) {
        receivers.push_back(
            b_.create_qp(b_cq_, b_cq_, QpShape::sharing(srq.id(), hca::QpType::ud)));
        activate_ud(b_, receivers.back(), qkey);
    }
    for (std::uint32_t i = 0; i < 20; ++i) {
        srq.post_recv(i, std::array{mr.sge(0, 100)});
        const auto data = Buffer::pattern(static_cast<std::uint8_t>(i), 8);
        sender.post_send({.flags = VRDMA_SQ_INLINE,
                          .inline_data = data,
                          .ah = ah,
                          .dest_qpn = receivers[i % 2].id(),
                          .qkey = qkey});
        const Completion received = wait(b_cq_);
        EXPECT_EQ(received.index, i);
        EXPECT_EQ(received.qpn, receivers[i % 2].id().value);
        EXPECT_EQ(received.byte_len, VRDMA_UD_GRH_SIZE + 8u);
        EXPECT_EQ(mr.buffer.read(VRDMA_UD_GRH_SIZE, 8), data);
    }
}

} // namespace
} // namespace vrdma::test
