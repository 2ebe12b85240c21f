// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <gtest/gtest.h>

#include "queue_fixture.h"

namespace vrdma::test
{
namespace
{

constexpr uint32_t sequence_one = VRDMA_SET(VRDMA_CQ_ARM_SEQUENCE, 1u);

// The device completes a receive with all fields of a CQE set: expects all of them in the ibv_wc.
TEST(PollCq, ReceiveFields)
{
	TestQp qp({.type = IBV_QPT_UD});
	TestCq cq;
	cq.attach(qp);
	std::vector<ibv_sge> none;
	ibv_recv_wr wr = recv_wr(none, 0xfeedfacecafe);
	ASSERT_EQ(qp.receive(wr), 0);

	cq.complete({.ctrl = VRDMA_SET(VRDMA_CQE_OPCODE, uint32_t(IBV_WC_RECV)) |
			     VRDMA_CQE_WITH_IMM | VRDMA_CQE_GRH | VRDMA_CQE_RECV,
		     .qpn = qp.queues.qpn,
		     .wqe_index = 0,
		     .byte_len = 140,
		     .imm = htobe32(99),
		     .src_qpn = 0x888,
		     .pkey_index = 3,
		     .header = VRDMA_CQE_HEADER_IPV4});
	const auto wcs = cq.poll();
	ASSERT_EQ(wcs.size(), 1u);
	EXPECT_EQ(wcs[0].wr_id, 0xfeedfacecafeu);
	EXPECT_EQ(wcs[0].status, IBV_WC_SUCCESS);
	EXPECT_EQ(wcs[0].opcode, IBV_WC_RECV);
	EXPECT_EQ(wcs[0].byte_len, 140u);
	EXPECT_EQ(wcs[0].imm_data, htobe32(99));
	EXPECT_EQ(wcs[0].qp_num, qp.queues.qpn);
	EXPECT_EQ(wcs[0].src_qp, 0x888u);
	EXPECT_EQ(wcs[0].wc_flags, unsigned(IBV_WC_GRH | IBV_WC_WITH_IMM));
	EXPECT_EQ(wcs[0].pkey_index, 3);
	EXPECT_EQ(wcs[0].sl, VRDMA_CQE_HEADER_IPV4);
}

// The device completes a receive that invalidated a key: expects the key, and no immediate data.
TEST(PollCq, InvalidatedKey)
{
	TestQp qp;
	TestCq cq;
	cq.attach(qp);
	std::vector<ibv_sge> none;
	ibv_recv_wr wr = recv_wr(none);
	ASSERT_EQ(qp.receive(wr), 0);

	cq.complete({.ctrl = VRDMA_SET(VRDMA_CQE_OPCODE, uint32_t(IBV_WC_RECV)) |
			     VRDMA_CQE_WITH_INV | VRDMA_CQE_RECV,
		     .qpn = qp.queues.qpn,
		     .imm = 0x12345678});
	const auto wcs = cq.poll();
	ASSERT_EQ(wcs.size(), 1u);
	EXPECT_EQ(wcs[0].wc_flags, unsigned(IBV_WC_WITH_INV));
	EXPECT_EQ(wcs[0].invalidated_rkey, 0x12345678u);
}

// The device flushes one send of each opcode and a receive: expects the status, the vendor's error
// and the opcode that was posted, although the CQE does not contain it.
TEST(PollCq, ErrorsNameTheOpcode)
{
	struct Case {
		ibv_wr_opcode posted;
		ibv_wc_opcode completed;
	};
	for (const auto &[posted, completed] :
	     {Case{IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE},
	      Case{IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE}, Case{IBV_WR_SEND, IBV_WC_SEND},
	      Case{IBV_WR_SEND_WITH_IMM, IBV_WC_SEND}, Case{IBV_WR_RDMA_READ, IBV_WC_RDMA_READ},
	      Case{IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP},
	      Case{IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD},
	      Case{IBV_WR_LOCAL_INV, IBV_WC_LOCAL_INV}, Case{IBV_WR_SEND_WITH_INV, IBV_WC_SEND},
	      Case{IBV_WR_ATOMIC_WRITE, IBV_WC_ATOMIC_WRITE}}) {
		TestQp qp;
		TestCq cq;
		cq.attach(qp);
		std::vector<ibv_sge> sges(1);
		ibv_send_wr swr = send_wr(posted, sges, 0, 11);
		ibv_recv_wr rwr = recv_wr(sges, 12);
		ASSERT_EQ(qp.send(swr), 0);
		ASSERT_EQ(qp.receive(rwr), 0);

		const uint32_t status = IBV_WC_WR_FLUSH_ERR;
		cq.complete({.ctrl = status, .qpn = qp.queues.qpn, .vendor_err = VRDMA_VERR_PEER});
		cq.complete({.ctrl = status | VRDMA_CQE_RECV, .qpn = qp.queues.qpn});
		const auto wcs = cq.poll();
		ASSERT_EQ(wcs.size(), 2u);
		EXPECT_EQ(wcs[0].status, IBV_WC_WR_FLUSH_ERR);
		EXPECT_EQ(wcs[0].opcode, completed);
		EXPECT_EQ(wcs[0].wr_id, 11u);
		EXPECT_EQ(wcs[0].vendor_err, uint32_t(VRDMA_VERR_PEER));
		EXPECT_EQ(wcs[1].opcode, IBV_WC_RECV);
		EXPECT_EQ(wcs[1].wr_id, 12u);
	}
}

// Three CQEs, polled two at a time, then none: expects two, one, none, and the consumer index that
// the device sees after each.
TEST(PollCq, BatchesAndConsumer)
{
	TestQp qp;
	TestCq cq;
	cq.attach(qp);
	for (uint32_t i = 0; i < 3; i++)
		cq.complete_send(qp.queues.qpn, i);

	EXPECT_EQ(cq.poll(2).size(), 2u);
	EXPECT_EQ(cq.control().consumer, 2u);
	EXPECT_EQ(cq.poll(2).size(), 1u);
	EXPECT_EQ(cq.control().consumer, 3u);
	EXPECT_EQ(cq.poll(2).size(), 0u);
	EXPECT_EQ(cq.poll(0).size(), 0u);
	EXPECT_EQ(cq.control().consumer, 3u);
}

// CQEs over several passes of rings of depth one and eight: expects each once, and none before it
// is written.
TEST(PollCq, Phases)
{
	for (uint32_t depth : {1u, 8u}) {
		TestQp qp;
		TestCq cq(depth);
		cq.attach(qp);
		for (uint32_t i = 0; i < 5 * depth + 3; i++) {
			ASSERT_EQ(cq.poll().size(), 0u) << i;
			cq.complete_send(qp.queues.qpn, i);
			ASSERT_EQ(cq.poll().size(), 1u) << i;
		}
	}
}

// CQEs of QP number 0 and of a QP that is in no table, between good ones: expects the former to be
// skipped and consumed.
TEST(PollCq, SkipsWhatHasNoQp)
{
	TestQp qp;
	TestCq cq;
	cq.attach(qp);
	cq.complete_send(0, 0);
	cq.complete_send(qp.queues.qpn, 0);
	cq.complete_send(0xdead, 0);

	EXPECT_EQ(cq.poll().size(), 1u);
	EXPECT_EQ(cq.control().consumer, 3u);
}

// A CQE with a WQE index beyond the ring: expects a wr_id of the ring, and no access behind it.
TEST(PollCq, BoundsTheWqeIndex)
{
	TestQp qp;
	TestCq cq;
	cq.attach(qp);
	std::vector<ibv_sge> none;
	ibv_send_wr wr = send_wr(IBV_WR_SEND, none, 0, 42);
	ASSERT_EQ(qp.send(wr), 0);

	cq.complete_send(qp.queues.qpn, 0x80000000);
	const auto wcs = cq.poll();
	ASSERT_EQ(wcs.size(), 1u);
	EXPECT_EQ(wcs[0].wr_id, 42u);
}

// Arms three times without an event: expects a new sequence number each time.
TEST(ArmCq, EachRequestIsNew)
{
	TestCq cq;
	for (uint32_t i = 1; i <= 3; i++) {
		vrdma_queue_arm(&cq.queue, false);
		EXPECT_EQ(cq.control().arm, i * sequence_one);
	}
}

// Arms for solicited CQEs: expects the flag. Expects no flag while a request for any CQE is
// pending, and the flag again after that request has fired.
TEST(ArmCq, SolicitedDoesNotWeakenAny)
{
	TestCq cq;
	vrdma_queue_arm(&cq.queue, true);
	EXPECT_EQ(cq.control().arm, sequence_one | VRDMA_CQ_ARM_SOLICITED);

	vrdma_queue_arm(&cq.queue, false);
	EXPECT_EQ(cq.control().arm, 2 * sequence_one);
	vrdma_queue_arm(&cq.queue, true);
	EXPECT_EQ(cq.control().arm, 3 * sequence_one) << "the request for any is still pending";

	cq.control().fired = 3 * sequence_one;
	vrdma_queue_arm(&cq.queue, true);
	EXPECT_EQ(cq.control().arm, (4 * sequence_one) | VRDMA_CQ_ARM_SOLICITED);
}

// Arms after the largest sequence number: expects 0 next, and no carry into the flag.
TEST(ArmCq, SequenceWraps)
{
	TestCq cq;
	cq.queue.arm = VRDMA_CQ_ARM_SEQUENCE;
	cq.control().fired = VRDMA_CQ_ARM_SEQUENCE;
	vrdma_queue_arm(&cq.queue, false);
	EXPECT_EQ(cq.control().arm, 0u);
}

} // namespace
} // namespace vrdma::test
