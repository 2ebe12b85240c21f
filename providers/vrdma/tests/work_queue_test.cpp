// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <gtest/gtest.h>

#include "queue_fixture.h"

namespace vrdma::test
{
namespace
{

constexpr uint32_t device_max_inline = 512;

ibv_qp_cap cap_of(uint32_t send_wr, uint32_t recv_wr, uint32_t send_sge, uint32_t recv_sge,
		  uint32_t inline_data)
{
	return {send_wr, recv_wr, send_sge, recv_sge, inline_data};
}

// Requests 5 and 3 WQEs of one SGE: expects depths of 8 and 4, the least strides, and max_inline to
// be all that the stride holds.
TEST(QpLayout, RoundsUpAndReportsIt)
{
	ibv_qp_cap cap = cap_of(5, 3, 1, 1, 0);
	vrdma_qp_layout layout{};

	ASSERT_EQ(vrdma_qp_layout_init(&layout, &cap, IBV_QPT_RC, device_max_inline), 0);
	EXPECT_EQ(layout.sq_depth, 8u);
	EXPECT_EQ(layout.rq_depth, 4u);
	EXPECT_EQ(layout.sq_stride_shift, 6);
	EXPECT_EQ(layout.rq_stride_shift, 5);
	EXPECT_EQ(cap.max_send_wr, 8u);
	EXPECT_EQ(cap.max_recv_wr, 4u);
	EXPECT_EQ(cap.max_inline_data, 64u - VRDMA_SQ_PAYLOAD_OFFSET);
}

// Requests SGEs and inline data just within and just over a stride: expects the next stride only in
// the second case.
TEST(QpLayout, StrideHoldsTheLargerOfSgesAndInlineData)
{
	struct Case {
		uint32_t sges, inline_data;
		int shift;
	};
	for (const auto &[sges, inline_data, shift] :
	     {Case{2, 40, 6}, Case{3, 0, 7}, Case{0, 41, 7}, Case{6, 104, 7}, Case{6, 105, 8},
	      Case{30, 0, 9}, Case{0, 0, 6}}) {
		ibv_qp_cap cap = cap_of(1, 1, sges, sges, inline_data);
		vrdma_qp_layout layout{};

		ASSERT_EQ(vrdma_qp_layout_init(&layout, &cap, IBV_QPT_RC, device_max_inline), 0);
		EXPECT_EQ(layout.sq_stride_shift, shift) << sges << " SGEs, " << inline_data;
		EXPECT_GE(1u << layout.rq_stride_shift, VRDMA_RQ_PAYLOAD_OFFSET + 16 * sges);
	}
}

// Requests a QP with neither queue: expects depths of 0.
TEST(QpLayout, QueuesMayBeAbsent)
{
	ibv_qp_cap cap = cap_of(0, 0, 0, 0, 0);
	vrdma_qp_layout layout{};

	ASSERT_EQ(vrdma_qp_layout_init(&layout, &cap, IBV_QPT_RC, 0), 0);
	EXPECT_EQ(layout.sq_depth, 0u);
	EXPECT_EQ(layout.rq_depth, 0u);
	EXPECT_EQ(cap.max_inline_data, 0u);
}

// Exceeds each limit of the format and of the device alone: expects EINVAL.
TEST(QpLayout, RefusesMoreThanTheLimits)
{
	for (ibv_qp_cap cap :
	     {cap_of(VRDMA_MAX_QUEUE_DEPTH + 1, 1, 1, 1, 0),
	      cap_of(1, VRDMA_MAX_QUEUE_DEPTH + 1, 1, 1, 0), cap_of(1, 1, VRDMA_MAX_SGE + 1, 1, 0),
	      cap_of(1, 1, 1, VRDMA_MAX_SGE + 1, 0), cap_of(1, 1, 1, 1, device_max_inline + 1),
	      cap_of(1, 1, ~0u, 1, 0), cap_of(~0u, 1, 1, 1, 0)}) {
		vrdma_qp_layout layout{};
		EXPECT_EQ(vrdma_qp_layout_init(&layout, &cap, IBV_QPT_RC, device_max_inline),
			  EINVAL);
	}
	ibv_qp_cap cap = cap_of(1, 1, 1, 1, 4096);
	vrdma_qp_layout layout{};
	EXPECT_EQ(vrdma_qp_layout_init(&layout, &cap, IBV_QPT_RC, 1u << 20), EINVAL)
		<< "stride over a page";
}

// Posts to both queues in every state: expects EINVAL where IBA 10.3.1 refuses the post.
TEST(QpState, DecidesWhatMayBePosted)
{
	struct Case {
		ibv_qp_state state;
		int send, receive;
	};
	for (const auto &[state, send, receive] :
	     {Case{IBV_QPS_RESET, EINVAL, EINVAL}, Case{IBV_QPS_INIT, EINVAL, 0},
	      Case{IBV_QPS_RTR, EINVAL, 0}, Case{IBV_QPS_RTS, 0, 0}, Case{IBV_QPS_SQD, 0, 0},
	      Case{IBV_QPS_SQE, 0, 0}, Case{IBV_QPS_ERR, 0, 0}}) {
		TestQp qp({.state = state});
		std::vector<ibv_sge> none;
		ibv_send_wr swr = send_wr(IBV_WR_SEND, none);
		ibv_recv_wr rwr = recv_wr(none);

		EXPECT_EQ(qp.send(swr), send) << "state " << state;
		EXPECT_EQ(qp.receive(rwr), receive) << "state " << state;
		EXPECT_EQ(qp.sq_valid(0), send == 0);
		EXPECT_EQ(qp.rq_valid(0), receive == 0);
	}
}

// Fills both rings, completes half of each, resets, and fills them again after RTS: expects empty
// rings, then WQEs of the first pass and no room for more.
TEST(QpReset, StartsAnew)
{
	TestQp qp;
	std::vector<ibv_sge> none;
	ibv_send_wr swr = send_wr(IBV_WR_SEND, none);
	ibv_recv_wr rwr = recv_wr(none);

	for (int i = 0; i < 4; i++) {
		ASSERT_EQ(qp.send(swr), 0);
		ASSERT_EQ(qp.receive(rwr), 0);
	}
	qp.queues.sq.tail = qp.queues.rq.tail = 2;
	vrdma_queue_pair_reset(&qp.queues);
	for (uint32_t i = 0; i < 4; i++) {
		EXPECT_FALSE(qp.sq_valid(i));
		EXPECT_FALSE(qp.rq_valid(i));
	}
	EXPECT_EQ(qp.send(swr), EINVAL);
	EXPECT_EQ(qp.receive(rwr), EINVAL);

	vrdma_queue_pair_set_state(&qp.queues, IBV_QPS_RTS);
	for (uint32_t i = 0; i < 4; i++) {
		EXPECT_EQ(qp.send(swr), 0);
		EXPECT_EQ(qp.receive(rwr), 0);
		EXPECT_TRUE(qp.sq_valid(i));
		EXPECT_TRUE(qp.rq_valid(i));
	}
	EXPECT_EQ(qp.send(swr), ENOMEM);
	EXPECT_EQ(qp.receive(rwr), ENOMEM);
}

} // namespace
} // namespace vrdma::test
