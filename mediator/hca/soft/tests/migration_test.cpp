// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Freezing a slice, and moving its state to another slice with the same memory.
#include <sys/mman.h>

#include <optional>
#include <thread>

#include "mediator/base/step_time.h"
#include "mediator/hca/soft/tests/two_guests.h"
#include "mediator/memory/tests/snare.h"

namespace vrdma::test {
namespace {

class Migration : public ConnectedPair {
  protected:
    void send_word(std::uint32_t imm) {
        b_qp_.post_recv({});
        a_qp_.post_send({.opcode = VRDMA_SQ_SEND_WITH_IMM, .imm = imm});
    }
    void reconnect() {
        for (auto* const side : {&a_, &b_}) {
            GuestQp& qp = side == &a_ ? a_qp_ : b_qp_;
            ASSERT_TRUE(side->slice().modify_qp(qp.id(), state_attr(IBV_QPS_RESET)));
            qp.reset();
        }
        connect_pair(a_qp_, b_qp_);
    }
    // Connects the sender again, with seconds until its retries are over: a test may lose its core
    // for longer than the usual two milliseconds.
    void connect_patiently() {
        reconnect();
        ASSERT_TRUE(a_.slice().modify_qp(a_qp_.id(), state_attr(IBV_QPS_RESET)));
        a_qp_.reset();
        ASSERT_TRUE(a_.slice().modify_qp(a_qp_.id(), init_attr()));
        ASSERT_TRUE(a_.slice().modify_qp(a_qp_.id(), rtr_attr(b_.gid(), b_qp_.id())));
        vrdma_qp_attr rts = rts_attr();
        rts.timeout = 17; // 0.5 s
        ASSERT_TRUE(a_.slice().modify_qp(a_qp_.id(), rts));
    }
    void write_pattern() {
        a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                         .flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
                         .inline_data = Buffer::pattern(1, 8),
                         .rkey = b_mr_.key,
                         .raddr = b_mr_.start});
    }
};

// Post while the slice is frozen; expect no effect and no change of guest memory. After thaw, all
// is executed without another doorbell.
TEST_F(Migration, FrozenSliceTouchesNothing) {
    a_.slice().freeze();
    b_qp_.post_recv({});
    a_qp_.post_send({});
    const auto before = a_qp_.buffer().read(0, a_qp_.buffer().size());
    settle();
    EXPECT_FALSE(a_cq_.poll());
    EXPECT_EQ(a_qp_.buffer().read(0, a_qp_.buffer().size()), before);
    EXPECT_EQ(load_acquire(a_.status().need_kick), 1u);
    a_.thaw();
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
}

// Freeze a device with many QPs and take its memory away, so that an access to it takes longer than
// a step may; expect a step of the thaw to end with the first access, and the next steps to do the
// rest.
TEST_F(Migration, AStepOfAThawEndsWhenItsTimeIsOver) {
    constexpr int count = 8;
    std::vector<GuestQp> qps;
    qps.reserve(count);
    for (int i = 0; i < count; ++i) {
        qps.push_back(a_.create_qp(a_cq_, a_cq_));
    }
    const Iova last{a_.pages().allocate(VRDMA_PAGE_SIZE).pages().blocks.front()};
    const Iova first{qps.front().buffer().pages().blocks.front()};
    const std::uint64_t size = raw(last) - raw(first);
    a_.slice().freeze();
    std::byte* const memory = a_.memory().at(first, size);
    ASSERT_EQ(::madvise(memory, size, MADV_REMOVE), 0);
    std::optional<Snare> snare{std::in_place, memory, size};
    bool more = false;
    std::thread control{[&] { more = a_.slice().thaw(); }};
    const std::uint64_t waits = snare->caught();
    const StepTime time;
    while (!time.over()) {
    }
    snare->let_go(waits);
    snare.reset();
    control.join();
    EXPECT_TRUE(more);
    a_.thaw();
    send_word(1);
    EXPECT_EQ(wait(b_cq_).imm, 1u);
}

// Send to a frozen slice; expect the sender to retry until the slice thaws, and the slice's memory
// to stay unchanged until then.
TEST_F(Migration, PeersOfAFrozenSliceTryAgain) {
    b_.slice().freeze();
    write_pattern();
    poll();
    EXPECT_EQ(b_mr_.buffer.read(0, 8), std::vector<std::byte>(8));
    b_.thaw();
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(b_mr_.buffer.read(0, 8), Buffer::pattern(1, 8));
}

// A slice gives way because it continues elsewhere, and then thaws here after all. Send to it
// meanwhile; expect the sender to find it again.
TEST_F(Migration, ASliceThatGaveWayIsFoundAgain) {
    connect_patiently();
    b_.slice().freeze();
    b_.slice().give_way();
    write_pattern();
    poll();
    b_.thaw();
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(b_mr_.buffer.read(0, 8), Buffer::pattern(1, 8));
}

