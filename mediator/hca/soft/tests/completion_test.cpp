// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Completion queues and events: arming, overrun, event queues without room, indices out of range.
#include <set>

#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

class Completions : public ConnectedPair {
  protected:
    static hca::CqSpec stamped() {
        hca::CqSpec spec;
        spec.timestamped = true;
        return spec;
    }
    static hca::CqSpec ignoring_overrun() {
        hca::CqSpec spec;
        spec.ignore_overrun = true;
        return spec;
    }

    Event completion_event() const { return {VRDMA_EQE_COMPLETION, a_cq_.id().value}; }

    void write_nothing(std::uint32_t flags = VRDMA_SQ_SIGNALED) {
        a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE, .flags = flags});
    }
};

// Complete without arming; expect no event and no interrupt.
TEST_F(Completions, UnarmedQueueStaysSilent) {
    write_nothing();
    wait(a_cq_);
    settle();
    EXPECT_FALSE(a_.eq().poll());
    EXPECT_EQ(a_.interrupts(1), 0u);
}

// Arm, complete twice; expect one event, and another only after arming again.
TEST_F(Completions, ArmedQueueFiresOnce) {
    a_cq_.arm(false);
    write_nothing();
    write_nothing();
    wait(a_cq_);
    wait(a_cq_);
    settle();
    EXPECT_EQ(a_.eq().poll(), completion_event());
    EXPECT_FALSE(a_.eq().poll());
    EXPECT_EQ(a_.interrupts(1), 1u);
    a_cq_.arm(false);
    write_nothing();
    wait(a_cq_);
    settle();
    EXPECT_EQ(a_.eq().poll(), completion_event());
    EXPECT_EQ(load_acquire(a_cq_.control().fired), VRDMA_SET(VRDMA_CQ_ARM_SEQUENCE, 2u));
}

// Arm for solicited events; expect none for a plain receive, one for a solicited, one for an error.
TEST_F(Completions, SolicitedMeansSolicitedOrFailed) {
    const auto receive = [&](std::uint32_t flags) {
        a_qp_.post_recv({});
        b_qp_.post_send({.flags = flags});
        EXPECT_TRUE(wait(a_cq_).receive);
        settle();
    };
    a_cq_.arm(true);
    receive(0);
    EXPECT_FALSE(a_.eq().poll());
    receive(VRDMA_SQ_SOLICITED);
    EXPECT_EQ(a_.eq().poll(), completion_event());
    a_cq_.arm(true);
    const vrdma_sge bad{.addr = 0, .length = 8, .lkey = 4711};
    a_qp_.post_send({.flags = 0, .sges = {&bad, 1}});
    wait(a_cq_);
    settle();
    EXPECT_EQ(a_.eq().poll(), completion_event());
}

// More completions than entries; expect a CQ error and a fatal event for the QP. Entries that were
// not taken must be intact, and other QPs unharmed.
TEST_F(Completions, OverrunEndsTheQueueAndItsQps) {
    GuestCq small = a_.create_cq(4);
    GuestQp from = a_.create_qp(small, a_cq_);
    GuestQp to = b_.create_qp(b_cq_, b_cq_);
    connect_pair(from, to);
    for (int i = 0; i < 5; ++i) {
        from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    }
    settle();
    EXPECT_EQ(a_.eq().poll(), (Event{IBV_EVENT_CQ_ERR, small.id().value}));
    EXPECT_EQ(a_.eq().poll(), (Event{IBV_EVENT_QP_FATAL, from.id().value}));
    EXPECT_EQ(state_of(a_, from), IBV_QPS_ERR);
    for (std::uint32_t i = 0; i < 4; ++i) {
        EXPECT_EQ(small.poll()->index, i);
    }
    EXPECT_FALSE(small.poll());
    write_nothing();
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
}

