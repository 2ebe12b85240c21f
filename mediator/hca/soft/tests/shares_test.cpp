// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The share of a poller that a device gets beside another that wants all of it, counted in rounds
// and bytes.
#include <gtest/gtest.h>

#include "mediator/hca/soft/slice/doorbells.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/tests/guest/guest.h"

namespace vrdma::test {
namespace {

hca::soft::Config without_threads() {
    hca::soft::Config config;
    config.threads = false;
    return config;
}

// A device whose QPs write to other QPs of the same device.
class Greedy {
  public:
    static constexpr std::uint32_t depth = 64;

    Greedy(hca::Hca& hca, std::uint8_t n, unsigned queue_pairs)
        : guest_{hca, "greedy", ipv4_gid(n), std::move(*ArenaMemory::create(1ull << 30))},
          cq_{guest_.create_cq(1 << 16)},
          region_{guest_.register_mr(1 << 20, {.scattered = false})} {
        for (unsigned i = 0; i < queue_pairs; ++i) {
            senders_.push_back(guest_.create_qp(cq_, cq_, {.sq_depth = depth}));
            receivers_.push_back(guest_.create_qp(cq_, cq_, {.sq_depth = 1}));
            connect_both(guest_, senders_.back(), guest_, receivers_.back());
        }
    }

    void write(unsigned times, std::uint32_t bytes) {
        const vrdma_sge sge = region_.sge(0, bytes);
        for (GuestQp& qp : senders_) {
            for (unsigned i = 0; i < times; ++i) {
                qp.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                              .sges = {&sge, 1},
                              .rkey = region_.key,
                              .raddr = region_.start + (512 << 10)});
            }
        }
    }

    // Only completed messages count.
    std::uint64_t written() { return guest_.slice().counters().value[VRDMA_COUNTER_TX_BYTES]; }
    std::uint64_t messages() { return guest_.slice().counters().value[VRDMA_COUNTER_TX_MESSAGES]; }
    hca::Slice& slice() { return guest_.slice(); }

  private:
    Guest guest_;
    GuestCq cq_;
    MemoryRegion region_;
    std::vector<GuestQp> senders_;
    std::vector<GuestQp> receivers_;
};

class Shares : public ::testing::Test {
  protected:
    void poll(unsigned rounds) {
        for (unsigned i = 0; i < rounds; ++i) {
            hca_->poll();
        }
    }

    std::unique_ptr<hca::soft::SoftHca> hca_ =
        std::move(*hca::soft::SoftHca::create(without_threads()));
};

class Victim : public Shares {
  protected:
    Victim() { connect_both(a_, a_qp_, b_, b_qp_); }

    // Rounds until a WRITE of 8 bytes has its completion.
    unsigned rounds_of_a_write() {
        const std::uint64_t value = 1;
        a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                         .flags = VRDMA_SQ_INLINE | VRDMA_SQ_SIGNALED,
                         .inline_data = std::as_bytes(std::span{&value, 1}),
                         .rkey = region_.key,
                         .raddr = region_.start});
        unsigned rounds = 0;
        while (!a_cq_.ready() && rounds < 10000) {
            hca_->poll();
            ++rounds;
        }
        EXPECT_EQ(a_cq_.poll()->status, IBV_WC_SUCCESS);
        return rounds;
    }

    Guest a_{*hca_, "a", ipv4_gid(1)};
    Guest b_{*hca_, "b", ipv4_gid(2)};
    GuestCq a_cq_ = a_.create_cq(64);
    GuestCq b_cq_ = b_.create_cq(64);
    GuestQp a_qp_ = a_.create_qp(a_cq_, a_cq_);
    GuestQp b_qp_ = b_.create_qp(b_cq_, b_cq_);
    MemoryRegion region_ = b_.register_mr(4096);
};

// The QPs of another device each have 8 WRITEs of 256 KiB: 4 GiB wait.
TEST_F(Victim, WaitsForOneTurnOfManyQueuePairs) {
    Greedy greedy{*hca_, 3, 2048};
    rounds_of_a_write();
    greedy.write(8, 256 << 10);
    poll(1);
    for (int i = 0; i < 100; ++i) {
        EXPECT_LE(rounds_of_a_write(), 2u);
    }
}

