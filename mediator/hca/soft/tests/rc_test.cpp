// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Reliable connections: the effects of each operation without errors.
#include <algorithm>

#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

class Rc : public ConnectedPair {
  protected:
    void expect_sent(ibv_wc_opcode opcode) {
        const Completion sent = wait(a_cq_);
        EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
        EXPECT_EQ(sent.opcode, opcode);
        EXPECT_FALSE(sent.receive);
        EXPECT_EQ(sent.qpn, a_qp_.id().value);
        EXPECT_EQ(sent.vendor_err, 0u);
    }

    std::uint64_t fetch_word(const MemoryRegion& region, std::uint64_t offset) {
        return *region.buffer.at<std::uint64_t>(offset);
    }
};

// Send 10,000 bytes that lie in scattered pages on both sides; expect them in the receive buffer.
TEST_F(Rc, SendFillsTheReceiveBuffer) {
    a_mr_.buffer.fill(1);
    const vrdma_sge from = a_mr_.sge(100, 10000);
    const vrdma_sge to = b_mr_.sge(5, 20000);
    b_qp_.post_recv({&to, 1});
    a_qp_.post_send({.sges = {&from, 1}});

    const Completion received = wait(b_cq_);
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.opcode, IBV_WC_RECV);
    EXPECT_TRUE(received.receive);
    EXPECT_FALSE(received.with_imm);
    EXPECT_EQ(received.byte_len, 10000u);
    EXPECT_EQ(received.qpn, b_qp_.id().value);
    expect_sent(IBV_WC_SEND);
    EXPECT_EQ(b_mr_.buffer.read(5, 10000), a_mr_.buffer.read(100, 10000));
}

// Send with immediate data; expect it, in network order, in the receive completion.
TEST_F(Rc, SendCarriesImmediateData) {
    const vrdma_sge from = a_mr_.sge(0, 1);
    const vrdma_sge to = b_mr_.sge();
    b_qp_.post_recv({&to, 1});
    a_qp_.post_send({.opcode = VRDMA_SQ_SEND_WITH_IMM, .imm = 0x04030201, .sges = {&from, 1}});

    const Completion received = wait(b_cq_);
    EXPECT_TRUE(received.with_imm);
    EXPECT_EQ(received.imm, 0x04030201u);
    EXPECT_EQ(received.byte_len, 1u);
    expect_sent(IBV_WC_SEND);
}

// Gather from three pieces and scatter to two with other boundaries; expect the bytes in order.
TEST_F(Rc, GathersAndScatters) {
    a_mr_.buffer.fill(2);
    const vrdma_sge from[] = {a_mr_.sge(0, 7), a_mr_.sge(4090, 5000), a_mr_.sge(20000, 1)};
    const vrdma_sge to[] = {b_mr_.sge(1, 4095), b_mr_.sge(10000, 4096)};
    b_qp_.post_recv(to);
    a_qp_.post_send({.sges = from});

    EXPECT_EQ(wait(b_cq_).byte_len, 5008u);
    expect_sent(IBV_WC_SEND);
    std::vector<std::byte> expected = a_mr_.buffer.read(0, 7);
    const auto middle = a_mr_.buffer.read(4090, 5000);
    expected.insert(expected.end(), middle.begin(), middle.end());
    expected.push_back(*a_mr_.buffer.at(20000));
    std::vector<std::byte> arrived = b_mr_.buffer.read(1, 4095);
    const auto rest = b_mr_.buffer.read(10000, 5008 - 4095);
    arrived.insert(arrived.end(), rest.begin(), rest.end());
    EXPECT_EQ(arrived, expected);
}

// Send inline data, in several WQEs before the engine looks; expect each in a buffer of its own.
TEST_F(Rc, SendsInline) {
    for (std::uint8_t i = 0; i < 4; ++i) {
        const vrdma_sge to = b_mr_.sge(i * 100ull, 100);
        b_qp_.post_recv({&to, 1});
        a_qp_.post_send({.flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
                         .inline_data = Buffer::pattern(i, 10u + i)});
    }
    for (std::uint8_t i = 0; i < 4; ++i) {
        EXPECT_EQ(wait(b_cq_).byte_len, 10u + i);
        EXPECT_EQ(b_mr_.buffer.read(i * 100ull, 10u + i), Buffer::pattern(i, 10u + i));
    }
}

