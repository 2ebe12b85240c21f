// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// XRC: each request of a sender names an SRQ at the other side, and is executed with the rights of
// the SRQ's owner.
#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

constexpr XrcdId domain{1};
constexpr std::uint32_t long_xrc_message = 3u << 20; // many pieces

// Guest a has one sender. Guest b has one QP that receives for two SRQs, each with a PD and a CQ of
// its own.
class Xrc : public TwoGuests {
  protected:
    struct Owner {
        Owner(Guest& guest, PdId pd)
            : cq{guest.create_cq()},
              srq{guest.create_srq({.pd = pd, .xrcd = domain, .cq = cq.id()})},
              mr{guest.register_mr(1 << 16, {.pd = pd})} {}

        void post(std::uint32_t cookie) { srq.post_recv(cookie, std::array{mr.sge(0, 256)}); }

        GuestCq cq;
        GuestSrq srq;
        MemoryRegion mr;
    };

    Xrc() { reconnect(); }

    void reconnect() {
        connect(a_, sender_, b_.gid(), receiver_);
        connect(b_, receiver_, a_.gid(), sender_.id());
    }

    void send(Srqn srq, std::uint8_t seed = 1) {
        const auto data = Buffer::pattern(seed, 8);
        sender_.post_send(
            {.flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE, .inline_data = data, .srq = srq});
    }

    // Sends a message of many pieces. Returns when the first piece has arrived.
    void begin_long(Owner& owner, std::uint32_t cookie) {
        long_from_.buffer.fill(7);
        long_to_ = b_.register_mr(long_xrc_message, {.pd = owner.srq.shape().pd});
        owner.srq.post_recv(cookie, std::array{long_to_->sge()});
        sender_.post_send({.sges = std::array{long_from_.sge()}, .srq = owner.srq.id()});
        await_begin(long_to_->buffer);
        ASSERT_FALSE(owner.cq.poll());
    }

    ibv_qp_state receiver_state() {
        return static_cast<ibv_qp_state>(b_.slice().query_qp(receiver_)->state);
    }

    GuestQp sender_ = a_.create_qp(a_cq_, a_cq_, QpShape::xrc_send());
    Qpn receiver_ = b_.create_xrc_recv(domain);
    Owner first_{b_, PdId{2}};
    Owner second_{b_, PdId{3}};
    MemoryRegion long_from_ = a_.register_mr(long_xrc_message);
    std::optional<MemoryRegion> long_to_;
};

// Send to both SRQs alternately; expect each message in a WQE of the SRQ that it names. It
// completes in that SRQ's CQ with its cookie, for the QP that received it.
TEST_F(Xrc, AMessageGoesToTheSrqItNames) {
    for (std::uint32_t i = 0; i < 40; ++i) {
        Owner& owner = i % 2 == 0 ? first_ : second_;
        owner.post(i);
        send(owner.srq.id(), static_cast<std::uint8_t>(i));
        const Completion received = wait(owner.cq);
        EXPECT_EQ(received.status, IBV_WC_SUCCESS);
        EXPECT_TRUE(received.receive);
        EXPECT_EQ(received.srqn, owner.srq.id().value);
        EXPECT_EQ(received.qpn, receiver_.value);
        EXPECT_EQ(received.index, i);
        EXPECT_EQ(received.byte_len, 8u);
        EXPECT_EQ(owner.mr.buffer.read(0, 8), Buffer::pattern(static_cast<std::uint8_t>(i), 8));
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    }
}

// WRITE, READ and an atomic to memory of the named SRQ's PD; expect success. The same to memory of
// another SRQ's PD; expect an access error.
TEST_F(Xrc, MemoryIsThatOfTheSrqsOwner) {
    const MemoryRegion local = a_.register_mr(4096);
    const auto request = [&](vrdma_sq_opcode opcode, const Owner& owner, Srqn srq) {
        sender_.post_send({.opcode = opcode,
                           .sges = std::array{local.sge(0, 8)},
                           .rkey = owner.mr.key,
                           .raddr = owner.mr.start,
                           .srq = srq});
        return wait(a_cq_).status;
    };
    for (const auto opcode :
         {VRDMA_SQ_RDMA_WRITE, VRDMA_SQ_RDMA_READ, VRDMA_SQ_ATOMIC_FETCH_AND_ADD}) {
        EXPECT_EQ(request(opcode, first_, first_.srq.id()), IBV_WC_SUCCESS);
        EXPECT_EQ(request(opcode, second_, second_.srq.id()), IBV_WC_SUCCESS);
    }
    EXPECT_EQ(request(VRDMA_SQ_RDMA_WRITE, first_, second_.srq.id()), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(receiver_state(), IBV_QPS_ERR);
}

// WRITE with immediate takes a WQE of the named SRQ.
TEST_F(Xrc, ServesWritesWithImmediate) {
    second_.post(4);
    sender_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE_WITH_IMM,
                       .flags = VRDMA_SQ_INLINE,
                       .imm = 17,
                       .inline_data = Buffer::pattern(1, 8),
                       .rkey = second_.mr.key,
                       .raddr = second_.mr.start,
                       .srq = second_.srq.id()});
    const Completion received = wait(second_.cq);
    EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(received.index, 4u);
    EXPECT_EQ(received.imm, 17u);
    EXPECT_EQ(received.srqn, second_.srq.id().value);
}