// Migrate each side in turn between messages, beyond the rings' ends; expect indices and phases to
// continue.
TEST_F(Migration, QueuesGoOnWhereTheyWere) {
    for (std::uint32_t i = 0; i < 40; ++i) {
        Guest& guest = i % 2 == 0 ? a_ : b_;
        guest.migrate(host_of(guest));
        send_word(i);
        const Completion received = wait(b_cq_);
        EXPECT_EQ(received.imm, i);
        EXPECT_EQ(received.index, i);
        EXPECT_EQ(wait(a_cq_).index, i);
    }
}

// Migrate to another HCA with posted, armed, rung and failed objects; expect the same results as
// without migration.
TEST_F(Migration, CarriesWhatIsPending) {
    auto other = make_hca({});
    GuestQp failed = a_.create_qp(a_cq_, a_cq_);
    ASSERT_TRUE(a_.slice().modify_qp(failed.id(), state_attr(IBV_QPS_ERR)));
    settle();
    a_cq_.arm(false);
    b_qp_.post_recv({});
    a_qp_.post_send({});
    a_.migrate(*other);
    b_.migrate(*other);
    failed.post_recv({});
    hca_ = std::move(other);
    const Completion first = wait(a_cq_);
    const Completion second = wait(a_cq_);
    EXPECT_NE(first.qpn, second.qpn);
    for (const Completion& completion : {first, second}) {
        EXPECT_EQ(completion.status,
                  completion.qpn == failed.id().value ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
    }
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
    settle();
    EXPECT_EQ(a_.eq().poll(), (Event{VRDMA_EQE_COMPLETION, a_cq_.id().value}));
    EXPECT_EQ(state_of(a_, failed), IBV_QPS_ERR);
    EXPECT_EQ(a_.slice().query_qp(a_qp_.id())->dest_qpn, b_qp_.id().value);
}

// Migrate the sender, then the receiver, in the middle of a long message; expect all of its bytes.
TEST_F(Migration, LongMessageStartsAgain) {
    constexpr std::uint32_t length = 3'000'000;
    const MemoryRegion from = a_.register_mr(length);
    const MemoryRegion to = b_.register_mr(length);
    from.buffer.fill(7);
    const vrdma_sge source = from.sge();
    const vrdma_sge target = to.sge();
    b_qp_.post_recv({&target, 1});
    a_qp_.post_send({.sges = {&source, 1}});
    poll();
    poll();
    a_.migrate(host_of(a_));
    poll();
    poll();
    b_.migrate(host_of(b_));
    EXPECT_EQ(wait(b_cq_).byte_len, length);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(to.buffer.read(0, length), from.buffer.read(0, length));
}

// Migrate with half of the retries used up; expect the count to continue, not to restart.
TEST_F(Migration, RetriesAreCountedOn) {
    ASSERT_TRUE(b_.slice().modify_qp(b_qp_.id(), state_attr(IBV_QPS_ERR)));
    a_qp_.post_send({});
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    while (a_.slice().counters().value[VRDMA_COUNTER_ACK_TIMEOUTS] < 2 &&
           std::chrono::steady_clock::now() < limit) {
        poll();
    }
    a_.slice().freeze();
    const hca::QpState state = a_.slice().save_qp(a_qp_.id());
    EXPECT_EQ(state.sq_started, 1);
    EXPECT_LT(state.retries_left, 7);
    EXPECT_EQ(state.sq_head, 0u);
    a_.thaw();
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_RETRY_EXC_ERR);
}

// Exchange a message, and migrate the sender after its peer has failed, or was reset. Send; expect
// an error at once, because the peer's device runs and would have restored the peer.
TEST_F(Migration, APeerThatIsNotRestoredIsMissedAtOnce) {
    if (across_hosts()) {
        GTEST_SKIP() << "the network does not say why there is no answer";
    }
    for (const auto state : {IBV_QPS_ERR, IBV_QPS_RESET}) {
        send_word(1);
        EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
        ASSERT_TRUE(b_.slice().modify_qp(b_qp_.id(), state_attr(state)));
        a_.migrate(host_of(a_));
        a_qp_.post_send({});
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_RETRY_EXC_ERR);
        EXPECT_EQ(a_.slice().counters().value[VRDMA_COUNTER_ACK_TIMEOUTS], 0u);
        reconnect();
    }
}

