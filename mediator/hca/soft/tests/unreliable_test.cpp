// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// UC and UD: deliveries, silent drops, and errors that stop only the send queue.
#include <arpa/inet.h>
#include <netinet/ip.h>

#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

class Uc : public ConnectedPair {
  protected:
    Uc() : ConnectedPair{hca::QpType::uc} {}
};

// Send and write; expect both to arrive.
TEST_F(Uc, SendsAndWrites) {
    const vrdma_sge to = b_mr_.sge();
    b_qp_.post_recv({&to, 1});
    a_qp_.post_send(
        {.flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE, .inline_data = Buffer::pattern(1, 30)});
    EXPECT_EQ(wait(b_cq_).byte_len, 30u);
    EXPECT_EQ(b_mr_.buffer.read(0, 30), Buffer::pattern(1, 30));
    a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                     .flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
                     .inline_data = Buffer::pattern(2, 30),
                     .rkey = b_mr_.key,
                     .raddr = b_mr_.start + 500});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(b_mr_.buffer.read(500, 30), Buffer::pattern(2, 30));
}

// Send without a receive, a message too long for it, with a bad key, and to a QP in RESET: expect
// success at the sender, no change at the receiver, and the receive to stay for the next message
// that fits.
TEST_F(Uc, WhatCannotBeTakenIsDropped) {
    a_qp_.post_send({});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);

    const vrdma_sge to = b_mr_.sge(0, 4);
    b_qp_.post_recv({&to, 1});
    a_qp_.post_send(
        {.flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE, .inline_data = Buffer::pattern(1, 5)});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                     .flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
                     .inline_data = Buffer::pattern(1, 5),
                     .rkey = Key{4711},
                     .raddr = b_mr_.start});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(state_of(b_, b_qp_), IBV_QPS_RTS);

    a_qp_.post_send(
        {.flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE, .inline_data = Buffer::pattern(2, 4)});
    EXPECT_EQ(wait(b_cq_).byte_len, 4u);
    EXPECT_EQ(b_mr_.buffer.read(0, 4), Buffer::pattern(2, 4));

    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    ASSERT_TRUE(b_.slice().modify_qp(b_qp_.id(), state_attr(IBV_QPS_RESET)));
    a_qp_.post_send({});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
}

// A bad receive buffer; expect LOC_PROT_ERR and the receiver in error, and success at the sender.
TEST_F(Uc, ReceiverFailsOnItsOwnBuffer) {
    const vrdma_sge to{.addr = 0, .length = 8, .lkey = 4711};
    b_qp_.post_recv({&to, 1});
    a_qp_.post_send(
        {.flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE, .inline_data = Buffer::pattern(1, 5)});
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(state_of(b_, b_qp_), IBV_QPS_ERR);
}

// A bad send; expect SQE: sends are flushed, receives are still used, and a transition to RTS makes
// the QP work again.
TEST_F(Uc, LocalErrorStopsOnlyTheSendQueue) {
    const vrdma_sge bad{.addr = 0, .length = 8, .lkey = 4711};
    a_qp_.post_recv({});
    a_qp_.post_send({.sges = {&bad, 1}});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_LOC_PROT_ERR);
    a_qp_.post_send({});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(state_of(a_, a_qp_), IBV_QPS_SQE);
    b_qp_.post_send({.flags = 0});
    const Completion received = wait(a_cq_);
    EXPECT_TRUE(received.receive);
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);

    ASSERT_TRUE(a_.slice().modify_qp(a_qp_.id(), state_attr(IBV_QPS_RTS)));
    b_qp_.post_recv({});
    a_qp_.post_send({});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
}