// Name an unknown SRQ, an ordinary one, and one of another domain; expect the request to be refused
// as invalid, and the receiver to fail with the event for it.
TEST_F(Xrc, ForeignSrqsAreInvalid) {
    const GuestSrq ordinary = b_.create_srq();
    const GuestSrq others = b_.create_srq({.xrcd = XrcdId{2}, .cq = b_cq_.id()});
    for (const Srqn srq : {Srqn{0}, Srqn{0xffffff}, ordinary.id(), others.id()}) {
        send(srq);
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_REM_INV_REQ_ERR) << srq.value;
        EXPECT_EQ(state_of(a_, sender_), IBV_QPS_ERR);
        EXPECT_EQ(receiver_state(), IBV_QPS_ERR);
        EXPECT_EQ(events(b_),
                  (std::vector<Event>{{IBV_EVENT_QP_REQ_ERR, receiver_.value},
                                      {IBV_EVENT_QP_LAST_WQE_REACHED, receiver_.value}}));
        ASSERT_TRUE(a_.slice().modify_qp(sender_.id(), state_attr(IBV_QPS_RESET)));
        ASSERT_TRUE(b_.slice().modify_qp(receiver_, state_attr(IBV_QPS_RESET)));
        sender_.reset();
        reconnect();
    }
}

// A reserved word behind the number; expect the sender's own error.
TEST_F(Xrc, ReservedWordIsZero) {
    std::array<std::uint32_t, 7> rest{};
    rest[5] = first_.srq.id().value;
    rest[6] = 1;
    sender_.post_raw_send(VRDMA_SQ_SEND | VRDMA_SQ_SIGNALED, std::as_bytes(std::span{rest}));
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_LOC_QP_OP_ERR);
}

// Send to an empty SRQ; expect retries until a WQE comes.
TEST_F(Xrc, EmptyIsNotReady) {
    send(first_.srq.id());
    poll();
    first_.post(1);
    EXPECT_EQ(wait(first_.cq).index, 1u);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
}

// A WQE has a key of another PD than its SRQ's; expect an error completion for the WQE's owner.
TEST_F(Xrc, BadWqeFailsTheMessage) {
    first_.srq.post_recv(9, std::array{second_.mr.sge(0, 64)});
    send(first_.srq.id());
    const Completion failed = wait(first_.cq);
    EXPECT_EQ(failed.status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(failed.index, 9u);
    EXPECT_EQ(failed.srqn, first_.srq.id().value);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_REM_OP_ERR);
    EXPECT_EQ(receiver_state(), IBV_QPS_ERR);
}

// Fail the receiver in the middle of a message; expect its WQE flushed to the SRQ's CQ, then the
// event. Reset it, and expect the other SRQ to be served.
TEST_F(Xrc, WqeThatWasTakenIsFlushed) {
    begin_long(first_, 5);
    ASSERT_TRUE(b_.slice().modify_qp(receiver_, state_attr(IBV_QPS_ERR)));
    const Completion flushed = wait(first_.cq);
    EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(flushed.index, 5u);
    EXPECT_EQ(flushed.srqn, first_.srq.id().value);
    EXPECT_EQ(events(b_), std::vector<Event>({{IBV_EVENT_QP_LAST_WQE_REACHED, receiver_.value}}));
    ASSERT_TRUE(a_.slice().modify_qp(sender_.id(), state_attr(IBV_QPS_RESET)));
    ASSERT_TRUE(b_.slice().modify_qp(receiver_, state_attr(IBV_QPS_RESET)));
    settle();
    sender_.reset();
    reconnect();
    second_.post(1);
    send(second_.srq.id());
    EXPECT_EQ(wait(second_.cq).status, IBV_WC_SUCCESS);
}