// The same, counted in bytes: each message is one piece.
TEST_F(Victim, WaitsForFewBytesOfManyQueuePairs) {
    Greedy greedy{*hca_, 3, 512};
    rounds_of_a_write();
    greedy.write(64, 4 << 10);
    poll(1);
    constexpr unsigned times = 100;
    const std::uint64_t before = greedy.written();
    for (unsigned i = 0; i < times; ++i) {
        rounds_of_a_write();
    }
    EXPECT_LE(greedy.written() - before, times * 2 * (36u << 10));
}

// The victim's QP is cold, and only its doorbell signals work.
TEST_F(Victim, WhoRingsWaitsForFewTurns) {
    Greedy greedy{*hca_, 3, 512};
    greedy.write(8, 256 << 10);
    poll(10);
    EXPECT_LE(rounds_of_a_write(), 6u);
}

// A process rings doorbells all the time, although only one of its QPs has work; expect another
// process of the same guest, with another doorbell page, to be served, and that QP as well.
TEST_F(Victim, IsHeardBesideAPageThatNeverStopsRinging) {
    constexpr std::uint32_t page = 2;
    constexpr std::uint32_t slots_per_line = 1u << VRDMA_DOORBELL_LINE_SHIFT;
    std::vector<GuestQp> on_the_page;
    for (std::uint32_t i = 0; i < 20 * slots_per_line; ++i) {
        on_the_page.push_back(a_.create_qp(a_cq_, a_cq_, {.sq_depth = 16}, page));
    }
    GuestQp& last = on_the_page.back();
    const GuestQp peer = b_.create_qp(b_cq_, b_cq_);
    connect_both(a_, last, b_, peer);
    last.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    unsigned heard = 0;
    for (unsigned rounds = 0; rounds < 1000 && heard < 2; ++rounds) {
        for (std::uint32_t line = 1; line <= 10; ++line) {
            a_.doorbell(page, line * slots_per_line).ring();
        }
        hca_->poll();
        heard += a_cq_.poll() ? 1 : 0;
    }
    EXPECT_EQ(heard, 2u);
}

// A neighbour rings all the time, on many pages; expect a cold QP to be served as soon as beside
// one page.
TEST_F(Victim, IsHeardBesideManyPages) {
    Guest other{*hca_, "other", ipv4_gid(3)};
    const GuestCq cq = other.create_cq(64);
    std::vector<GuestQp> queue_pairs;
    for (std::uint32_t page = 1; page < Guest::doorbell_pages; ++page) {
        queue_pairs.push_back(other.create_qp(cq, cq, {}, page));
    }
    poll(1000); // no QP is hot any more
    const std::uint64_t value = 1;
    a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                     .flags = VRDMA_SQ_INLINE | VRDMA_SQ_SIGNALED,
                     .inline_data = std::as_bytes(std::span{&value, 1}),
                     .rkey = region_.key,
                     .raddr = region_.start});
    unsigned rounds = 0;
    for (; !a_cq_.ready() && rounds < 1000; ++rounds) {
        for (std::uint32_t page = 1; page < Guest::doorbell_pages; ++page) {
            other.doorbell(page, VRDMA_DOORBELL_FIRST_SLOT).ring();
        }
        hca_->poll();
    }
    EXPECT_LE(rounds, 8u);
}

// QPs that share a doorbell slot. A guest can put all of its QPs on one.
class SharedSlot : public ::testing::Test {
  protected:
    static constexpr std::uint32_t slot = 1000;
    static constexpr std::size_t many = 8 * hca::soft::Doorbells::queue_pairs_a_turn;

    static constexpr std::chrono::milliseconds hot_idle{300};

