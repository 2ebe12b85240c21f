// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <future>

#include <unistd.h>

#include <gtest/gtest.h>

#include "queue_fixture.h"

namespace vrdma::test
{
namespace
{

// 300 QPs in one CQ, with numbers that collide in a small table, complete in turn: expects each
// completion with the wr_id of its own QP.
TEST(CompletionQueue, FindsItsQpAmongMany)
{
	constexpr uint32_t count = 300;
	TestCq cq(512);
	std::vector<std::unique_ptr<TestQp>> qps;
	for (uint32_t i = 0; i < count; i++) {
		qps.push_back(std::make_unique<TestQp>(QpOptions{.qpn = 1 + i * 64}));
		cq.attach(*qps[i]);
		std::vector<ibv_sge> none;
		ibv_send_wr wr = send_wr(IBV_WR_SEND, none, 0, i);
		ASSERT_EQ(qps[i]->send(wr), 0);
	}
	for (uint32_t i = 0; i < count; i++)
		cq.complete_send(1 + i * 64, 0);

	const auto wcs = cq.poll(count);
	ASSERT_EQ(wcs.size(), count);
	for (uint32_t i = 0; i < count; i++) {
		EXPECT_EQ(wcs[i].wr_id, i);
		EXPECT_EQ(wcs[i].qp_num, 1 + i * 64);
	}
	for (auto &qp : qps)
		cq.detach(*qp);
	EXPECT_EQ(cq.queue.links, 0u);
}

// CQEs of two QPs, polled in part, then one QP is detached: expects its CQEs to be gone, those of
// the other to be kept, and new CQEs with the detached QP's number to be skipped.
TEST(CompletionQueue, DetachStrikesOut)
{
	TestQp gone({.qpn = 1}), kept({.qpn = 2});
	TestCq cq;
	cq.attach(gone);
	cq.attach(kept);
	for (uint32_t i = 0; i < 3; i++) {
		cq.complete_send(1, i);
		cq.complete_send(2, i);
	}
	ASSERT_EQ(cq.poll(1).size(), 1u);

	cq.detach(gone);
	EXPECT_EQ(cq.cqe_at(0)->qpn, 1u) << "polled already: not ours to change";
	EXPECT_EQ(cq.cqe_at(2)->qpn, 0u);
	EXPECT_EQ(cq.cqe_at(4)->qpn, 0u);
	cq.complete_send(1, 3);
	const auto wcs = cq.poll();
	ASSERT_EQ(wcs.size(), 3u);
	for (const ibv_wc &wc : wcs)
		EXPECT_EQ(wc.qp_num, 2u);
}

// All CQEs of a full CQ, all of one QP, are struck out: expects the call to return, and no CQE to
// poll.
TEST(CompletionQueue, StrikesOutAFullRing)
{
	TestQp qp({.qpn = 1});
	TestCq cq(4);
	cq.attach(qp);
	for (uint32_t i = 0; i < 4; i++)
		cq.complete_send(1, i);

	vrdma_cq_strike_out(&cq.queue, &qp.queues);
	EXPECT_EQ(cq.poll().size(), 0u);
	EXPECT_EQ(cq.control().consumer, 4u);
}

// A QP stays attached after a reset struck its CQEs out: expects its new CQEs to be polled.
TEST(CompletionQueue, QpGoesOnAfterItsReset)
{
	TestQp qp({.qpn = 1});
	TestCq cq;
	cq.attach(qp);
	cq.complete_send(1, 0);
	vrdma_cq_strike_out(&cq.queue, &qp.queues);
	vrdma_queue_pair_reset(&qp.queues);
	vrdma_queue_pair_set_state(&qp.queues, IBV_QPS_RTS);

	std::vector<ibv_sge> none;
	ibv_send_wr wr = send_wr(IBV_WR_SEND, none, 0, 5);
	ASSERT_EQ(qp.send(wr), 0);
	cq.complete_send(1, 0);
	const auto wcs = cq.poll();
	ASSERT_EQ(wcs.size(), 1u);
	EXPECT_EQ(wcs[0].wr_id, 5u);
}

// A new QP gets the number of a destroyed QP, before the thread that destroyed the old QP detaches
// it: expects the old CQEs gone, the new QP's polled, and no effect of the late detach.
TEST(CompletionQueue, NumberReusedBeforeDetach)
{
	TestQp old_qp({.qpn = 1}), new_qp({.qpn = 1});
	TestCq cq;
	cq.attach(old_qp);
	cq.complete_send(1, 0);
	EXPECT_EQ(cq.queue.links, 1u);

	cq.attach(new_qp);
	EXPECT_EQ(cq.poll().size(), 0u);
	std::vector<ibv_sge> none;
	ibv_send_wr wr = send_wr(IBV_WR_SEND, none, 0, 6);
	ASSERT_EQ(new_qp.send(wr), 0);
	cq.complete_send(1, 0);
	cq.detach(old_qp);
	const auto wcs = cq.poll();
	ASSERT_EQ(wcs.size(), 1u);
	EXPECT_EQ(wcs[0].wr_id, 6u);
}

// The QP that was found last is detached: expects no completion through the stale pointer.
TEST(CompletionQueue, ForgetsTheLastQpFound)
{
	TestQp first({.qpn = 1});
	TestCq cq;
	cq.attach(first);
	cq.complete_send(1, 0);
	ASSERT_EQ(cq.poll().size(), 1u);
	cq.detach(first);

	cq.complete_send(1, 1);
	EXPECT_EQ(cq.poll().size(), 0u);
}

// Moves to smaller and larger rings, at many places, with CQEs in the old ring: expects each CQE
// once and in order, no other CQE, and the consumer index that the device sees to be unchanged.
TEST(CompletionQueue, MovesToAnotherRing)
{
	TestQp qp;
	TestCq cq(4);
	cq.attach(qp);
	uint32_t index = 0;
	for (int round = 0; round < 50; round++) {
		const uint32_t depth = 4u << (round * 5 % 4);
		cq.complete_send(qp.queues.qpn, index);
		const uint32_t consumer = cq.queue.consumer;
		cq.resize(depth, [&] { cq.complete_send(qp.queues.qpn, index + 1); });
		EXPECT_EQ(cq.control().consumer, consumer);
		cq.complete_send(qp.queues.qpn, index + 2);
		ASSERT_EQ(cq.poll().size(), 3u) << round << " depth " << depth;
		EXPECT_EQ(qp.queues.sq.tail, index += 3);
		EXPECT_TRUE(cq.poll().empty());
	}
	cq.detach(qp);
}

// Two threads poll and arm while the CQ moves: expects neither to spin, and both to succeed after
// the move.
TEST(CompletionQueue, PollersAndArmersWaitForTheMove)
{
	TestQp qp;
	TestCq cq(4);
	cq.attach(qp);
	cq.complete_send(qp.queues.qpn, 0);
	std::promise<void> poller_runs, armer_runs;
	std::future<size_t> polled;
	std::future<void> armed;
	cq.resize(8, [&] {
		polled = std::async(std::launch::async, [&] {
			poller_runs.set_value();
			return cq.poll().size();
		});
		armed = std::async(std::launch::async, [&] {
			armer_runs.set_value();
			vrdma_queue_arm(&cq.queue, false);
		});
		poller_runs.get_future().wait();
		armer_runs.get_future().wait();
		EXPECT_TRUE(cq.queue.moving);
		alarm(10); // ends the test if the move holds the lock
		vrdma_lock_take(&cq.queue.lock);
		vrdma_lock_drop(&cq.queue.lock);
		alarm(0);
	});
	EXPECT_EQ(polled.get(), 1u);
	armed.get();
	EXPECT_EQ(cq.control().arm, cq.queue.arm);
	EXPECT_NE(cq.queue.arm, 0u);
	cq.detach(qp);
}

// Arms, then moves: expects the device to find the request in the new ring.
TEST(CompletionQueue, MovesArmed)
{
	TestCq cq;
	vrdma_queue_arm(&cq.queue, true);
	const uint32_t arm = cq.control().arm;
	cq.resize(32, [] {});
	EXPECT_EQ(cq.control().arm, arm);
	vrdma_queue_arm(&cq.queue, false);
	EXPECT_NE(cq.control().arm, arm);
}

} // namespace
} // namespace vrdma::test
