// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Reliable connections: what each operation does when all is well.
#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

using Rc = ConnectedPair;

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
    EXPECT_EQ(received.byte_len, 10000u);
    EXPECT_EQ(received.qpn, b_qp_.id().value);
    const Completion sent = wait(a_cq_);
    EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
    EXPECT_EQ(sent.opcode, IBV_WC_SEND);
    EXPECT_FALSE(sent.receive);
    EXPECT_EQ(b_mr_.buffer.read(5, 10000), a_mr_.buffer.read(100, 10000));
}

TEST_F(Rc, WriteReachesRemoteMemoryWithoutCompletionThere) {
    a_mr_.buffer.fill(2);
    const vrdma_sge from = a_mr_.sge(0, 8192);
    a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                     .sges = {&from, 1},
                     .rkey = b_mr_.key,
                     .raddr = b_mr_.start + 4000});

    const Completion sent = wait(a_cq_);
    EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
    EXPECT_EQ(sent.opcode, IBV_WC_RDMA_WRITE);
    EXPECT_EQ(b_mr_.buffer.read(4000, 8192), a_mr_.buffer.read(0, 8192));
    EXPECT_FALSE(b_cq_.poll());
}

} // namespace
} // namespace vrdma::test
