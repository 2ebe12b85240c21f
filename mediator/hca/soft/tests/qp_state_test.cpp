// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The states of a QP: the transitions that exist, and the effect of each state on the queues.
#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

class QpState : public ConnectedPair {
  protected:
    Result<> move(Guest& guest, const GuestQp& qp, ibv_qp_state state) {
        return guest.slice().modify_qp(qp.id(), state_attr(state));
    }
    void write_nothing(GuestQp& qp) { qp.post_send({.opcode = VRDMA_SQ_RDMA_WRITE}); }
};

// Try each transition from each state; expect exactly those of IBA figure 124.
TEST_F(QpState, HasTheArcsOfTheSpecification) {
    const auto legal = [](ibv_qp_state from, ibv_qp_state to) {
        switch (to) {
            case IBV_QPS_RESET:
            case IBV_QPS_ERR:
                return true;
            case IBV_QPS_INIT:
                return from == IBV_QPS_RESET || from == IBV_QPS_INIT;
            case IBV_QPS_RTR:
                return from == IBV_QPS_INIT;
            case IBV_QPS_RTS:
                return from == IBV_QPS_RTR || from == IBV_QPS_RTS || from == IBV_QPS_SQD;
            case IBV_QPS_SQD:
                return from == IBV_QPS_RTS || from == IBV_QPS_SQD;
            default:
                return false;
        }
    };
    const std::vector<std::vector<ibv_qp_state>> ways = {
        {},
        {IBV_QPS_INIT},
        {IBV_QPS_INIT, IBV_QPS_RTR},
        {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS},
        {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD},
        {IBV_QPS_ERR},
    };
    GuestQp qp = a_.create_qp(a_cq_, a_cq_);
    for (const auto& way : ways) {
        for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR; ++to) {
            ASSERT_TRUE(move(a_, qp, IBV_QPS_RESET));
            for (const ibv_qp_state state : way) {
                ASSERT_TRUE(move(a_, qp, state));
            }
            const ibv_qp_state from = state_of(a_, qp);
            const auto target = static_cast<ibv_qp_state>(to);
            EXPECT_EQ(move(a_, qp, target).has_value(), legal(from, target))
                << from << " to " << to;
        }
    }
}

// Ask for a transition from a state in which the QP is not; expect EINVAL.
TEST_F(QpState, ChecksTheCurrentState) {
    vrdma_qp_attr attr = state_attr(IBV_QPS_SQD);
    attr.attr_mask |= IBV_QP_CUR_STATE;
    attr.cur_state = IBV_QPS_RTR;
    EXPECT_EQ(a_.slice().modify_qp(a_qp_.id(), attr).error(), std::errc::invalid_argument);
    EXPECT_EQ(a_.slice().modify_qp(Qpn{5}, attr).error(), std::errc::no_such_file_or_directory);
}

// Set attributes; expect to read them back.
TEST_F(QpState, QueriesWhatWasSet) {
    const auto attr = a_.slice().query_qp(a_qp_.id());
    ASSERT_TRUE(attr);
    EXPECT_EQ(attr->state, IBV_QPS_RTS);
    EXPECT_EQ(attr->cur_state, IBV_QPS_RTS);
    EXPECT_EQ(attr->dest_qpn, b_qp_.id().value);
    EXPECT_EQ(attr->access_flags, all_access);
    EXPECT_EQ(attr->path_mtu, IBV_MTU_4096);
    EXPECT_EQ(attr->retry_cnt, 7);
    EXPECT_TRUE(std::equal(b_.gid().begin(), b_.gid().end(), attr->av.dgid));
}

// Post sends in RTR; expect nothing until RTS. Post receives in INIT; expect them to be used.
TEST_F(QpState, SendsOnlyInRts) {
    GuestQp from = a_.create_qp(a_cq_, a_cq_);
    GuestQp to = b_.create_qp(b_cq_, b_cq_);
    move_to_init(b_, to);
    to.post_recv({});
    connect(b_, to, a_.gid(), from.id());
    move_to_init(a_, from);
    ASSERT_TRUE(a_.slice().modify_qp(from.id(), rtr_attr(b_.gid(), to.id())));
    from.post_send({});
    settle();
    EXPECT_FALSE(a_cq_.poll());
    ASSERT_TRUE(a_.slice().modify_qp(from.id(), rts_attr()));
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
}