    // Each QP that is woken becomes hot for a while, which its control words show.
    SharedSlot() {
        for (std::size_t i = 0; i < many; ++i) {
            queue_pairs_.push_back(guest_.create_qp(cq_, cq_, {.sq_depth = 16}));
            const Qpn id = queue_pairs_.back().id();
            connect(guest_, queue_pairs_.back(), guest_.gid(), peer_.id());
            hca::QpState state = guest_.slice().save_qp(id);
            state.doorbell_slot = slot;
            EXPECT_TRUE(guest_.slice().restore_qp(id, state, {}));
        }
    }
    static hca::soft::Config config() {
        hca::soft::Config config = without_threads();
        config.hot_queues = 1 << 16;
        config.hot_idle = hot_idle;
        return config;
    }
    static bool is_hot(const GuestQp& qp) { return qp.control().sq_polled == 1; }
    // Since the last call. On a slow machine, the first ones are cold again before the last ones
    // are hot.
    std::size_t newly_woken() {
        const std::size_t before = cold_.size();
        std::erase_if(cold_, [](const GuestQp* qp) { return is_hot(*qp); });
        return before - cold_.size();
    }

    using Clock = std::chrono::steady_clock;

    std::unique_ptr<hca::soft::SoftHca> hca_ = std::move(*hca::soft::SoftHca::create(config()));
    Guest guest_{*hca_, "guest", ipv4_gid(1), std::move(*ArenaMemory::create(1ull << 30))};
    GuestCq cq_ = guest_.create_cq(64);
    GuestQp peer_ = guest_.create_qp(cq_, cq_);
    std::vector<GuestQp> queue_pairs_;
    std::vector<const GuestQp*> cold_;
};

// Ring the doorbell while all are cold; expect a bounded number of QPs to be woken per round, and
// all in the end.
TEST_F(SharedSlot, WakesSomeAtATime) {
    const auto end = Clock::now() + 2 * hot_idle;
    while (Clock::now() < end || std::ranges::any_of(queue_pairs_, is_hot)) {
        hca_->poll();
    }
    for (const GuestQp& qp : queue_pairs_) {
        cold_.push_back(&qp);
    }
    guest_.doorbell(1, slot).ring();
    std::size_t most = 0;
    std::size_t all = 0;
    for (std::size_t rounds = 0; rounds < 1000 && all < many; ++rounds) {
        hca_->poll();
        const std::size_t now = newly_woken();
        most = std::max(most, now);
        all += now;
    }
    EXPECT_LE(most, 4 * hca::soft::Doorbells::queue_pairs_a_turn);
    EXPECT_EQ(all, many);
}

// Ring the doorbell, and destroy the QPs one by one while they are woken; expect no harm.
TEST_F(SharedSlot, MayGoWhileTheyAreWoken) {
    guest_.doorbell(1, slot).ring();
    for (const GuestQp& qp : queue_pairs_) {
        hca_->poll();
        guest_.slice().destroy_qp(qp.id());
    }
    EXPECT_FALSE(hca_->poll());
    queue_pairs_.clear();
}

// The places for hot QPs are divided among devices, too.
TEST_F(Victim, GetsAHotPlaceBesideManyBusyQueuePairs) {
    Greedy greedy{*hca_, 3, 512};
    greedy.write(64, 64);
    poll(20);
    rounds_of_a_write();
    EXPECT_EQ(a_qp_.control().sq_polled, 1u);
}

// The number of QPs does not matter: one device has messages on one QP, the other on a hundred.
TEST_F(Shares, EqualDevicesGetTheSame) {
    Greedy few{*hca_, 3, 1};
    Greedy many{*hca_, 4, 100};
    few.write(Greedy::depth, 32 << 10);
    many.write(8, 32 << 10);
    poll(100);
    EXPECT_GE(few.messages(), 40u);
    EXPECT_NEAR(static_cast<double>(few.messages()) / static_cast<double>(many.messages()), 1.0,
                0.05);
}

TEST_F(Shares, SmallMessagesGetNoMoreThanLargeOnes) {
    Greedy small{*hca_, 3, 64};
    Greedy large{*hca_, 4, 64};
    small.write(Greedy::depth, 8);
    large.write(Greedy::depth, 32 << 10);
    poll(50);
    const double turns_of_small = static_cast<double>(small.messages()) * (8 + 512) / (32 << 10);
    EXPECT_NEAR(turns_of_small / static_cast<double>(large.messages()), 1.0, 0.1);
}