// Post many sends behind a bad one, and move to RTS before they are flushed; expect all of them to
// be flushed, and later sends to be sent (IBA 10.3.1.6).
TEST_F(Uc, RtsFlushesWhatWasPostedBefore) {
    constexpr int behind = 400;
    GuestCq cq = a_.create_cq(1024);
    GuestQp qp = a_.create_qp(cq, cq, {.type = hca::QpType::uc, .sq_depth = 512});
    connect_both(a_, qp, b_, b_qp_ = b_.create_qp(b_cq_, b_cq_, {.type = hca::QpType::uc}));
    const vrdma_sge bad{.addr = 0, .length = 8, .lkey = 4711};
    qp.write_send({.sges = {&bad, 1}});
    for (int i = 0; i < behind; ++i) {
        qp.write_send({});
    }
    qp.announce_sends();
    EXPECT_EQ(wait(cq).status, IBV_WC_LOC_PROT_ERR);
    ASSERT_TRUE(a_.slice().modify_qp(qp.id(), state_attr(IBV_QPS_RTS)));
    qp.post_send({});
    for (int i = 0; i < behind; ++i) {
        ASSERT_EQ(wait(cq).status, IBV_WC_WR_FLUSH_ERR) << i;
    }
    EXPECT_EQ(wait(cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(state_of(a_, qp), IBV_QPS_RTS);
}

// READ and atomics, which UC does not have; expect LOC_QP_OP_ERR.
TEST_F(Uc, HasNoReads) {
    const vrdma_sge local = a_mr_.sge(0, 8);
    a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_READ,
                     .sges = {&local, 1},
                     .rkey = b_mr_.key,
                     .raddr = b_mr_.start});
    const Completion failed = wait(a_cq_);
    EXPECT_EQ(failed.status, IBV_WC_LOC_QP_OP_ERR);
    EXPECT_EQ(failed.vendor_err, VRDMA_VERR_OPCODE);
}

class Ud : public TwoGuests {
  protected:
    static constexpr std::uint32_t qkey = 0x11111111;

    Ud() {
        activate_ud(a_, a_qp_, qkey);
        activate_ud(b_, b_qp_, qkey);
    }

    void post_receive(std::uint32_t length = 5000) {
        const vrdma_sge to = b_mr_.sge(0, length);
        b_qp_.post_recv({&to, 1});
    }

    void send(std::span<const std::byte> data, AhId ah, std::uint32_t key = qkey) {
        a_qp_.post_send({.flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
                         .inline_data = data,
                         .ah = ah,
                         .dest_qpn = b_qp_.id(),
                         .qkey = key});
    }

    // Expects the datagram to be sent, and no completion at the receiver.
    void expect_dropped() {
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
        settle();
        EXPECT_FALSE(b_cq_.poll());
        EXPECT_EQ(state_of(b_, b_qp_), IBV_QPS_RTS);
    }

    GuestQp a_qp_ = a_.create_qp(a_cq_, a_cq_, {.type = hca::QpType::ud});
    GuestQp b_qp_ = b_.create_qp(b_cq_, b_cq_, {.type = hca::QpType::ud});
    MemoryRegion a_mr_ = a_.register_mr(1 << 16);
    MemoryRegion b_mr_ = b_.register_mr(1 << 16);
    AhId to_b_ = a_.create_ah(b_.gid());
};

// Send a datagram with immediate data between IPv4 GIDs; expect payload at byte 40, the sender's
// QPN, and an IPv4 header with a right checksum in the 20 bytes before the payload.
TEST_F(Ud, DeliversWithHeader) {
    post_receive();
    a_mr_.buffer.fill(1);
    const vrdma_sge from[] = {a_mr_.sge(0, 96), a_mr_.sge(5000, 4000)};
    a_qp_.post_send({.opcode = VRDMA_SQ_SEND_WITH_IMM,
                     .imm = 7,
                     .sges = from,
                     .ah = to_b_,
                     .dest_qpn = b_qp_.id(),
                     .qkey = qkey});
    const Completion received = wait(b_cq_);
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.byte_len, 40u + 4096u);
    EXPECT_EQ(received.src_qpn, a_qp_.id().value);
    EXPECT_TRUE(received.with_grh);
    EXPECT_EQ(received.header, VRDMA_CQE_HEADER_IPV4);
    EXPECT_EQ(received.imm, 7u);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(b_mr_.buffer.read(40, 96), a_mr_.buffer.read(0, 96));
    EXPECT_EQ(b_mr_.buffer.read(136, 4000), a_mr_.buffer.read(5000, 4000));

    const auto bytes = b_mr_.buffer.read(20, 20);
    iphdr header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    EXPECT_EQ(header.version, 4);
    EXPECT_EQ(header.ihl, 5);
    EXPECT_EQ(header.protocol, IPPROTO_UDP);
    EXPECT_EQ(ntohl(header.saddr), 0x0a000001u);
    EXPECT_EQ(ntohl(header.daddr), 0x0a000002u);
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < bytes.size(); i += 2) {
        sum += std::to_integer<std::uint32_t>(bytes[i]) << 8 |
               std::to_integer<std::uint32_t>(bytes[i + 1]);
    }
    EXPECT_EQ((sum & 0xffff) + (sum >> 16), 0xffffu);
}