// The first message arrives while the receiver is in RTR; expect COMM_EST, once.
TEST_F(QpState, TellsThatCommunicationIsEstablished) {
    GuestQp from = a_.create_qp(a_cq_, a_cq_);
    GuestQp to = b_.create_qp(b_cq_, b_cq_);
    move_to_init(b_, to);
    ASSERT_TRUE(b_.slice().modify_qp(to.id(), rtr_attr(a_.gid(), from.id())));
    connect(a_, from, b_.gid(), to.id());
    write_nothing(from);
    write_nothing(from);
    wait(a_cq_);
    wait(a_cq_);
    settle();
    EXPECT_EQ(b_.eq().poll(), (Event{IBV_EVENT_COMM_EST, to.id().value}));
    EXPECT_FALSE(b_.eq().poll());
    EXPECT_GE(b_.interrupts(1), 1u);
}

// Post to both queues, then move to ERR; expect all to be flushed in order, sends first, and later
// posts as well.
TEST_F(QpState, ErrorFlushesBothQueuesInOrder) {
    ASSERT_TRUE(move(b_, b_qp_, IBV_QPS_RESET));
    b_qp_.reset();
    for (int i = 0; i < 3; ++i) {
        a_qp_.post_recv({});
        a_qp_.post_send({.flags = 0});
    }
    poll(); // the first is sent, and waits for its peer
    ASSERT_TRUE(move(a_, a_qp_, IBV_QPS_ERR));
    for (const bool receive : {false, true}) {
        for (std::uint32_t i = 0; i < 3; ++i) {
            const Completion flushed = wait(a_cq_);
            EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
            EXPECT_EQ(flushed.receive, receive);
            EXPECT_EQ(flushed.index, i);
        }
    }
    settle();
    a_qp_.post_recv({});
    EXPECT_TRUE(wait(a_cq_).receive);
    a_qp_.post_send({});
    EXPECT_FALSE(wait(a_cq_).receive);
    EXPECT_FALSE(a_cq_.poll());
}

// Fail a send; expect the requests behind it to be flushed, not executed.
TEST_F(QpState, FailureFlushesWhatFollows) {
    const vrdma_sge bad{.addr = 0, .length = 8, .lkey = 1};
    a_qp_.post_recv({});
    a_qp_.write_send({.flags = 0, .sges = {&bad, 1}});
    a_qp_.write_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                      .flags = VRDMA_SQ_INLINE,
                      .inline_data = Buffer::pattern(1, 8),
                      .rkey = b_mr_.key,
                      .raddr = b_mr_.start});
    a_qp_.announce_sends();
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_TRUE(wait(a_cq_).receive);
    EXPECT_EQ(b_mr_.buffer.read(0, 8), std::vector<std::byte>(8));
}

// Move a failed QP to RESET and up to RTS again; expect it to work from its first WQE on.
TEST_F(QpState, ResetStartsAnew) {
    write_nothing(a_qp_);
    wait(a_cq_);
    ASSERT_TRUE(move(a_, a_qp_, IBV_QPS_ERR));
    write_nothing(a_qp_);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_WR_FLUSH_ERR);
    ASSERT_TRUE(move(a_, a_qp_, IBV_QPS_RESET));
    a_qp_.reset();
    EXPECT_EQ(a_.slice().query_qp(a_qp_.id())->dest_qpn, 0u);
    EXPECT_EQ(load_acquire(a_qp_.control().rq_wanted), 0u);
    connect(a_, a_qp_, b_.gid(), b_qp_.id());
    write_nothing(a_qp_);
    const Completion done = wait(a_cq_);
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
    EXPECT_EQ(done.index, 0u);
}