// Take entries while more come, many times around; expect no overrun.
TEST_F(Completions, ConsumerMakesRoom) {
    GuestCq small = a_.create_cq(4);
    GuestQp from = a_.create_qp(small, a_cq_);
    GuestQp to = b_.create_qp(b_cq_, b_cq_);
    connect_pair(from, to);
    for (std::uint32_t i = 0; i < 30; ++i) {
        from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
        if (i >= 3) {
            EXPECT_EQ(wait(small).index, i - 3);
        }
    }
    settle();
    EXPECT_EQ(state_of(a_, from), IBV_QPS_RTS);
}

// Write a consumer index beyond what was produced; expect a CQ error, no later than the ring's end.
TEST_F(Completions, ConsumerIndexIsNotTrusted) {
    for (const std::uint32_t bad : {5u, 0x80000000u, ~0u - 100}) {
        GuestCq small = a_.create_cq(4);
        GuestQp from = a_.create_qp(small, small);
        GuestQp to = b_.create_qp(b_cq_, b_cq_);
        connect_pair(from, to);
        store_release(small.control().consumer, bad);
        for (int i = 0; i < 5; ++i) {
            from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
        }
        settle();
        EXPECT_EQ(a_.eq().poll(), (Event{IBV_EVENT_CQ_ERR, small.id().value})) << bad;
        EXPECT_EQ(a_.eq().poll(), (Event{IBV_EVENT_QP_FATAL, from.id().value}));
    }
}

// Overrun on the receiving side; expect the receiver to fail and to report it to the sender.
TEST_F(Completions, OverrunOfAReceiver) {
    GuestCq small = b_.create_cq(2);
    GuestQp from = a_.create_qp(a_cq_, a_cq_);
    GuestQp to = b_.create_qp(b_cq_, small);
    connect_pair(from, to);
    for (int i = 0; i < 3; ++i) {
        to.post_recv({});
        from.post_send({});
    }
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_REM_OP_ERR);
    EXPECT_EQ(state_of(b_, to), IBV_QPS_ERR);
    settle();
    EXPECT_EQ(b_.eq().poll(), (Event{IBV_EVENT_CQ_ERR, small.id().value}));
}

// The same on UC; expect the sender not to notice it.
TEST_F(Completions, OverrunOfAnUnreliableReceiver) {
    GuestCq small = b_.create_cq(2);
    GuestQp from = a_.create_qp(a_cq_, a_cq_, {.type = hca::QpType::uc});
    GuestQp to = b_.create_qp(b_cq_, small, {.type = hca::QpType::uc});
    connect_pair(from, to);
    for (int i = 0; i < 3; ++i) {
        to.post_recv({});
        from.post_send({});
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    }
    settle();
    EXPECT_EQ(state_of(a_, from), IBV_QPS_RTS);
    EXPECT_EQ(state_of(b_, to), IBV_QPS_ERR);
}

// More completions than entries in a CQ that ignores overrun; expect no error.
TEST_F(Completions, IgnoredOverrun) {
    GuestCq small = a_.create_cq(4, ignoring_overrun());
    GuestQp from = a_.create_qp(small, a_cq_);
    GuestQp to = b_.create_qp(b_cq_, b_cq_);
    connect_pair(from, to);
    for (int i = 0; i < 10; ++i) {
        from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    }
    settle();
    EXPECT_FALSE(a_.eq().poll());
    EXPECT_EQ(state_of(a_, from), IBV_QPS_RTS);
}

// Complete on a CQ with timestamps and on one without; expect the clock's time, in order, and 0.
TEST_F(Completions, TimestampsWhereAskedFor) {
    GuestCq cq = a_.create_cq(16, stamped());
    GuestQp from = a_.create_qp(cq, a_cq_);
    GuestQp to = b_.create_qp(b_cq_, b_cq_);
    connect_pair(from, to);
    std::uint64_t last = a_.slice().clock();
    for (int i = 0; i < 3; ++i) {
        from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
        const auto completion = wait(cq);
        EXPECT_GE(completion.timestamp, last);
        last = completion.timestamp;
    }
    EXPECT_GE(a_.slice().clock(), last);
    write_nothing();
    EXPECT_EQ(wait(a_cq_).timestamp, 0u);
}