// Send five bytes with and without immediate data; expect the IPv4 header to contain the length of
// the packet: headers, immediate, padding and ICRC included.
TEST_F(Ud, HeaderHoldsThePacketsLength) {
    constexpr std::size_t without_imm = 20 + 8 + 12 + 8 + 8 + 4;
    for (const vrdma_sq_opcode opcode : {VRDMA_SQ_SEND, VRDMA_SQ_SEND_WITH_IMM}) {
        post_receive();
        a_qp_.post_send({.opcode = opcode,
                         .flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
                         .inline_data = Buffer::pattern(1, 5),
                         .ah = to_b_,
                         .dest_qpn = b_qp_.id(),
                         .qkey = qkey});
        EXPECT_EQ(wait(b_cq_).byte_len, 45u);
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
        iphdr header;
        std::memcpy(&header, b_mr_.buffer.read(20, 20).data(), sizeof(header));
        EXPECT_EQ(ntohs(header.tot_len), without_imm + (opcode == VRDMA_SQ_SEND ? 0 : 4));
    }
}

// Send between GIDs that are IPv6 addresses, on both RoCE versions; expect an IPv6 header, or a GRH
// with IBTA's protocol number.
TEST_F(Ud, HeaderHoldsTheGids) {
    hca::Gid from = ipv4_gid(1);
    hca::Gid to = ipv4_gid(2);
    from[0] = to[0] = 0xfd;
    for (const std::uint8_t type : {VRDMA_GID_ROCE_V1, VRDMA_GID_ROCE_V2}) {
        ASSERT_TRUE(a_.slice().set_gid(0, type, from, 0));
        ASSERT_TRUE(b_.slice().set_gid(0, type, to, 0));
        post_receive();
        send(Buffer::pattern(1, 10), a_.create_ah(to));
        const Completion received = wait(b_cq_);
        ASSERT_EQ(received.byte_len, 50u);
        EXPECT_EQ(received.header,
                  type == VRDMA_GID_ROCE_V1 ? VRDMA_CQE_HEADER_GRH : VRDMA_CQE_HEADER_IPV6);
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
        const auto header = b_mr_.buffer.read(0, 40);
        EXPECT_EQ(header[0], std::byte{0x60});
        EXPECT_EQ(header[6], type == VRDMA_GID_ROCE_V1 ? std::byte{27} : std::byte{IPPROTO_UDP});
        EXPECT_EQ(header[7], std::byte{64});
        EXPECT_EQ(std::memcmp(&header[8], from.data(), from.size()), 0);
        EXPECT_EQ(std::memcmp(&header[24], to.data(), to.size()), 0);
    }
}

// A wrong Q_Key, an unknown GID, no receive, one that is too short, a QP in RESET: expect the
// datagram to be dropped.
TEST_F(Ud, DropsWhatNobodyTakes) {
    send(Buffer::pattern(1, 10), to_b_);
    expect_dropped();
    post_receive(49);
    send(Buffer::pattern(1, 10), to_b_, qkey + 1);
    expect_dropped();
    send(Buffer::pattern(1, 10), a_.create_ah(ipv4_gid(77)));
    expect_dropped();
    send(Buffer::pattern(1, 10), to_b_);
    expect_dropped();
    send(Buffer::pattern(1, 9), to_b_);
    EXPECT_EQ(wait(b_cq_).byte_len, 49u);
}

// A Q_Key with its highest bit set means the sending QP's own.
TEST_F(Ud, PrivilegedQkeyMeansTheQpsOwn) {
    post_receive();
    send(Buffer::pattern(1, 10), to_b_, 0x80000000);
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
}

// More than the MTU; expect LOC_LEN_ERR and SQE.
TEST_F(Ud, PayloadIsAtMostTheMtu) {
    const vrdma_sge from = a_mr_.sge(0, hca::max_mtu + 1);
    a_qp_.post_send({.sges = {&from, 1}, .ah = to_b_, .dest_qpn = b_qp_.id(), .qkey = qkey});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(state_of(a_, a_qp_), IBV_QPS_SQE);
}