// Move to SQD while a message waits for a receive; expect the message to finish, then the event,
// then nothing more until RTS.
TEST_F(QpState, DrainsWhatWasBegun) {
    a_qp_.write_send({});
    a_qp_.write_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    a_qp_.announce_sends();
    poll();
    vrdma_qp_attr attr = state_attr(IBV_QPS_SQD);
    attr.attr_mask |= IBV_QP_EN_SQD_ASYNC_NOTIFY;
    attr.sq_drained_notify = 1;
    ASSERT_TRUE(a_.slice().modify_qp(a_qp_.id(), attr));
    EXPECT_EQ(a_.slice().query_qp(a_qp_.id())->sq_draining, 1);
    settle();
    EXPECT_FALSE(a_.eq().poll());

    b_qp_.post_recv({});
    EXPECT_EQ(wait(a_cq_).opcode, IBV_WC_SEND);
    settle();
    EXPECT_EQ(a_.eq().poll(), (Event{IBV_EVENT_SQ_DRAINED, a_qp_.id().value}));
    EXPECT_EQ(a_.slice().query_qp(a_qp_.id())->sq_draining, 0);
    EXPECT_FALSE(a_cq_.poll());
    ASSERT_TRUE(move(a_, a_qp_, IBV_QPS_RTS));
    EXPECT_EQ(wait(a_cq_).opcode, IBV_WC_RDMA_WRITE);
}

// Move an idle QP to SQD; expect the event at once.
TEST_F(QpState, IdleQpIsDrainedAtOnce) {
    vrdma_qp_attr attr = state_attr(IBV_QPS_SQD);
    attr.attr_mask |= IBV_QP_EN_SQD_ASYNC_NOTIFY;
    attr.sq_drained_notify = 1;
    ASSERT_TRUE(a_.slice().modify_qp(a_qp_.id(), attr));
    settle();
    EXPECT_EQ(a_.eq().poll(), (Event{IBV_EVENT_SQ_DRAINED, a_qp_.id().value}));
    EXPECT_EQ(a_.slice().query_qp(a_qp_.id())->sq_draining, 0);
}

// Reset the receiver in the middle of a long message; expect the sender to start over, and all
// bytes to arrive once the peer is connected again.
TEST_F(QpState, LongMessageSurvivesAReconnect) {
    constexpr std::uint32_t length = 2'000'000;
    const MemoryRegion from = a_.register_mr(length);
    const MemoryRegion to = b_.register_mr(length);
    from.buffer.fill(3);
    const vrdma_sge source = from.sge();
    const vrdma_sge target = to.sge();
    b_qp_.post_recv({&target, 1});
    a_qp_.post_send({.sges = {&source, 1}});
    poll();
    poll();
    ASSERT_TRUE(move(b_, b_qp_, IBV_QPS_RESET));
    b_qp_.reset();
    to.buffer.write(0, std::vector<std::byte>(length));
    poll();
    connect(b_, b_qp_, a_.gid(), a_qp_.id());
    b_qp_.post_recv({&target, 1});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(to.buffer.read(0, length), from.buffer.read(0, length));
}

// Destroy a QP in the middle of its message; expect the peer's receive to stay posted for another
// message.
TEST_F(QpState, DestroyEndsAMessageQuietly) {
    constexpr std::uint32_t length = 2'000'000;
    const MemoryRegion from = a_.register_mr(length);
    const MemoryRegion to = b_.register_mr(length);
    const vrdma_sge source = from.sge();
    const vrdma_sge target = to.sge();
    b_qp_.post_recv({&target, 1});
    a_qp_.post_send({.sges = {&source, 1}});
    poll();
    a_.slice().destroy_qp(a_qp_.id());
    settle();
    EXPECT_FALSE(a_cq_.poll());
    EXPECT_FALSE(b_cq_.poll());
    EXPECT_EQ(state_of(b_, b_qp_), IBV_QPS_RTS);
}

} // namespace
} // namespace vrdma::test