// Execute requests that no peer sees, and migrate their QP before its peer is ready. Send; expect
// the message to arrive when the peer is ready, as it would if the QP had stayed.
TEST_F(Migration, LocalRequestsDoNotMakeAPeerExpected) {
    connect_patiently();
    const MemoryRegion region = a_.register_mr(
        VRDMA_PAGE_SIZE, {.access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND});
    const vrdma_sq_bind bind{region.start, region.buffer.size(), region.key.value, 0};
    a_qp_.post_send(
        {.opcode = VRDMA_SQ_BIND_MW, .rkey = a_.allocate_mw(IBV_MW_TYPE_2), .bind = &bind});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    ASSERT_TRUE(b_.slice().modify_qp(b_qp_.id(), state_attr(IBV_QPS_RESET)));
    b_qp_.reset();
    a_.migrate(host_of(a_));
    write_pattern();
    settle();
    EXPECT_FALSE(a_cq_.poll());
    connect(b_, b_qp_, a_.gid(), a_qp_.id());
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(b_mr_.buffer.read(0, 8), Buffer::pattern(1, 8));
}

// Exchange a message, take the peer away, and migrate the sender; expect it to wait for the peer,
// which may be about to be restored, and to go on with it.
TEST_F(Migration, APeerThatIsAwayIsAwaited) {
    connect_patiently();
    send_word(1);
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    b_.slice().freeze();
    b_.slice().give_way();
    a_.migrate(host_of(a_));
    write_pattern();
    settle();
    EXPECT_FALSE(a_cq_.poll());
    b_.thaw();
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
}

// Save and restore each kind of object; expect the same state again.
TEST_F(Migration, RoundTrip) {
    send_word(1);
    wait(a_cq_);
    a_cq_.arm(true);
    a_.slice().freeze();
    const hca::QpState qp = a_.slice().save_qp(a_qp_.id());
    const hca::CqState cq = a_.slice().save_cq(a_cq_.id());
    const hca::EqState eq = a_.slice().save_eq(a_.eq().id());
    EXPECT_EQ(qp.sq_head, 1u);
    EXPECT_EQ(cq.producer, 1u);
    ASSERT_TRUE(a_.slice().restore_qp(a_qp_.id(), qp, {}));
    ASSERT_TRUE(a_.slice().restore_cq(a_cq_.id(), cq));
    ASSERT_TRUE(a_.slice().restore_eq(a_.eq().id(), eq));
    const hca::QpState qp_again = a_.slice().save_qp(a_qp_.id());
    const hca::CqState cq_again = a_.slice().save_cq(a_cq_.id());
    const hca::EqState eq_again = a_.slice().save_eq(a_.eq().id());
    EXPECT_EQ(std::memcmp(&qp, &qp_again, sizeof(qp)), 0);
    EXPECT_EQ(std::memcmp(&cq, &cq_again, sizeof(cq)), 0);
    EXPECT_EQ(std::memcmp(&eq, &eq_again, sizeof(eq)), 0);
}

// States that no slice saves; expect EINVAL for each, and the object to be as it was.
TEST_F(Migration, BadStatesAreRefused) {
    a_.slice().freeze();
    const hca::QpState good = a_.slice().save_qp(a_qp_.id());
    const auto refused = [&](auto&& change) {
        hca::QpState bad = good;
        change(bad);
        return a_.slice().restore_qp(a_qp_.id(), bad, {}).error() == std::errc::invalid_argument;
    };
    EXPECT_TRUE(refused([](auto& state) { state.attr.state = 7; }));
    EXPECT_TRUE(refused([](auto& state) { state.doorbell_slot = 63; }));
    EXPECT_TRUE(refused([](auto& state) { state.doorbell_slot = 4096; }));
    EXPECT_TRUE(refused([](auto& state) { state.events = 1u << 31; }));
    EXPECT_TRUE(refused([](auto& state) { state.retries_left = 8; }));
    EXPECT_TRUE(refused([](auto& state) { state.rnr_retries_left = 8; }));
    EXPECT_TRUE(refused([](auto& state) { state.sq_started = 2; }));
    EXPECT_TRUE(refused([](auto& state) { state.established = 2; }));
    EXPECT_TRUE(refused([](auto& state) { state.answered = 2; }));
    EXPECT_TRUE(refused([](auto& state) { state.holds_receive = 1; })); // without an SRQ
    EXPECT_TRUE(refused([](auto& state) { state.last_wqe_due = 1; }));
    EXPECT_FALSE(a_.slice().restore_cq(a_cq_.id(), {.fired = 1}));
    EXPECT_FALSE(a_.slice().restore_cq(a_cq_.id(), {.error = 2}));
    EXPECT_FALSE(a_.slice().restore_cq(a_cq_.id(), {.events = 4}));
    EXPECT_FALSE(a_.slice().restore_eq(a_.eq().id(), {.port_down = 2}));
    a_.thaw();
    send_word(1);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
}

} // namespace
} // namespace vrdma::test