// An address handle that does not exist, and one of another PD; expect LOC_QP_OP_ERR.
TEST_F(Ud, AddressHandleMustBeOfThePd) {
    for (const AhId ah : {AhId{4711}, a_.create_ah(b_.gid(), PdId{2})}) {
        post_receive();
        send(Buffer::pattern(1, 10), ah);
        const Completion failed = wait(a_cq_);
        EXPECT_EQ(failed.status, IBV_WC_LOC_QP_OP_ERR);
        EXPECT_EQ(failed.vendor_err, VRDMA_VERR_AH);
        ASSERT_TRUE(a_.slice().modify_qp(a_qp_.id(), state_attr(IBV_QPS_RTS)));
    }
}

// The bytes after the first word of the WQE of a datagram of 8 bytes with its address vector.
std::vector<std::byte> wqe_with_av(const vrdma_av& av, AhId ah, Qpn to, std::uint32_t qkey) {
    vrdma_sq_wqe wqe{};
    wqe.length = 8;
    wqe.qkey = qkey;
    wqe.ud.ah = ah.value;
    wqe.ud.dest_qpn = to.value;
    std::vector<std::byte> bytes(sizeof(wqe) + sizeof(av) + 8, std::byte{7});
    std::memcpy(bytes.data(), &wqe, sizeof(wqe));
    std::memcpy(bytes.data() + sizeof(wqe), &av, sizeof(av));
    bytes.erase(bytes.begin(), bytes.begin() + sizeof(wqe.ctrl));
    return bytes;
}

constexpr std::uint32_t with_av = VRDMA_SET(VRDMA_SQ_OPCODE, std::uint32_t{VRDMA_SQ_SEND}) |
                                  VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE | VRDMA_SQ_AV;

vrdma_av av_to(const hca::Gid& gid) {
    vrdma_av av{};
    std::copy(gid.begin(), gid.end(), av.dgid);
    av.port_num = 1;
    return av;
}

// A datagram without an AH, whose WQE holds the address vector; expect it to arrive complete.
TEST_F(Ud, AddressVectorInTheWqe) {
    post_receive();
    a_qp_.post_raw_send(with_av, wqe_with_av(av_to(b_.gid()), {}, b_qp_.id(), qkey));
    EXPECT_EQ(wait(b_cq_).byte_len, 48u);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(b_mr_.buffer.read(40, 8), std::vector<std::byte>(8, std::byte{7}));
}

// Address vectors with a bad port or a reserved byte, together with an AH, with too much inline
// data behind them, or in a WQE of RC; expect LOC_QP_OP_ERR.
TEST_F(Ud, AddressVectorInTheWqeIsChecked) {
    auto other_port = av_to(b_.gid());
    other_port.port_num = 2;
    auto reserved = av_to(b_.gid());
    reserved.reserved = 1;
    const auto av = av_to(b_.gid());
    auto too_long = wqe_with_av(av, {}, b_qp_.id(), qkey);
    too_long[0] = std::byte{128 - VRDMA_SQ_PAYLOAD_OFFSET - sizeof(vrdma_av) + 1};
    for (const auto& wqe : {wqe_with_av(other_port, {}, b_qp_.id(), qkey),
                            wqe_with_av(reserved, {}, b_qp_.id(), qkey),
                            wqe_with_av(av, to_b_, b_qp_.id(), qkey), too_long}) {
        a_qp_.post_raw_send(with_av, wqe);
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_LOC_QP_OP_ERR);
        ASSERT_TRUE(a_.slice().modify_qp(a_qp_.id(), state_attr(IBV_QPS_RTS)));
    }
    GuestQp rc = a_.create_qp(a_cq_, a_cq_, {});
    GuestQp peer = b_.create_qp(b_cq_, b_cq_, {});
    connect_pair(rc, peer);
    rc.post_raw_send(with_av, wqe_with_av(av, {}, {}, 0));
    EXPECT_EQ(wait(a_cq_).vendor_err, VRDMA_VERR_RESERVED);
}

// A write on UD; expect LOC_QP_OP_ERR.
TEST_F(Ud, OnlySends) {
    a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE, .ah = to_b_});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_LOC_QP_OP_ERR);
}

// A datagram into a bad receive buffer; expect LOC_PROT_ERR and the receiver in error.
TEST_F(Ud, ReceiverFailsOnItsOwnBuffer) {
    const vrdma_sge to{.addr = 0, .length = 100, .lkey = 4711};
    b_qp_.post_recv({&to, 1});
    send(Buffer::pattern(1, 10), to_b_);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(state_of(b_, b_qp_), IBV_QPS_ERR);
}

} // namespace
} // namespace vrdma::test
