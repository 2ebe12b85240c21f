// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Guests on two pollers with threads of their own, while both are at work. The tests check what
// arrives, in what order it completes, and that revoked resources are no longer touched. (All other
// tests run on two pollers as well.)
#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <thread>

#include "mediator/hca/soft/soft_slice.h"
#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

using namespace std::chrono_literals;

Completion wait(GuestCq& cq) {
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (std::chrono::steady_clock::now() < limit) {
        if (const auto completion = cq.poll()) {
            return *completion;
        }
        std::this_thread::yield();
    }
    ADD_FAILURE() << "no completion";
    return {};
}

const hca::soft::Poller* poller_of(Guest& guest) {
    return &dynamic_cast<hca::soft::SoftSlice&>(guest.slice()).poller();
}

// A new device goes to the poller with the fewest devices: a and c to one, b to the other.
class CrossQueueTest : public ::testing::Test {
  protected:
    static std::unique_ptr<hca::soft::SoftHca> make_hca() {
        hca::soft::Config config;
        config.pollers = 2;
        return std::move(*hca::soft::SoftHca::create(config));
    }

    CrossQueueTest() { connect_both(a_, a_qp_, b_, b_qp_); }

    // Reconnects both QPs after a failed message.
    void start_anew() {
        ASSERT_TRUE(a_.slice().modify_qp(a_qp_.id(), state_attr(IBV_QPS_RESET)));
        ASSERT_TRUE(b_.slice().modify_qp(b_qp_.id(), state_attr(IBV_QPS_RESET)));
        a_qp_.reset();
        b_qp_.reset();
        connect_both(a_, a_qp_, b_, b_qp_);
    }

    SendWr write_to_target(const vrdma_sge& from) const {
        return {.opcode = VRDMA_SQ_RDMA_WRITE,
                .sges = {&from, 1},
                .rkey = target_.key,
                .raddr = target_.start};
    }

    static constexpr std::uint32_t length = 1 << 20;
    std::unique_ptr<hca::soft::SoftHca> hca_ = make_hca();
    Guest a_{*hca_, "a", ipv4_gid(1)};
    Guest b_{*hca_, "b", ipv4_gid(2)};
    GuestCq a_cq_ = a_.create_cq();
    GuestCq b_cq_ = b_.create_cq();
    GuestQp a_qp_ = a_.create_qp(a_cq_, a_cq_);
    GuestQp b_qp_ = b_.create_qp(b_cq_, b_cq_);
    MemoryRegion target_ = b_.register_mr(length);
};

// Two devices; expect each to have a poller of its own, and a third to share the first's.
TEST_F(CrossQueueTest, DevicesAreSpreadOverPollers) {
    Guest c{*hca_, "c", ipv4_gid(3)};
    EXPECT_NE(poller_of(a_), poller_of(b_));
    EXPECT_EQ(poller_of(a_), poller_of(c));
}

// WRITE a message of several pieces to the other poller's device and READ it back; expect the same
// bytes.
TEST_F(CrossQueueTest, WritesAndReadsCarryTheirBytes) {
    const MemoryRegion source = a_.register_mr(length);
    const MemoryRegion back = a_.register_mr(length);
    for (unsigned round = 0; round < 10; ++round) {
        source.buffer.write(0, Buffer::pattern(round, length));
        const vrdma_sge from = source.sge();
        a_qp_.post_send(write_to_target(from));
        const vrdma_sge to = back.sge();
        a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_READ,
                         .sges = {&to, 1},
                         .rkey = target_.key,
                         .raddr = target_.start});
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
        EXPECT_EQ(target_.buffer.read(0, length), Buffer::pattern(round, length));
        const Completion read = wait(a_cq_);
        EXPECT_EQ(read.status, IBV_WC_SUCCESS);
        EXPECT_EQ(read.byte_len, length);
        EXPECT_EQ(back.buffer.read(0, length), Buffer::pattern(round, length));
    }
    EXPECT_EQ(state_of(b_, b_qp_), IBV_QPS_RTS);
}