// Write 8 KiB; expect them at the remote address, a completion at the requester and none at the
// responder.
TEST_F(Rc, WriteReachesRemoteMemoryWithoutCompletionThere) {
    a_mr_.buffer.fill(3);
    const vrdma_sge from = a_mr_.sge(0, 8192);
    a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                     .sges = {&from, 1},
                     .rkey = b_mr_.key,
                     .raddr = b_mr_.start + 4000});
    expect_sent(IBV_WC_RDMA_WRITE);
    EXPECT_EQ(b_mr_.buffer.read(4000, 8192), a_mr_.buffer.read(0, 8192));
    EXPECT_FALSE(b_cq_.poll());
}

// Write with immediate; expect a receive to be consumed, and its own buffer to stay unchanged.
TEST_F(Rc, WriteWithImmediateConsumesAReceive) {
    a_mr_.buffer.fill(4);
    const vrdma_sge from = a_mr_.sge(0, 100);
    const vrdma_sge unused = b_mr_.sge(30000, 10);
    b_qp_.post_recv({&unused, 1});
    a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE_WITH_IMM,
                     .imm = 0xaabbccdd,
                     .sges = {&from, 1},
                     .rkey = b_mr_.key,
                     .raddr = b_mr_.start});

    const Completion received = wait(b_cq_);
    EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(received.imm, 0xaabbccddu);
    EXPECT_EQ(received.byte_len, 100u);
    expect_sent(IBV_WC_RDMA_WRITE);
    EXPECT_EQ(b_mr_.buffer.read(0, 100), a_mr_.buffer.read(0, 100));
    EXPECT_EQ(b_mr_.buffer.read(30000, 10), std::vector<std::byte>(10));
}

// Read 20,000 bytes into two pieces; expect them and their count in the completion.
TEST_F(Rc, ReadFetchesRemoteMemory) {
    b_mr_.buffer.fill(5);
    const vrdma_sge to[] = {a_mr_.sge(1, 9999), a_mr_.sge(20000, 10001)};
    a_qp_.post_send(
        {.opcode = VRDMA_SQ_RDMA_READ, .sges = to, .rkey = b_mr_.key, .raddr = b_mr_.start + 77});
    const Completion done = wait(a_cq_);
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
    EXPECT_EQ(done.opcode, IBV_WC_RDMA_READ);
    EXPECT_EQ(done.byte_len, 20000u);
    EXPECT_EQ(a_mr_.buffer.read(1, 9999), b_mr_.buffer.read(77, 9999));
    EXPECT_EQ(a_mr_.buffer.read(20000, 10001), b_mr_.buffer.read(77 + 9999, 10001));
}

// Compare and swap with the right and with a wrong value; expect the original both times and one
// swap.
TEST_F(Rc, ComparesAndSwaps) {
    *b_mr_.buffer.at<std::uint64_t>(64) = 5;
    const vrdma_sge to = a_mr_.sge(0, 8);
    const auto swap = [&](std::uint64_t compare, std::uint64_t swap) {
        a_qp_.post_send({.opcode = VRDMA_SQ_ATOMIC_CMP_AND_SWP,
                         .sges = {&to, 1},
                         .rkey = b_mr_.key,
                         .raddr = b_mr_.start + 64,
                         .compare_add = compare,
                         .swap = swap});
        const Completion done = wait(a_cq_);
        EXPECT_EQ(done.opcode, IBV_WC_COMP_SWAP);
        EXPECT_EQ(done.byte_len, 8u);
        return fetch_word(a_mr_, 0);
    };
    EXPECT_EQ(swap(5, ~0ull), 5u);
    EXPECT_EQ(fetch_word(b_mr_, 64), ~0ull);
    EXPECT_EQ(swap(5, 1), ~0ull);
    EXPECT_EQ(fetch_word(b_mr_, 64), ~0ull);
}

// Add twice, the second time beyond the largest value; expect the sum to wrap.
TEST_F(Rc, FetchesAndAdds) {
    *b_mr_.buffer.at<std::uint64_t>(0) = 1;
    const vrdma_sge to = a_mr_.sge(8, 8);
    for (const std::uint64_t original : {1ull, 4ull}) {
        a_qp_.post_send({.opcode = VRDMA_SQ_ATOMIC_FETCH_AND_ADD,
                         .sges = {&to, 1},
                         .rkey = b_mr_.key,
                         .raddr = b_mr_.start,
                         .compare_add = original == 1 ? 3 : ~0ull});
        expect_sent(IBV_WC_FETCH_ADD);
        EXPECT_EQ(fetch_word(a_mr_, 8), original);
    }
    EXPECT_EQ(fetch_word(b_mr_, 0), 3u);
}

