// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A poller with its own thread sleeps and forgets QPs as eagerly as it can. No post, no arming and
// no call of the control thread may be lost. A lost one hangs the test until its limit.
#include <random>
#include <thread>

#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

using namespace std::chrono_literals;

hca::soft::Config eager() {
    hca::soft::Config config;
    config.poll = {0us, 0us};
    config.hot_idle = 0us;
    config.hot_queues = 2;
    config.pollers = pollers();
    return config;
}

template <typename Done>
bool wait_until(Done&& done) {
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (!done()) {
        if (std::chrono::steady_clock::now() > limit) {
            return false;
        }
        std::this_thread::yield();
    }
    return true;
}

class Wake : public ::testing::Test {
  protected:
    // Pauses so that posts find the poller awake, falling asleep and asleep.
    void pause() {
        const auto until =
            std::chrono::steady_clock::now() + std::chrono::microseconds{random_() % 60};
        while (std::chrono::steady_clock::now() < until) {
        }
    }

    GuestQp create_qp(GuestCq& a_cq, GuestCq& b_cq) {
        GuestQp from = a_.create_qp(a_cq, a_cq);
        const GuestQp to = b_.create_qp(b_cq, b_cq);
        connect_both(a_, from, b_, to);
        return from;
    }

    std::unique_ptr<hca::soft::SoftHca> hca_ = std::move(*hca::soft::SoftHca::create(eager()));
    Guest a_{*hca_, "a", ipv4_gid(1)};
    Guest b_{*hca_, "b", ipv4_gid(2)};
    GuestCq a_cq_ = a_.create_cq();
    GuestCq b_cq_ = b_.create_cq();
    std::mt19937 random_{3}; // NOLINT(cert-msc32-c,cert-msc51-cpp): failures must come again
};

// Leave the device alone; expect the poller to ask for kicks, and then one kick for a post.
TEST_F(Wake, SleepingPollerAsksForAKick) {
    GuestQp qp = create_qp(a_cq_, b_cq_);
    ASSERT_TRUE(wait_until([&] { return load_acquire(a_.status().need_kick) != 0; }));
    const unsigned kicks = a_.kicks();
    qp.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    ASSERT_TRUE(wait_until([&] { return a_cq_.poll().has_value(); }));
    EXPECT_EQ(a_.kicks(), kicks + 1);
}

// Post to five QPs at random moments; expect each to complete.
TEST_F(Wake, NoPostIsLost) {
    constexpr int count = 5;
    std::vector<GuestQp> qps;
    qps.reserve(count);
    for (int i = 0; i < count; ++i) {
        qps.push_back(create_qp(a_cq_, b_cq_));
    }
    for (int i = 0; i < 5000; ++i) {
        pause();
        qps[random_() % qps.size()].post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
        ASSERT_TRUE(wait_until([&] { return a_cq_.poll().has_value(); })) << i;
    }
    EXPECT_GT(a_.kicks(), 0u);
}

// Receives posted to a QP in error, at random moments; expect each to be flushed.
TEST_F(Wake, NoReceiveToFlushIsLost) {
    GuestQp qp = create_qp(a_cq_, b_cq_);
    ASSERT_TRUE(a_.slice().modify_qp(qp.id(), state_attr(IBV_QPS_ERR)));
    for (int i = 0; i < 3000; ++i) {
        pause();
        qp.post_recv({});
        ASSERT_TRUE(wait_until([&] { return a_cq_.poll().has_value(); })) << i;
    }
}

// Arm, poll once more, then wait only for the event, as ibv_get_cq_event does; expect an event
// whenever the poll found nothing. The event of an earlier completion may come late. In that case,
// repeat.
TEST_F(Wake, NoEventIsLost) {
    GuestQp qp = create_qp(a_cq_, b_cq_);
    constexpr unsigned count = 3000;
    unsigned completed = 0;
    const auto take_all = [&] {
        while (a_cq_.poll()) {
            ++completed;
        }
    };
    for (unsigned i = 0; i < count; ++i) {
        qp.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
        pause();
        a_cq_.arm(false);
        take_all();
        while (completed <= i) {
            ASSERT_TRUE(wait_until([&] { return a_.eq().poll().has_value(); })) << i;
            a_cq_.arm(false);
            take_all();
        }
        ASSERT_EQ(completed, i + 1);
        while (a_.eq().poll()) {
        }
    }
    EXPECT_GT(a_.interrupts(1), 0u);
}