// SEND with RC, UC and UD, a receive for each; expect bytes and lengths.
TEST_F(CrossQueueTest, SendsOfAllTypesArrive) {
    constexpr std::uint32_t qkey = 77;
    constexpr std::uint32_t size = 3000;
    const MemoryRegion source = a_.register_mr(size);
    source.buffer.write(0, Buffer::pattern(5, size));
    const vrdma_sge from = source.sge();
    const AhId ah = a_.create_ah(b_.gid());
    for (const hca::QpType type : {hca::QpType::rc, hca::QpType::uc, hca::QpType::ud}) {
        GuestQp a_qp = a_.create_qp(a_cq_, a_cq_, {.type = type});
        GuestQp b_qp = b_.create_qp(b_cq_, b_cq_, {.type = type});
        if (type == hca::QpType::ud) {
            activate_ud(a_, a_qp, qkey);
            activate_ud(b_, b_qp, qkey);
        } else {
            connect_both(a_, a_qp, b_, b_qp);
        }
        for (int i = 0; i < 200; ++i) {
            target_.buffer.write(0, std::vector<std::byte>(size + VRDMA_UD_GRH_SIZE));
            const vrdma_sge to = target_.sge(0, size + VRDMA_UD_GRH_SIZE);
            b_qp.post_recv({&to, 1});
            a_qp.post_send({.sges = {&from, 1}, .ah = ah, .dest_qpn = b_qp.id(), .qkey = qkey});
            const std::uint32_t grh = type == hca::QpType::ud ? VRDMA_UD_GRH_SIZE : 0;
            const Completion received = wait(b_cq_);
            EXPECT_EQ(received.status, IBV_WC_SUCCESS);
            EXPECT_EQ(received.byte_len, size + grh);
            EXPECT_EQ(target_.buffer.read(grh, size), Buffer::pattern(5, size));
            EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
        }
    }
}