// Operations of length 0, with keys that do not exist; expect success, and a receive of length 0.
TEST_F(Rc, OperationsOfNoBytesCheckNoKey) {
    const vrdma_sge nothing{.addr = 1, .length = 0, .lkey = 999};
    for (const auto opcode : {VRDMA_SQ_RDMA_WRITE, VRDMA_SQ_RDMA_READ}) {
        a_qp_.post_send({.opcode = opcode, .sges = {&nothing, 1}, .rkey = Key{12345}, .raddr = 7});
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
        a_qp_.post_send({.opcode = opcode, .rkey = Key{12345}, .raddr = 7});
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    }
    b_qp_.post_recv({});
    a_qp_.post_send({});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    const Completion received = wait(b_cq_);
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.byte_len, 0u);
}

// Post five times the ring's depth, with every third request signaled; expect only these to
// complete, with their free-running index, and every byte to be written.
TEST_F(Rc, CompletesOnlySignaledRequestsAcrossTheRing) {
    constexpr std::uint32_t count = 5 * 16;
    for (std::uint32_t i = 0; i < count; ++i) {
        const auto byte = static_cast<std::byte>(i + 1);
        const bool signaled = i % 3 == 2;
        a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                         .flags = VRDMA_SQ_INLINE | (signaled ? VRDMA_SQ_SIGNALED : 0u),
                         .inline_data = {&byte, 1},
                         .rkey = b_mr_.key,
                         .raddr = b_mr_.start + i});
        if (signaled) {
            EXPECT_EQ(wait(a_cq_).index, i);
        }
    }
    settle();
    EXPECT_FALSE(a_cq_.poll());
    for (std::uint32_t i = 0; i < count; ++i) {
        EXPECT_EQ(*b_mr_.buffer.at(i), static_cast<std::byte>(i + 1));
    }
}

// A QP that signals all; expect a completion of an unsignaled request.
TEST_F(Rc, SignalsAllWhereAskedTo) {
    GuestQp from = a_.create_qp(a_cq_, a_cq_, {.signal_all = true});
    GuestQp to = b_.create_qp(b_cq_, b_cq_);
    connect_pair(from, to);
    from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE, .flags = 0});
    EXPECT_EQ(wait(a_cq_).qpn, from.id().value);
}

// Two QPs of one device; expect messages between them to arrive.
TEST_F(Rc, LoopsBackWithinADevice) {
    GuestQp from = a_.create_qp(a_cq_, a_cq_);
    GuestQp to = a_.create_qp(a_cq_, a_cq_);
    connect_both(a_, from, a_, to);
    a_mr_.buffer.fill(6);
    const vrdma_sge source = a_mr_.sge(0, 500);
    const vrdma_sge target = a_mr_.sge(8000, 500);
    to.post_recv({&target, 1});
    from.post_send({.flags = 0, .sges = {&source, 1}});
    EXPECT_EQ(wait(a_cq_).qpn, to.id().value);
    EXPECT_EQ(a_mr_.buffer.read(8000, 500), a_mr_.buffer.read(0, 500));
}

// A QP connected to itself; expect both of its completions.
TEST_F(Rc, TalksToItself) {
    GuestQp self = a_.create_qp(a_cq_, a_cq_);
    connect(a_, self, a_.gid(), self.id());
    const vrdma_sge target = a_mr_.sge();
    self.post_recv({&target, 1});
    self.post_send(
        {.flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE, .inline_data = Buffer::pattern(7, 20)});
    EXPECT_TRUE(wait(a_cq_).receive);
    EXPECT_FALSE(wait(a_cq_).receive);
    EXPECT_EQ(a_mr_.buffer.read(0, 20), Buffer::pattern(7, 20));
}