// Set the clock, as a restore does; expect timestamps to go on from there.
TEST_F(Completions, TheClockCanBeSet) {
    GuestCq cq = a_.create_cq(16, stamped());
    GuestQp from = a_.create_qp(cq, a_cq_);
    GuestQp to = b_.create_qp(b_cq_, b_cq_);
    connect_pair(from, to);
    constexpr std::uint64_t then = 1ull << 62;
    a_.slice().set_clock(then);
    from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    const auto timestamp = wait(cq).timestamp;
    EXPECT_GE(timestamp, then);
    EXPECT_LT(timestamp, then + 60'000'000'000);
}

class Resizes : public Completions {
  protected:
    Resizes() { connect_pair(from_, to_); }

    void write(int count) {
        for (int i = 0; i < count; ++i) {
            from_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
        }
        settle();
    }
    void expect(std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) {
            const auto completion = cq_.poll();
            ASSERT_TRUE(completion);
            EXPECT_EQ(completion->index, taken_++);
        }
        EXPECT_FALSE(cq_.ready());
    }

    GuestCq cq_ = a_.create_cq(8);
    GuestQp from_ = a_.create_qp(cq_, a_cq_);
    GuestQp to_ = b_.create_qp(b_cq_, b_cq_);
    std::uint32_t taken_ = 0;
};

// Resize up and down, at many positions of the ring, with entries in it; expect each entry once and
// in order, and the new size to take effect.
TEST_F(Resizes, KeepWhatWasNotTaken) {
    constexpr std::array<std::uint32_t, 6> depths{16, 4, 64, 8, 4, 32};
    for (int round = 0; round < 60; ++round) {
        const std::uint32_t depth = depths[static_cast<std::size_t>(round) % depths.size()];
        write(3);
        ASSERT_TRUE(a_.resize_cq(cq_, depth)) << depth;
        write(1);
        expect(4);
    }
    ASSERT_TRUE(a_.resize_cq(cq_, 4));
    write(4);
    EXPECT_EQ(state_of(a_, from_), IBV_QPS_RTS);
    write(1);
    EXPECT_EQ(state_of(a_, from_), IBV_QPS_ERR);
}

// Resize below the number of entries that were not taken; expect EINVAL and the old ring in use.
TEST_F(Resizes, TooSmall) {
    write(5);
    const auto resized = a_.resize_cq(cq_, 4);
    ASSERT_FALSE(resized);
    EXPECT_EQ(resized.error(), std::errc::invalid_argument);
    write(1);
    expect(6);
    EXPECT_TRUE(a_.resize_cq(cq_, 4));
}

// Resize with a consumer index beyond the producer's, and a CQ that has overrun; expect EINVAL.
TEST_F(Resizes, BadState) {
    store_release(cq_.control().consumer, 77u);
    EXPECT_EQ(a_.resize_cq(cq_, 32).error(), std::errc::invalid_argument);
    store_release(cq_.control().consumer, 0u);
    write(9);
    EXPECT_EQ(a_.resize_cq(cq_, 32).error(), std::errc::invalid_argument);
}

// Resize an armed CQ; expect the event that was asked for, and no other.
TEST_F(Resizes, StaysArmed) {
    cq_.arm(false);
    ASSERT_TRUE(a_.resize_cq(cq_, 16));
    write(1);
    EXPECT_EQ(a_.eq().poll(), (Event{VRDMA_EQE_COMPLETION, cq_.id().value}));
    ASSERT_TRUE(a_.resize_cq(cq_, 32));
    write(1);
    EXPECT_FALSE(a_.eq().poll());
}