TEST_F(Shares, FollowWeights) {
    Greedy light{*hca_, 3, 16};
    Greedy heavy{*hca_, 4, 16};
    light.slice().set_share({.weight = 100});
    heavy.slice().set_share({.weight = 300});
    light.write(Greedy::depth, 4 << 10);
    heavy.write(Greedy::depth, 4 << 10);
    poll(140);
    EXPECT_GE(heavy.messages(), 300u);
    EXPECT_NEAR(static_cast<double>(heavy.messages()) / static_cast<double>(light.messages()), 3.0,
                0.2);
}

// With 1000 bytes per second, one turn is a debt of a minute. Without the limit, the device
// continues.
TEST_F(Shares, LimitsHoldUntilTheyAreTaken) {
    Greedy greedy{*hca_, 3, 4};
    greedy.slice().set_share({.bytes_per_second = 1000});
    greedy.write(Greedy::depth, 4 << 10);
    poll(1000);
    EXPECT_GT(greedy.messages(), 0u);
    EXPECT_LE(greedy.written(), 68u << 10);
    greedy.slice().set_share({});
    poll(1000);
    EXPECT_EQ(greedy.messages(), 4u * Greedy::depth);
}

// A timer retries a message again and again, and its device has no other work; expect the limit to
// apply to these retries as well.
TEST_F(Victim, IsLimitedWhereItOnlyWaits) {
    a_.slice().set_share({.operations_per_second = 1});
    a_qp_.post_send({.opcode = VRDMA_SQ_SEND}); // nobody has posted a receive
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds{100};
    while (std::chrono::steady_clock::now() < end) {
        poll(16);
    }
    const auto& counters = a_.slice().counters();
    EXPECT_GE(counters.value[VRDMA_COUNTER_RNR_NAKS], 1u);
    EXPECT_LE(counters.value[VRDMA_COUNTER_RNR_NAKS], 2u);
}

TEST_F(Shares, OperationsAreLimited) {
    Greedy greedy{*hca_, 3, 4};
    greedy.slice().set_share({.operations_per_second = 10});
    greedy.write(Greedy::depth, 8);
    poll(1000);
    EXPECT_GT(greedy.messages(), 0u);
    EXPECT_LE(greedy.messages(), (64u << 10) / 512);
}

// Datagrams of length 0, each for 32 QPs.
TEST_F(Shares, DatagramsToAGroupCostEachCopy) {
    constexpr hca::Gid group{0xff, 0x0e, 1};
    constexpr unsigned members = 32;
    constexpr unsigned datagrams = 64;
    Guest guest{*hca_, "guest", ipv4_gid(3)};
    const GuestCq cq = guest.create_cq(256);
    const auto create = [&] {
        GuestQp qp = guest.create_qp(cq, cq, {.type = hca::QpType::ud, .sq_depth = datagrams});
        activate_ud(guest, qp, 7);
        return qp;
    };
    GuestQp sender = create();
    std::vector<GuestQp> receivers;
    for (unsigned i = 0; i < members; ++i) {
        receivers.push_back(create());
        ASSERT_TRUE(guest.slice().attach_multicast(receivers.back().id(), group));
    }
    const AhId ah = guest.create_ah(group);
    for (unsigned i = 0; i < datagrams; ++i) {
        sender.post_send({.flags = 0, .ah = ah, .dest_qpn = Qpn{VRDMA_MULTICAST_QPN}, .qkey = 7});
    }
    const auto copies = [&] { // no copy finds a receive
        return guest.slice().counters().value[VRDMA_COUNTER_DROPPED_MESSAGES];
    };
    for (int i = 0; i < 100 && copies() == 0; ++i) {
        poll(1);
    }
    EXPECT_GT(copies(), 0u);
    EXPECT_LE(copies(), 9u * members);
    poll(100);
    EXPECT_EQ(copies(), members * datagrams);
}

// A device that waits for its limit takes no time of a round, and nothing from another device.
TEST_F(Victim, IsNotHinderedByWhoWaitsForItsLimit) {
    Greedy greedy{*hca_, 3, 128};
    greedy.slice().set_share({.bytes_per_second = 1000});
    greedy.write(Greedy::depth, 4 << 10);
    poll(1000);
    for (int i = 0; i < 10; ++i) {
        rounds_of_a_write();
    }
    EXPECT_LE(rounds_of_a_write(), 1u);
    EXPECT_EQ(a_qp_.control().sq_polled, 1u);
}

} // namespace
} // namespace vrdma::test
