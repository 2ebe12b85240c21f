// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "queue_fixture.h"
#include "shared_receive_queue.h"

namespace vrdma::test
{
namespace
{

// An SRQ in plain memory, and the device's side of it.
class TestSrq
{
      public:
	explicit TestSrq(uint32_t max_wr = 4, uint32_t max_sge = 2)
	    : layout_(fit(max_wr, max_sge)),
	      buffer_(vrdma_srq_buffer_size(layout_.depth, layout_.stride_shift))
	{
		if (vrdma_shared_receive_queue_init(&queue, buffer_.data(), &layout_, max_sge))
			throw std::bad_alloc();
	}
	TestSrq(const TestSrq &) = delete;
	TestSrq &operator=(const TestSrq &) = delete;
	~TestSrq()
	{
		vrdma_shared_receive_queue_destroy(&queue);
	}

	int post(uint64_t wr_id)
	{
		std::vector<ibv_sge> one{{0x1000 + wr_id, 100, 7}};
		ibv_recv_wr wr = recv_wr(one, wr_id);
		return vrdma_shared_receive(&queue, &wr, &bad);
	}

	const vrdma_rq_wqe *wqe(uint32_t index)
	{
		return reinterpret_cast<const vrdma_rq_wqe *>(
			buffer_.data() + (uint64_t(index % layout_.depth) << layout_.stride_shift));
	}
	bool valid(uint32_t index)
	{
		const bool odd_pass = (index / layout_.depth) % 2 == 1;
		return bool(__atomic_load_n(&wqe(index)->ctrl, __ATOMIC_ACQUIRE) &
			    VRDMA_WQE_PHASE) != odd_pass;
	}
	// Takes the next WQE: returns its cookie.
	uint32_t take()
	{
		EXPECT_TRUE(valid(taken_));
		return wqe(taken_++)->cookie;
	}

	// Moves to another ring. The device uses the old ring until `between` returns.
	// Returns the result of the guest's part.
	template <typename Between> int resize(uint32_t depth, Between between)
	{
		PageBuffer next(vrdma_srq_buffer_size(depth, layout_.stride_shift));
		vrdma_srq_move move;

		EXPECT_EQ(vrdma_shared_receive_queue_begin_move(&queue), 0);
		int ret = vrdma_shared_receive_queue_prepare(&queue, &move, next.data(), depth);
		if (!ret) {
			between();
			std::swap(buffer_, next);
			layout_.depth = depth;
			vrdma_shared_receive_queue_adopt(&queue, &move);
		}
		vrdma_shared_receive_queue_end_move(&queue, &move);
		return ret;
	}
	int resize(uint32_t depth)
	{
		return resize(depth, [] {});
	}

	vrdma_shared_receive_queue queue;
	ibv_recv_wr *bad = nullptr;

      private:
	static vrdma_srq_layout fit(uint32_t max_wr, uint32_t max_sge)
	{
		vrdma_srq_layout layout{};
		ibv_srq_attr attr{.max_wr = max_wr, .max_sge = max_sge};
		if (vrdma_srq_layout_init(&layout, &attr))
			throw std::bad_alloc();
		return layout;
	}