// Change the SRQ's number in a WQE while its message is under way; expect no other SRQ to get any
// of it.
TEST_F(Xrc, AMessageStaysWithItsSrq) {
    begin_long(first_, 5);
    second_.post(6);
    const std::uint64_t number =
        vrdma_sq_offset(sender_.shape().sq_stride_shift) + VRDMA_SQ_PAYLOAD_OFFSET;
    *sender_.buffer().at<std::uint32_t>(number) = second_.srq.id().value;
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(wait(first_.cq).status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_FALSE(second_.cq.poll());
}

// Destroy an SRQ while a message uses one of its WQEs; expect the message to fail, and the receiver
// to be in error, with its events.
TEST_F(Xrc, AnSrqMayGoInTheMiddleOfAMessage) {
    vrdma_qp_attr attr = state_attr(IBV_QPS_RTS);
    attr.attr_mask |= IBV_QP_RETRY_CNT;
    attr.retry_cnt = 1;
    ASSERT_TRUE(a_.slice().modify_qp(sender_.id(), attr));
    begin_long(first_, 5);
    b_.slice().destroy_srq(first_.srq.id());
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(receiver_state(), IBV_QPS_ERR);
    EXPECT_EQ(events(b_), (std::vector<Event>{{IBV_EVENT_QP_FATAL, receiver_.value},
                                              {IBV_EVENT_QP_LAST_WQE_REACHED, receiver_.value}}));
}

// Destroy the receiver in the middle of a message; expect the WQE to be flushed before the call
// returns.
TEST_F(Xrc, AReceiverMayGoInTheMiddleOfAMessage) {
    begin_long(first_, 5);
    b_.slice().destroy_qp(receiver_);
    const Completion flushed = first_.cq.poll().value();
    EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(flushed.index, 5u);
    b_.slice().destroy_srq(first_.srq.id());
}

// An RC QP and an XRC QP cannot communicate, even if their numbers match.
TEST_F(Xrc, OtherTypesDoNotMeet) {
    GuestQp rc = a_.create_qp(a_cq_, a_cq_);
    connect(a_, rc, b_.gid(), receiver_);
    vrdma_qp_attr attr = state_attr(IBV_QPS_RTS);
    attr.attr_mask |= IBV_QP_RETRY_CNT;
    attr.retry_cnt = 1;
    ASSERT_TRUE(a_.slice().modify_qp(rc.id(), attr));
    rc.post_send({.flags = VRDMA_SQ_INLINE, .inline_data = Buffer::pattern(1, 8)});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_RETRY_EXC_ERR);
}

// Fill the SRQ's CQ; expect the CQ's error, and an error of the receiver that overran it.
TEST_F(Xrc, AFullCqEndsTheReceiver) {
    GuestCq tiny = b_.create_cq(1);
    GuestSrq srq = b_.create_srq({.pd = PdId{2}, .xrcd = domain, .cq = tiny.id()});
    for (std::uint32_t i = 0; i < 2; ++i) {
        srq.post_recv(i, std::array{first_.mr.sge(0, 64)});
        send(srq.id());
    }
    EXPECT_EQ(events(b_), (std::vector<Event>{{IBV_EVENT_CQ_ERR, tiny.id().value},
                                              {IBV_EVENT_QP_FATAL, receiver_.value},
                                              {IBV_EVENT_QP_LAST_WQE_REACHED, receiver_.value}}));
}

// Migrate the receiver's guest in the middle of a message; expect the message to continue in its
// WQE.
TEST_F(Xrc, Migrates) {
    begin_long(second_, 30);
    second_.post(31);
    b_.migrate(host_of(b_));
    EXPECT_EQ(wait(second_.cq).index, 30u);
    EXPECT_EQ(long_to_->buffer.read(0, long_xrc_message),
              long_from_.buffer.read(0, long_xrc_message));
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    a_.migrate(host_of(a_));
    send(second_.srq.id());
    EXPECT_EQ(wait(second_.cq).index, 31u);
}

// States that no slice saves; expect EINVAL for each.
TEST_F(Xrc, BadStatesAreRefused) {
    const GuestSrq others = b_.create_srq({.xrcd = XrcdId{2}, .cq = b_cq_.id()});
    b_.slice().freeze();
    const hca::QpState good = b_.slice().save_qp(receiver_);
    const auto restore = [&](auto change, std::size_t sges) {
        hca::QpState state = good;
        change(state);
        return b_.slice().restore_qp(receiver_, state, std::vector<vrdma_sge>(sges)).has_value();
    };
    EXPECT_FALSE(restore([](auto& state) { state.holds_receive = 1; }, 1)); // without an SRQ
    EXPECT_FALSE(restore([&](auto& state) { state.held_srq = first_.srq.id().value; }, 0));
    EXPECT_FALSE(restore(
        [&](auto& state) {
            state.holds_receive = 1;
            state.held_srq = others.id().value;
        },
        1));
    EXPECT_FALSE(restore(
        [&](auto& state) {
            state.holds_receive = 1;
            state.held_srq = first_.srq.id().value;
        },
        4));
    EXPECT_TRUE(restore(
        [&](auto& state) {
            state.holds_receive = 1;
            state.held_srq = first_.srq.id().value;
        },
        3));
    b_.thaw();
}

} // namespace
} // namespace vrdma::test