// Migrate after a resize; expect completions to go on in the new ring.
TEST_F(Resizes, AndMigrates) {
    write(2);
    ASSERT_TRUE(a_.resize_cq(cq_, 16));
    a_.migrate(host_of(a_));
    write(2);
    expect(4);
}

// Moderate by number; expect the event with the last entry of that number, and not before.
TEST_F(Completions, ModeratedByCount) {
    ASSERT_TRUE(a_.slice().moderate_cq(a_cq_.id(), {.count = 3, .period_us = 0}));
    for (int round = 0; round < 3; ++round) {
        a_cq_.arm(false);
        write_nothing();
        write_nothing();
        settle();
        EXPECT_FALSE(a_.eq().poll());
        write_nothing();
        settle();
        EXPECT_EQ(a_.eq().poll(), completion_event());
    }
}

// Moderate by time; expect no event before the period has passed, and then one for all entries.
TEST_F(Completions, ModeratedByTime) {
    constexpr std::chrono::milliseconds period{20};
    ASSERT_TRUE(a_.slice().moderate_cq(a_cq_.id(), {.count = 0, .period_us = 20'000}));
    a_cq_.arm(false);
    const auto before = std::chrono::steady_clock::now();
    write_nothing();
    write_nothing();
    std::optional<Event> event;
    while (!event && std::chrono::steady_clock::now() - before < std::chrono::seconds{20}) {
        poll();
        event = a_.eq().poll();
    }
    EXPECT_GE(std::chrono::steady_clock::now() - before, period);
    EXPECT_EQ(event, completion_event());
    EXPECT_FALSE(a_.eq().poll());
}

// Change the moderation, or migrate, while an event waits; expect the event at once.
TEST_F(Completions, ModerationThatEnds) {
    const auto defer = [&] {
        ASSERT_TRUE(a_.slice().moderate_cq(a_cq_.id(), {.count = 1000, .period_us = 0}));
        a_cq_.arm(false);
        write_nothing();
        settle();
        EXPECT_FALSE(a_.eq().poll());
    };
    defer();
    ASSERT_TRUE(a_.slice().moderate_cq(a_cq_.id(), {}));
    settle();
    EXPECT_EQ(a_.eq().poll(), completion_event());
    defer();
    a_.migrate(host_of(a_));
    settle();
    EXPECT_EQ(a_.eq().poll(), completion_event());
}

// Let events of both devices wait, then change the moderation of one's CQ, and freeze it; expect
// the other's event to go on waiting.
TEST_F(Completions, ModerationEndsForNobodyElse) {
    ASSERT_TRUE(a_.slice().moderate_cq(a_cq_.id(), {.count = 1000, .period_us = 0}));
    ASSERT_TRUE(b_.slice().moderate_cq(b_cq_.id(), {.count = 1000, .period_us = 0}));
    a_cq_.arm(false);
    b_cq_.arm(false);
    write_nothing();
    b_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    settle();
    ASSERT_TRUE(b_.slice().moderate_cq(b_cq_.id(), {.count = 2000, .period_us = 0}));
    b_.slice().freeze();
    b_.thaw();
    settle();
    EXPECT_TRUE(b_.eq().poll());
    EXPECT_FALSE(a_.eq().poll());
}

// Let the events of 300 CQs wait for the same time; expect each once.
TEST_F(Completions, ManyThatAreModeratedByTime) {
    constexpr unsigned count = 300;
    std::vector<GuestCq> cqs;
    std::vector<std::pair<GuestQp, GuestQp>> qps;
    for (unsigned i = 0; i < count; ++i) {
        cqs.push_back(a_.create_cq(16));
        ASSERT_TRUE(a_.slice().moderate_cq(cqs.back().id(), {.count = 0, .period_us = 1000}));
        qps.emplace_back(a_.create_qp(cqs.back(), cqs.back()), b_.create_qp(b_cq_, b_cq_));
        connect_pair(qps.back().first, qps.back().second);
        cqs.back().arm(false);
    }
    for (auto& [from, to] : qps) {
        from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    }
    std::set<std::uint32_t> told;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    while (told.size() < count && std::chrono::steady_clock::now() < limit) {
        poll();
        if (const auto event = a_.eq().poll()) {
            EXPECT_TRUE(told.insert(event->id).second);
        }
    }
    EXPECT_EQ(told.size(), count);
}

class FullEventQueue : public Completions {
  protected:
    static constexpr std::uint32_t depth = 16;

    FullEventQueue() { EXPECT_TRUE(a_.slice().create_eq({EqId{9}, buffer_.pages(), depth, 2})); }

    GuestCq create_cq() {
        const Cqn id{++next_};
        Buffer pages = a_.pages().allocate(VRDMA_QUEUE_CONTROL_SIZE + 64 * sizeof(vrdma_cqe));
        EXPECT_TRUE(a_.slice().create_cq({id, pages.pages(), 64, EqId{9}}));
        return {id, std::move(pages), 64};
    }

    Buffer buffer_ = a_.pages().allocate(sizeof(vrdma_eq_control) + depth * sizeof(vrdma_eqe));
    GuestEq eq_{EqId{9}, buffer_, depth};
    std::uint32_t next_ = 0x8000;
};

// More CQs have events than the event queue has room for; expect the rest once the guest has taken
// some, and one event for each CQ.
TEST_F(FullEventQueue, EventsWaitForRoom) {
    constexpr std::uint32_t count = depth + 5;
    std::vector<GuestCq> cqs;
    for (std::uint32_t i = 0; i < count; ++i) {
        cqs.push_back(create_cq());
        GuestQp from = a_.create_qp(cqs.back(), cqs.back());
        GuestQp to = b_.create_qp(b_cq_, b_cq_);
        connect_pair(from, to);
        cqs.back().arm(false);
        from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
        settle();
    }
    EXPECT_EQ(load_acquire(cqs.back().control().fired), 0u);
    const unsigned interrupts = a_.interrupts(2);
    for (std::uint32_t i = 0; i < count; ++i) {
        EXPECT_EQ(eq_.poll(), (Event{VRDMA_EQE_COMPLETION, cqs[i].id().value}));
        settle();
    }
    EXPECT_FALSE(eq_.poll());
    EXPECT_GT(a_.interrupts(2), interrupts);
    EXPECT_NE(load_acquire(cqs.back().control().fired), 0u);
}

// Put the consumer index out of range; expect that no event is written, and that events continue
// once it is valid again.
TEST_F(FullEventQueue, ConsumerIndexIsNotTrusted) {
    GuestCq cq = create_cq();
    GuestQp from = a_.create_qp(cq, cq);
    GuestQp to = b_.create_qp(b_cq_, b_cq_);
    connect_pair(from, to);
    store_release(eq_.control().consumer, 3u);
    cq.arm(false);
    from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    EXPECT_EQ(wait(cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(a_.interrupts(2), 0u);
    store_release(eq_.control().consumer, 0u);
    settle();
    EXPECT_TRUE(eq_.poll());
}

// Destroy CQ, QP and event queue while their events wait; expect none to be written afterwards.
TEST_F(FullEventQueue, DestroyedObjectsLeaveTheLine) {
    store_release(eq_.control().consumer, 3u);
    GuestCq cq = create_cq();
    GuestQp from = a_.create_qp(cq, cq);
    GuestQp to = b_.create_qp(b_cq_, b_cq_);
    connect_pair(from, to);
    cq.arm(false);
    from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    wait(cq);
    settle();
    a_.slice().destroy_qp(from.id());
    a_.slice().destroy_cq(cq.id());
    store_release(eq_.control().consumer, 0u);
    settle();
    EXPECT_FALSE(eq_.poll());
    a_.slice().destroy_eq(EqId{9});
}

} // namespace
} // namespace vrdma::test