	vrdma_srq_layout layout_;
	PageBuffer buffer_;
	uint32_t taken_ = 0;
};

vrdma_cqe receive_cqe(uint32_t qpn, uint32_t cookie, uint32_t flags = 0)
{
	return {.ctrl = VRDMA_CQE_RECV | flags, .qpn = qpn, .wqe_index = cookie};
}

// Requests sizes within and beyond the format's limits: expects powers of two that hold them, and
// EINVAL.
TEST(SharedReceive, Layout)
{
	vrdma_srq_layout layout{};
	ibv_srq_attr attr{.max_wr = 5, .max_sge = 3};
	ASSERT_EQ(vrdma_srq_layout_init(&layout, &attr), 0);
	EXPECT_EQ(layout.depth, 8u);
	EXPECT_EQ(layout.stride_shift, 6);
	EXPECT_EQ(attr.max_wr, 8u);
	EXPECT_EQ(attr.max_sge, 3u);
	for (ibv_srq_attr wrong : {ibv_srq_attr{.max_wr = 0, .max_sge = 1},
				   ibv_srq_attr{.max_wr = VRDMA_MAX_QUEUE_DEPTH + 1, .max_sge = 1},
				   ibv_srq_attr{.max_wr = 1, .max_sge = VRDMA_MAX_SGE + 1}})
		EXPECT_EQ(vrdma_srq_layout_init(&layout, &wrong), EINVAL);
}

// Posts a receive: expects every field of the WQE.
TEST(SharedReceive, Fields)
{
	TestSrq srq;
	ASSERT_EQ(srq.post(9), 0);
	EXPECT_EQ(srq.wqe(0)->ctrl, VRDMA_WQE_PHASE | VRDMA_SET(VRDMA_WQE_NUM_SGE, 1u));
	for (__le32 reserved : srq.wqe(0)->reserved)
		EXPECT_EQ(reserved, 0u);
	const auto *sge = payload<vrdma_sge>(srq.wqe(0), VRDMA_RQ_PAYLOAD_OFFSET);
	EXPECT_EQ(sge->addr, 0x1009u);
	EXPECT_EQ(sge->length, 100u);
	EXPECT_EQ(sge->lkey, 7u);
}

// Posts a list that is too long for the ring, and one with too many SGEs: expects the errno, the
// refused request in bad_wr, and the requests before it to be posted.
TEST(SharedReceive, ListStopsAtTheBadRequest)
{
	TestSrq srq(2);
	std::vector<ibv_sge> one(1), three(3);
	std::array<ibv_recv_wr, 3> wrs{recv_wr(one), recv_wr(one), recv_wr(one)};
	wrs[0].next = &wrs[1];
	wrs[1].next = &wrs[2];
	EXPECT_EQ(vrdma_shared_receive(&srq.queue, wrs.data(), &srq.bad), ENOMEM);
	EXPECT_EQ(srq.bad, &wrs[2]);
	EXPECT_TRUE(srq.valid(1));

	vrdma_shared_receive_complete(&srq.queue, srq.take());
	ibv_recv_wr wrong = recv_wr(three);
	EXPECT_EQ(vrdma_shared_receive(&srq.queue, &wrong, &srq.bad), EINVAL);
	EXPECT_EQ(srq.bad, &wrong);
	wrong.num_sge = -1;
	EXPECT_EQ(vrdma_shared_receive(&srq.queue, &wrong, &srq.bad), EINVAL);
	EXPECT_EQ(srq.post(1), 0);
}

// Completes WQEs out of order over many passes, with one outstanding all the time: expects each
// wr_id, a different cookie for each outstanding WQE, and ENOMEM while all are outstanding.
TEST(SharedReceive, CompletesInAnyOrder)
{
	TestSrq srq(4);
	uint64_t next = 0;
	std::map<uint32_t, uint64_t> out; // cookie to wr_id
	const auto refill = [&] {
		while (out.size() < 4) {
			ASSERT_EQ(srq.post(next), 0);
			EXPECT_TRUE(out.emplace(srq.take(), next++).second);
		}
		EXPECT_EQ(srq.post(99), ENOMEM);
	};
	refill();
	const uint32_t kept = out.begin()->first;
	for (int pass = 0; pass < 20; pass++) {
		for (int i = 0; i < 3; i++) {
			const auto last = std::prev(out.end());
			const auto victim = last->first == kept ? std::prev(last) : last;
			EXPECT_EQ(vrdma_shared_receive_complete(&srq.queue, victim->first),
				  victim->second);
			out.erase(victim);
		}
		refill();
	}
	EXPECT_EQ(vrdma_shared_receive_complete(&srq.queue, kept), 0u);
}

// Two QPs of one SRQ complete to one CQ: expects the wr_ids by cookie, and the WQEs free again.
TEST(SharedReceive, PollsByCookie)
{
	TestSrq srq(2);
	TestQp a({.qpn = 1}), b({.qpn = 2});
	TestCq cq;
	for (TestQp *qp : {&a, &b}) {
		qp->queues.srq = &srq.queue;
		cq.attach(*qp);
	}
	ASSERT_EQ(srq.post(10), 0);
	ASSERT_EQ(srq.post(11), 0);
	const uint32_t first = srq.take(), second = srq.take();
	cq.complete(receive_cqe(2, second));
	cq.complete(
		receive_cqe(1, first, VRDMA_SET(VRDMA_CQE_STATUS, uint32_t(IBV_WC_WR_FLUSH_ERR))));
	EXPECT_EQ(srq.post(12), ENOMEM);
	const auto wcs = cq.poll();
	ASSERT_EQ(wcs.size(), 2u);
	EXPECT_EQ(wcs[0].wr_id, 11u);
	EXPECT_EQ(wcs[1].wr_id, 10u);
	EXPECT_EQ(wcs[1].opcode, IBV_WC_RECV);
	EXPECT_EQ(srq.queue.free_count, 2u);
	cq.detach(a);
	cq.detach(b);
}

// A QP is detached and another is reset while they have CQEs that were not polled: expects each WQE
// of these CQEs to be freed once, and CQEs of sends to free none.
TEST(SharedReceive, StrikingOutFreesWqes)
{
	TestSrq srq(4);
	TestQp gone({.qpn = 1}), reset({.qpn = 2});
	TestCq cq;
	for (TestQp *qp : {&gone, &reset}) {
		qp->queues.srq = &srq.queue;
		cq.attach(*qp);
	}
	for (uint64_t i = 0; i < 4; i++)
		ASSERT_EQ(srq.post(i), 0);
	cq.complete(receive_cqe(1, srq.take()));
	cq.complete_send(1, 0);
	cq.complete(receive_cqe(2, srq.take()));
	cq.complete(receive_cqe(1, srq.take()));

	cq.detach(gone);
	EXPECT_EQ(srq.queue.free_count, 2u);
	vrdma_cq_strike_out(&cq.queue, &reset.queues);
	EXPECT_EQ(srq.queue.free_count, 3u);
	EXPECT_EQ(cq.poll().size(), 0u);
	EXPECT_EQ(srq.queue.free_count, 3u);
	cq.detach(reset);
}

// Posts and moves after a fork(), which closes the queue in the child: expects EINVAL.
TEST(SharedReceive, ClosedQueueRefuses)
{
	TestSrq srq;
	vrdma_shared_receive_queue_forked(&srq.queue);
	EXPECT_EQ(srq.post(1), EINVAL);
	EXPECT_FALSE(srq.valid(0));
	EXPECT_EQ(vrdma_shared_receive_queue_begin_move(&srq.queue), EINVAL);
}

// Resizes up and down at many places of the ring, with WQEs posted, taken and completed out of
// order before, during and after the resize. Expects each WQE in its place, each wr_id by its
// cookie, and as many WQEs outstanding as the new size allows.
TEST(SharedReceive, ResizeKeepsWqesAndCookies)
{
	TestSrq srq(4);
	uint64_t next = 0, expected = 0;
	std::map<uint32_t, uint64_t> out; // taken: cookie to wr_id
	const auto take = [&] { EXPECT_TRUE(out.emplace(srq.take(), expected++).second); };
	const auto complete_last = [&] {
		const auto last = std::prev(out.end());
		EXPECT_EQ(vrdma_shared_receive_complete(&srq.queue, last->first), last->second);
		out.erase(last);
	};
	const auto fill = [&](uint32_t depth) {
		for (uint64_t i = out.size() + next - expected; i < depth; i++)
			ASSERT_EQ(srq.post(next++), 0);
		EXPECT_EQ(srq.post(99), ENOMEM);
		while (expected != next)
			take();
		EXPECT_FALSE(srq.valid(uint32_t(next)));
	};

	const uint32_t depths[] = {16, 4, 8, 64, 4, 32, 4};
	for (int round = 0; round < 100; round++) {
		const uint32_t depth = depths[round % std::size(depths)];
		for (uint32_t i = uint32_t(out.size()); i < 4; i++)
			ASSERT_EQ(srq.post(next++), 0);
		take();
		take();
		ASSERT_EQ(srq.resize(depth,
				     [&] {
					     take();
					     complete_last();
				     }),
			  0);
		EXPECT_EQ(vrdma_shared_receive_queue_depth(&srq.queue), depth);
		complete_last();
		fill(depth);
		while (out.size() > 1)
			complete_last();
	}
}

// Resizes to less than the number of outstanding WQEs, some of which are taken and not polled:
// expects EINVAL and the old ring in use, and success after enough were polled.
TEST(SharedReceive, ResizeBelowWhatIsOutstanding)
{
	TestSrq srq(8);
	for (uint64_t i = 0; i < 5; i++)
		ASSERT_EQ(srq.post(i), 0);
	const uint32_t first = srq.take();
	EXPECT_EQ(srq.resize(4), EINVAL);
	ASSERT_EQ(srq.post(5), 0);
	EXPECT_EQ(vrdma_shared_receive_complete(&srq.queue, first), 0u);
	EXPECT_EQ(srq.resize(4), EINVAL);
	EXPECT_EQ(vrdma_shared_receive_complete(&srq.queue, srq.take()), 1u);
	ASSERT_EQ(srq.resize(4), 0);
	for (uint64_t i = 2; i < 6; i++)
		EXPECT_EQ(vrdma_shared_receive_complete(&srq.queue, srq.take()), i);
}

// Repeatedly grows a queue whose WQEs are all outstanding: expects cookies that are not in use.
TEST(SharedReceive, GrowsWhenFull)
{
	TestSrq srq(2);
	std::map<uint32_t, uint64_t> out;
	uint64_t next = 0;
	for (uint32_t depth = 2; depth <= 32; depth *= 2) {
		ASSERT_EQ(srq.resize(depth), 0);
		while (out.size() < depth) {
			ASSERT_EQ(srq.post(next), 0);
			EXPECT_TRUE(out.emplace(srq.take(), next++).second);
		}
		EXPECT_EQ(srq.post(99), ENOMEM);
	}
	for (const auto &[cookie, wr_id] : out)
		EXPECT_EQ(vrdma_shared_receive_complete(&srq.queue, cookie), wr_id);
}

// A CQE of an XRC domain's SRQ: it names the SRQ, and a QP that may be of another process.
vrdma_cqe xrc_cqe(uint32_t srqn, uint32_t cookie, uint32_t status = IBV_WC_SUCCESS)
{
	return {.ctrl = VRDMA_CQE_RECV | VRDMA_CQE_XRC |
			VRDMA_SET(VRDMA_CQE_OPCODE, uint32_t{IBV_WC_RECV}) |
			VRDMA_SET(VRDMA_CQE_STATUS, status),
		.qpn = 0xabcdef,
		.wqe_index = cookie,
		.srqn = srqn};
}

TEST(XrcSrq, ItsCompletionsNameIt)
{
	TestCq cq;
	TestSrq first, second;
	first.queue.srqn = 5;
	second.queue.srqn = 6;
	vrdma_cq_attach_srq(&cq.queue, &first.queue);
	vrdma_cq_attach_srq(&cq.queue, &second.queue);
	ASSERT_EQ(first.post(10), 0);
	ASSERT_EQ(second.post(20), 0);
	cq.complete(xrc_cqe(5, first.take()));
	cq.complete(xrc_cqe(6, second.take(), IBV_WC_WR_FLUSH_ERR));
	cq.complete(xrc_cqe(7, 0)); // there is no SRQ 7
	const auto wcs = cq.poll();
	ASSERT_EQ(wcs.size(), 2u);
	EXPECT_EQ(wcs[0].wr_id, 10u);
	EXPECT_EQ(wcs[0].qp_num, 0xabcdefu);
	EXPECT_EQ(wcs[0].opcode, IBV_WC_RECV);
	EXPECT_EQ(wcs[1].wr_id, 20u);
	EXPECT_EQ(wcs[1].status, IBV_WC_WR_FLUSH_ERR);
	vrdma_cq_detach_srq(&cq.queue, &first.queue);
	vrdma_cq_detach_srq(&cq.queue, &second.queue);
}

// Expects neither the detach of another SRQ nor that of a QP with the CQE's QPN to strike the SRQ's
// CQEs out.
TEST(XrcSrq, ItsCompletionsEndWithIt)
{
	TestCq cq;
	TestQp qp{{.qpn = 0xabcdef}};
	TestSrq first, second;
	first.queue.srqn = 5;
	second.queue.srqn = 6;
	cq.attach(qp);
	vrdma_cq_attach_srq(&cq.queue, &first.queue);
	vrdma_cq_attach_srq(&cq.queue, &second.queue);
	ASSERT_EQ(first.post(10), 0);
	ASSERT_EQ(second.post(20), 0);
	cq.complete(xrc_cqe(5, first.take()));
	cq.complete(xrc_cqe(6, second.take()));
	cq.detach(qp);
	vrdma_cq_detach_srq(&cq.queue, &first.queue);
	const auto wcs = cq.poll();
	ASSERT_EQ(wcs.size(), 1u);
	EXPECT_EQ(wcs[0].wr_id, 20u);
	vrdma_cq_detach_srq(&cq.queue, &second.queue);
}

} // namespace
} // namespace vrdma::test