// Three devices on two pollers add to one word, which belongs to one of them; expect each original
// value once.
TEST_F(CrossQueueTest, AtomicsOfAllPollersAreAtomic) {
    constexpr std::uint64_t count = 2000;
    Guest c{*hca_, "c", ipv4_gid(3)};
    std::atomic<bool> done{true};
    std::vector<std::vector<std::uint64_t>> originals(3);
    std::vector<std::thread> threads;
    std::vector<Guest*> guests{&a_, &b_, &c};
    for (std::size_t i = 0; i < guests.size(); ++i) {
        Guest& guest = *guests[i];
        GuestCq cq = guest.create_cq();
        GuestCq peer_cq = b_.create_cq();
        GuestQp qp = guest.create_qp(cq, cq);
        const GuestQp peer = b_.create_qp(peer_cq, peer_cq);
        connect_both(guest, qp, b_, peer);
        threads.emplace_back([&, i, cq, qp, result = guest.register_mr(64)]() mutable {
            const vrdma_sge to = result.sge(0, 8);
            for (std::uint64_t n = 0; n < count; ++n) {
                qp.post_send({.opcode = VRDMA_SQ_ATOMIC_FETCH_AND_ADD,
                              .sges = {&to, 1},
                              .rkey = target_.key,
                              .raddr = target_.start,
                              .compare_add = 1});
                if (wait(cq).status != IBV_WC_SUCCESS) {
                    done = false;
                    return;
                }
                originals[i].push_back(*result.buffer.at<std::uint64_t>(0));
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    ASSERT_TRUE(done);
    std::vector<std::uint64_t> all;
    for (const auto& some : originals) {
        EXPECT_TRUE(std::is_sorted(some.begin(), some.end()));
        all.insert(all.end(), some.begin(), some.end());
    }
    std::sort(all.begin(), all.end());
    std::vector<std::uint64_t> expected(3 * count);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
}

// Move a QP to ERR with a long message under way and more behind it; expect a completion for each,
// in order. After the first that is flushed, all are.
TEST_F(CrossQueueTest, FlushKeepsTheOrder) {
    const MemoryRegion source = a_.register_mr(length);
    const vrdma_sge from = source.sge();
    constexpr unsigned posted = 8;
    for (int round = 0; round < 30; ++round) {
        for (unsigned i = 0; i < posted; ++i) {
            a_qp_.post_send(write_to_target(from));
        }
        std::this_thread::sleep_for(std::chrono::microseconds{round * 10});
        ASSERT_TRUE(a_.slice().modify_qp(a_qp_.id(), state_attr(IBV_QPS_ERR)));
        bool flushed = false;
        for (unsigned i = 0; i < posted; ++i) {
            const Completion done = wait(a_cq_);
            EXPECT_EQ(done.index, i);
            flushed |= done.status == IBV_WC_WR_FLUSH_ERR;
            EXPECT_EQ(done.status, flushed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
        }
        start_anew();
    }
}

// Deregister the region of a write that is under way, once at its source and once at its target.
// Then change its memory, or watch it; expect none of the new bytes at the target, and no change of
// the target after the call has returned.
TEST_F(CrossQueueTest, DeregistrationWaitsForTheOtherPoller) {
    const Buffer memory = a_.pages().allocate(length);
    for (int round = 0; round < 30; ++round) {
        memory.write(0, std::vector<std::byte>(length, std::byte{1}));
        const MemoryRegion region = a_.register_mr(memory);
        const vrdma_sge from = region.sge();
        const unsigned index = a_qp_.posted_sends();
        a_qp_.post_send(write_to_target(from));
        std::this_thread::sleep_for(std::chrono::microseconds{round * 5});
        EXPECT_TRUE(a_.slice().deregister_mr(region.key));
        memory.write(0, std::vector<std::byte>(length, std::byte{2}));
        const Completion done = wait(a_cq_);
        EXPECT_EQ(done.index, index);
        const auto arrived = target_.buffer.read(0, length);
        ASSERT_EQ(std::find(arrived.begin(), arrived.end(), std::byte{2}), arrived.end()) << round;
        if (done.status != IBV_WC_SUCCESS) {
            EXPECT_EQ(done.status, IBV_WC_LOC_PROT_ERR);
            start_anew();
        }
    }
}

TEST_F(CrossQueueTest, DeregisteredTargetIsNoLongerWritten) {
    const MemoryRegion source = a_.register_mr(length);
    source.buffer.write(0, std::vector<std::byte>(length, std::byte{1}));
    const vrdma_sge from = source.sge();
    const Buffer memory = b_.pages().allocate(length);
    for (int round = 0; round < 30; ++round) {
        memory.write(0, std::vector<std::byte>(length));
        const MemoryRegion region = b_.register_mr(memory);
        a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                         .sges = {&from, 1},
                         .rkey = region.key,
                         .raddr = region.start});
        std::this_thread::sleep_for(std::chrono::microseconds{round * 5});
        EXPECT_TRUE(b_.slice().deregister_mr(region.key));
        const auto then = memory.read(0, length);
        const ibv_wc_status status = wait(a_cq_).status;
        ASSERT_EQ(memory.read(0, length), then) << round;
        if (status != IBV_WC_SUCCESS) {
            EXPECT_EQ(status, IBV_WC_REM_ACCESS_ERR);
            start_anew();
        }
    }
}

// Reset a QP with a message under way and use it again at once; expect only the new message's
// completion.
TEST_F(CrossQueueTest, ResetForgetsWhatIsUnderWay) {
    const MemoryRegion source = a_.register_mr(length);
    const vrdma_sge from = source.sge();
    for (int round = 0; round < 50; ++round) {
        a_qp_.post_send(write_to_target(from));
        std::this_thread::sleep_for(std::chrono::microseconds{round % 10 * 5});
        start_anew();
        while (a_cq_.poll()) {
        }
        a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
        const Completion done = wait(a_cq_);
        EXPECT_EQ(done.status, IBV_WC_SUCCESS);
        EXPECT_EQ(done.index, 0u);
    }
}

// Destroy the target's device, freeze the sender's and destroy its QP while messages are under way;
// expect all calls to return, and the sender's message to succeed or to fail because its peer does
// not answer.
TEST_F(CrossQueueTest, DevicesGoWhileMessagesAreUnderWay) {
    const MemoryRegion source = b_.register_mr(length);
    const vrdma_sge sge = source.sge();
    for (int round = 0; round < 20; ++round) {
        auto guest = std::make_unique<Guest>(*hca_, "c", ipv4_gid(3));
        ASSERT_NE(poller_of(*guest), poller_of(b_));
        GuestCq cq = guest->create_cq();
        const GuestQp to = guest->create_qp(cq, cq);
        const MemoryRegion target = guest->register_mr(length);
        GuestQp from = b_.create_qp(b_cq_, b_cq_);
        connect_both(b_, from, *guest, to);
        from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                        .sges = {&sge, 1},
                        .rkey = target.key,
                        .raddr = target.start});
        std::this_thread::sleep_for(std::chrono::microseconds{round * 3});
        b_.slice().freeze();
        b_.thaw();
        guest.reset();
        const ibv_wc_status status = wait(b_cq_).status;
        EXPECT_TRUE(status == IBV_WC_SUCCESS || status == IBV_WC_RETRY_EXC_ERR) << status;
        b_.slice().destroy_qp(from.id());
    }
}

// Both guests send to each other without a pause, on threads of their own, while the control thread
// revokes resources on both sides; expect every call to return, and every message to complete.
TEST_F(CrossQueueTest, ControlAndTrafficDoNotBlockEachOther) {
    const MemoryRegion source = a_.register_mr(1 << 16);
    std::atomic<bool> stop{false};
    const auto play = [&stop](GuestQp& qp, GuestCq& cq, SendWr wr) {
        while (!stop.load()) {
            qp.post_send(wr);
            EXPECT_EQ(wait(cq).status, IBV_WC_SUCCESS);
        }
    };
    const vrdma_sge a_sge = source.sge();
    const MemoryRegion sink = b_.register_mr(1 << 16);
    const vrdma_sge b_sge = sink.sge();
    const SendWr to_b = write_to_target(a_sge);
    const SendWr to_a{.opcode = VRDMA_SQ_RDMA_READ,
                      .sges = {&b_sge, 1},
                      .rkey = source.key,
                      .raddr = source.start};
    vrdma_qp_attr patient = rts_attr(); // the peer may stay frozen while this thread has no core
    patient.timeout = 13;               // 34 ms, seven times
    ASSERT_TRUE(a_.slice().modify_qp(a_qp_.id(), patient));
    ASSERT_TRUE(b_.slice().modify_qp(b_qp_.id(), patient));
    std::thread a_thread{[&] { play(a_qp_, a_cq_, to_b); }};
    std::thread b_thread{[&] { play(b_qp_, b_cq_, to_a); }};
    GuestCq a_cq = a_.create_cq();
    GuestCq b_cq = b_.create_cq();
    for (int round = 0; round < 50; ++round) {
        GuestQp from = a_.create_qp(a_cq, a_cq);
        const GuestQp to = b_.create_qp(b_cq, b_cq);
        connect_both(a_, from, b_, to);
        from.post_send(to_b);
        for (Guest* guest : {&a_, &b_}) {
            const MemoryRegion region = guest->register_mr(4096);
            EXPECT_TRUE(guest->slice().deregister_mr(region.key));
            guest->slice().freeze();
            guest->thaw();
        }
        b_.slice().destroy_qp(to.id());
        a_.slice().destroy_qp(from.id());
        while (a_cq.poll()) {
        }
    }
    stop = true;
    a_thread.join();
    b_thread.join();
}

// Send to a group, one datagram after the other, while devices on both pollers join and leave;
// expect the members that stay, one on each poller, to get each datagram once and in order.
TEST_F(CrossQueueTest, MembersOfAGroupComeAndGo) {
    constexpr hca::Gid group{0xff, 0x0e, 1};
    constexpr std::uint32_t qkey = 7;
    Guest c{*hca_, "c", ipv4_gid(3)};
    Guest d{*hca_, "d", ipv4_gid(4)};
    const auto datagrams = [&](Guest& guest, const GuestCq& send_cq, const GuestCq& recv_cq) {
        GuestQp qp = guest.create_qp(send_cq, recv_cq, {.type = hca::QpType::ud});
        activate_ud(guest, qp, qkey);
        return qp;
    };
    const auto join = [&](Guest& guest, const GuestQp& qp) {
        EXPECT_TRUE(guest.slice().attach_multicast(qp.id(), group));
    };
    GuestCq sent = a_.create_cq();
    GuestCq c_cq = c.create_cq();
    GuestCq d_cq = d.create_cq();
    const GuestQp c_qp = datagrams(c, c_cq, c_cq);
    const GuestQp d_qp = datagrams(d, d_cq, d_cq);
    GuestQp a_qp = datagrams(a_, sent, a_cq_);
    GuestQp b_qp = datagrams(b_, b_cq_, b_cq_);
    join(a_, a_qp);
    join(b_, b_qp);
    const MemoryRegion a_sink = a_.register_mr(VRDMA_UD_GRH_SIZE);
    const MemoryRegion b_sink = b_.register_mr(VRDMA_UD_GRH_SIZE);
    const AhId ah = a_.create_ah(group);
    std::atomic<bool> stop{false};
    std::thread traffic{[&] {
        for (std::uint32_t i = 0; !stop.load(); ++i) {
            a_qp.post_recv(std::array{a_sink.sge()});
            b_qp.post_recv(std::array{b_sink.sge()});
            a_qp.post_send({.opcode = VRDMA_SQ_SEND_WITH_IMM,
                            .imm = i,
                            .ah = ah,
                            .dest_qpn = Qpn{VRDMA_MULTICAST_QPN},
                            .qkey = qkey});
            EXPECT_EQ(wait(sent).status, IBV_WC_SUCCESS);
            EXPECT_EQ(wait(a_cq_).imm, i);
            EXPECT_EQ(wait(b_cq_).imm, i);
            EXPECT_FALSE(a_cq_.poll() || b_cq_.poll());
        }
    }};
    for (int round = 0; round < 200; ++round) {
        join(c, c_qp);
        join(d, d_qp);
        c.slice().detach_multicast(c_qp.id(), group);
        d.slice().detach_multicast(d_qp.id(), group);
    }
    stop = true;
    traffic.join();
}

// More QPs have messages than a poller has cross-poller requests, all with the same number of
// messages; expect that no QP completes all of its messages before every other has completed some.
TEST(CrossQueueWithoutThreads, RequestsGoToQueuePairsInTurn) {
    constexpr std::size_t count = 200;
    constexpr unsigned messages = 20;
    hca::soft::Config config;
    config.threads = false;
    config.pollers = 2;
    const auto hca = std::move(*hca::soft::SoftHca::create(config));
    Guest a{*hca, "a", ipv4_gid(1)};
    Guest b{*hca, "b", ipv4_gid(2)};
    GuestCq cq = a.create_cq(8192);
    GuestCq peer_cq = b.create_cq();
    std::vector<GuestQp> qps;
    for (std::size_t i = 0; i < count; ++i) {
        qps.push_back(a.create_qp(cq, cq, {.sq_depth = 32}));
        connect_both(a, qps.back(), b, b.create_qp(peer_cq, peer_cq));
    }
    for (GuestQp& qp : qps) {
        for (unsigned message = 0; message < messages; ++message) {
            qp.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
        }
    }
    std::map<std::uint32_t, unsigned> completed;
    constexpr int most_rounds = 10'000;
    for (int i = 0; i < most_rounds && std::size(completed) < count; ++i) {
        hca->poll();
        while (const auto completion = cq.poll()) {
            EXPECT_EQ(completion->status, IBV_WC_SUCCESS);
            EXPECT_LT(++completed[completion->qpn], messages);
        }
    }
    EXPECT_EQ(completed.size(), count);
}

} // namespace
} // namespace vrdma::test