// Calls of the control thread at random moments, with traffic beside them; expect all to return.
TEST_F(Wake, NoCallIsLost) {
    GuestQp qp = create_qp(a_cq_, b_cq_);
    for (int i = 0; i < 2000; ++i) {
        pause();
        qp.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
        EXPECT_EQ(state_of(a_, qp), IBV_QPS_RTS);
        ASSERT_TRUE(wait_until([&] { return a_cq_.poll().has_value(); }));
    }
}

// Only a timer can wake the poller; expect the retries to continue.
TEST_F(Wake, TimersWakeASleeper) {
    GuestQp qp = a_.create_qp(a_cq_, a_cq_);
    connect(a_, qp, ipv4_gid(77), Qpn{5});
    qp.post_send({});
    std::optional<Completion> failed;
    ASSERT_TRUE(wait_until([&] { return (failed = a_cq_.poll()).has_value(); }));
    EXPECT_EQ(failed->status, IBV_WC_RETRY_EXC_ERR);
}

// Two guests, each with a thread of its own, send to each other as fast as they can; expect every
// message, in order, with its bytes.
TEST_F(Wake, GuestsOnTheirOwnThreads) {
    constexpr std::uint32_t count = 5000;
    constexpr std::uint32_t window = 8;
    constexpr std::uint64_t slot = 64;
    GuestQp a_qp = a_.create_qp(a_cq_, a_cq_);
    GuestQp b_qp = b_.create_qp(b_cq_, b_cq_);
    connect_both(a_, a_qp, b_, b_qp);
    const MemoryRegion a_mr = a_.register_mr(window * slot);
    const MemoryRegion b_mr = b_.register_mr(window * slot);

    const auto play = [](GuestQp& qp, GuestCq& cq, const MemoryRegion& region) {
        const auto post_receive = [&](std::uint32_t i) {
            const vrdma_sge to = region.sge(i % window * slot, slot);
            qp.post_recv({&to, 1});
        };
        for (std::uint32_t i = 0; i < window; ++i) {
            post_receive(i);
        }
        std::uint32_t sent = 0;
        std::uint32_t acknowledged = 0;
        std::uint32_t received = 0;
        return wait_until([&] {
            if (sent < count && sent - acknowledged < window) {
                const std::uint64_t word = sent * 3ull;
                qp.post_send({.flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
                              .inline_data = std::as_bytes(std::span{&word, 1})});
                ++sent;
            }
            while (const auto completion = cq.poll()) {
                EXPECT_EQ(completion->status, IBV_WC_SUCCESS);
                if (!completion->receive) {
                    ++acknowledged;
                    continue;
                }
                EXPECT_EQ(*region.buffer.at<std::uint64_t>(received % window * slot),
                          received * 3ull);
                ++received;
                if (received + window <= count) {
                    post_receive(received + window - 1);
                }
            }
            return received == count && acknowledged == count;
        });
    };
    bool a_done = false;
    std::thread a_thread{[&] { a_done = play(a_qp, a_cq_, a_mr); }};
    const bool b_done = play(b_qp, b_cq_, b_mr);
    a_thread.join();
    EXPECT_TRUE(a_done);
    EXPECT_TRUE(b_done);
}

// RDMA atomics and the guest's own atomics change one word; expect the sum of all.
TEST_F(Wake, AtomicsAreAtomicAgainstTheGuestsOwn) {
    constexpr std::uint64_t count = 5000;
    GuestQp a_qp = create_qp(a_cq_, b_cq_);
    const MemoryRegion result = a_.register_mr(64);
    const MemoryRegion target = b_.register_mr(64);
    auto& word = *target.buffer.at<std::uint64_t>(0);
    std::thread owner{[&] {
        for (std::uint64_t i = 0; i < count; ++i) {
            std::atomic_ref<std::uint64_t>(word).fetch_add(1);
        }
    }};
    const vrdma_sge to = result.sge(0, 8);
    for (std::uint64_t i = 0; i < count; ++i) {
        a_qp.post_send({.opcode = VRDMA_SQ_ATOMIC_FETCH_AND_ADD,
                        .sges = {&to, 1},
                        .rkey = target.key,
                        .raddr = target.start,
                        .compare_add = 1});
        ASSERT_TRUE(wait_until([&] { return a_cq_.poll().has_value(); }));
    }
    owner.join();
    EXPECT_EQ(load_acquire(word), 2 * count);
}

} // namespace
} // namespace vrdma::test
