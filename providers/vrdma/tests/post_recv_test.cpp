// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <gtest/gtest.h>

#include "queue_fixture.h"

namespace vrdma::test
{
namespace
{

// Posts a receive of two SGEs: expects every field of the WQE.
TEST(PostRecv, Fields)
{
	TestQp qp;
	std::vector<ibv_sge> sges{{0x1000, 100, 7}, {0x2000, 200, 8}};
	ibv_recv_wr wr = recv_wr(sges);

	ASSERT_EQ(qp.receive(wr), 0);
	const vrdma_rq_wqe *wqe = qp.received(0);
	EXPECT_EQ(wqe->ctrl, VRDMA_WQE_PHASE | VRDMA_SET(VRDMA_WQE_NUM_SGE, 2u));
	for (__le32 reserved : wqe->reserved)
		EXPECT_EQ(reserved, 0u);
	const auto *sge = payload<vrdma_sge>(wqe, VRDMA_RQ_PAYLOAD_OFFSET);
	EXPECT_EQ(sge[0].addr, 0x1000u);
	EXPECT_EQ(sge[1].length, 200u);
	EXPECT_EQ(sge[1].lkey, 8u);
}

// Posts a list of three receives, the second with too many SGEs, and then a receive with a negative
// number of SGEs: expects only the first to be posted.
TEST(PostRecv, ListStopsAtTheBadRequest)
{
	TestQp qp;
	std::vector<ibv_sge> one(1), three(3);
	ibv_recv_wr wrs[3] = {recv_wr(one), recv_wr(three), recv_wr(one)};
	wrs[0].next = &wrs[1];
	wrs[1].next = &wrs[2];

	EXPECT_EQ(qp.receive(wrs[0]), EINVAL);
	EXPECT_EQ(qp.bad_receive, &wrs[1]);
	EXPECT_TRUE(qp.rq_valid(0));
	EXPECT_FALSE(qp.rq_valid(1));

	wrs[2].num_sge = -1;
	EXPECT_EQ(qp.receive(wrs[2]), EINVAL);
	EXPECT_FALSE(qp.rq_valid(1));
}

// Fills the ring and completes one WQE at a time, over several passes: expects ENOMEM when the ring
// is full, the wr_ids in order, and the phases of each pass.
TEST(PostRecv, FullRingAndWrap)
{
	TestQp qp;
	TestCq cq;
	cq.attach(qp);
	std::vector<ibv_sge> none;
	uint32_t posted = 0;

	for (; posted < 4; posted++) {
		ibv_recv_wr wr = recv_wr(none, posted);
		ASSERT_EQ(qp.receive(wr), 0);
	}
	for (uint32_t done = 0; done < 20; done++, posted++) {
		ibv_recv_wr wr = recv_wr(none, posted);
		ASSERT_EQ(qp.receive(wr), ENOMEM);
		ASSERT_EQ(qp.bad_receive, &wr);

		cq.complete_send(qp.queues.qpn, done, VRDMA_CQE_RECV);
		const auto wcs = cq.poll();
		ASSERT_EQ(wcs.size(), 1u);
		ASSERT_EQ(wcs[0].wr_id, done);
		ASSERT_FALSE(qp.rq_valid(posted));
		ASSERT_EQ(qp.receive(wr), 0);
		ASSERT_TRUE(qp.rq_valid(posted));
	}
}

} // namespace
} // namespace vrdma::test