// A SEND that takes many turns, beside a small one of another pair, and then a READ of the same
// length; expect all bytes, and the small message to arrive before the long one.
TEST_F(Rc, MovesLongMessagesInTurnsWithOthers) {
    constexpr std::uint32_t length = 5'000'001;
    const MemoryRegion from = a_.register_mr(length);
    const MemoryRegion to = b_.register_mr(length);
    const MemoryRegion back = a_.register_mr(length);
    GuestQp small_a = a_.create_qp(a_cq_, a_cq_);
    GuestCq small_cq = b_.create_cq();
    GuestQp small_b = b_.create_qp(small_cq, small_cq);
    connect_pair(small_a, small_b);
    from.buffer.fill(8);

    const vrdma_sge source = from.sge();
    const vrdma_sge target = to.sge();
    const vrdma_sge small = b_mr_.sge();
    b_qp_.post_recv({&target, 1});
    small_b.post_recv({&small, 1});
    a_qp_.post_send({.sges = {&source, 1}});
    small_a.post_send({.flags = 0});
    wait(small_cq);
    EXPECT_FALSE(b_cq_.ready()) << "the long message held up the short one";
    EXPECT_EQ(wait(b_cq_).byte_len, length);
    EXPECT_EQ(to.buffer.read(0, length), from.buffer.read(0, length));

    const vrdma_sge sink = back.sge();
    wait(a_cq_);
    a_qp_.post_send(
        {.opcode = VRDMA_SQ_RDMA_READ, .sges = {&sink, 1}, .rkey = to.key, .raddr = to.start});
    EXPECT_EQ(wait(a_cq_).byte_len, length);
    EXPECT_EQ(back.buffer.read(0, length), from.buffer.read(0, length));
}

// A thousand small messages between many QPs that share a page of doorbell slots, and a CQ; expect
// each QP's messages in order.
TEST_F(Rc, KeepsOrderAmongManyQps) {
    constexpr std::uint32_t pairs = 100; // more than may be hot
    GuestCq send_cq = a_.create_cq(1024);
    GuestCq recv_cq = b_.create_cq(1024);
    std::vector<GuestQp> senders;
    std::vector<GuestQp> receivers;
    for (std::uint32_t i = 0; i < pairs; ++i) {
        senders.push_back(a_.create_qp(send_cq, send_cq));
        receivers.push_back(b_.create_qp(recv_cq, recv_cq));
        connect_pair(senders.back(), receivers.back());
    }
    for (std::uint32_t round = 0; round < 10; ++round) {
        for (std::uint32_t i = 0; i < pairs; ++i) {
            receivers[i].post_recv({});
            senders[i].post_send({.opcode = VRDMA_SQ_SEND_WITH_IMM, .flags = 0, .imm = round});
        }
        for (std::uint32_t i = 0; i < pairs; ++i) {
            const Completion received = wait(recv_cq);
            EXPECT_EQ(received.status, IBV_WC_SUCCESS);
            EXPECT_EQ(received.imm, round);
            EXPECT_EQ(received.index, round);
        }
    }
}

// Connects QPs whose PSNs differ; expects no messages to arrive, as on two hosts.
TEST_F(Rc, PsnsMustAgree) {
    GuestQp from = a_.create_qp(a_cq_, a_cq_);
    GuestQp to = b_.create_qp(b_cq_, b_cq_);
    connect(a_, from, b_.gid(), to.id());
    move_to_init(b_, to, all_access);
    vrdma_qp_attr attr = rtr_attr(a_.gid(), from.id());
    attr.rq_psn = 77;
    ASSERT_TRUE(b_.slice().modify_qp(to.id(), attr));
    to.post_recv({});
    from.post_send({});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_FALSE(b_cq_.poll());
}

// Connects QPs with different path MTUs; expects messages that are one packet with either MTU to
// arrive, others to be refused, and a READ's answer to be a bad response, as on two hosts.
TEST_F(Rc, PathMtusMustAgreeForMoreThanAPacket) {
    const auto send = [&](vrdma_sq_opcode opcode, std::uint32_t length) {
        GuestQp from = a_.create_qp(a_cq_, a_cq_);
        GuestQp to = b_.create_qp(b_cq_, b_cq_);
        connect(a_, from, b_.gid(), to.id());
        move_to_init(b_, to, all_access);
        vrdma_qp_attr attr = rtr_attr(a_.gid(), from.id());
        attr.path_mtu = IBV_MTU_1024;
        EXPECT_TRUE(b_.slice().modify_qp(to.id(), attr));
        const vrdma_sge local = a_mr_.sge(0, length);
        from.post_send(
            {.opcode = opcode, .sges = {&local, 1}, .rkey = b_mr_.key, .raddr = b_mr_.start});
        return wait(a_cq_).status;
    };
    for (const vrdma_sq_opcode opcode : {VRDMA_SQ_RDMA_WRITE, VRDMA_SQ_RDMA_READ}) {
        EXPECT_EQ(send(opcode, 1024), IBV_WC_SUCCESS);
    }
    EXPECT_EQ(send(VRDMA_SQ_RDMA_WRITE, 1025), IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(send(VRDMA_SQ_RDMA_READ, 1025), IBV_WC_BAD_RESP_ERR);
}

} // namespace
} // namespace vrdma::test
