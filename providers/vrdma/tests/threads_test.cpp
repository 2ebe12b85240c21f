// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Many threads on one queue: what they post and poll comes once, and nothing is lost. To be run
// under ThreadSanitizer as well.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "queue_fixture.h"
#include "shared_receive_queue.h"

namespace vrdma::test
{
namespace
{

constexpr unsigned posters = 8;
constexpr unsigned pollers = 4;
constexpr uint32_t posts = 2000; // each
constexpr uint32_t total = posters * posts;
constexpr uint32_t depth = 64;

QpOptions deep()
{
	QpOptions options;
	options.cap.max_send_wr = depth;
	options.cap.max_recv_wr = depth;
	return options;
}

// Counts how often each wr_id, 0 to total, was polled.
class Tally
{
      public:
	// Polls until all have come.
	void poll(TestCq &cq)
	{
		while (polled_.load() < total) {
			for (const ibv_wc &wc : cq.poll(16)) {
				EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
				EXPECT_EQ(counts_.at(wc.wr_id).fetch_add(1), 0u) << wc.wr_id;
				polled_.fetch_add(1);
			}
			std::this_thread::yield();
		}
	}

      private:
	std::array<std::atomic<unsigned>, total> counts_{};
	std::atomic<uint32_t> polled_{0};
};

// Runs the threads: those that post their share of wr_ids, those that poll, and the device.
template <typename Post, typename Device> void run(TestCq &cq, Post post, Device device)
{
	Tally tally;
	std::vector<std::thread> threads;

	for (unsigned poster = 0; poster < posters; poster++)
		threads.emplace_back([=] {
			for (uint32_t i = 0; i < posts; i++)
				while (int error = post(poster * posts + i)) {
					ASSERT_EQ(error, ENOMEM); // full: the device is behind
					std::this_thread::yield();
				}
		});
	for (unsigned i = 0; i < pollers; i++)
		threads.emplace_back([&] { tally.poll(cq); });
	threads.emplace_back(device);
	for (std::thread &thread : threads)
		thread.join();
	EXPECT_TRUE(cq.poll().empty());
}

bool has_room(TestCq &cq, uint32_t produced)
{
	return produced - __atomic_load_n(&cq.control().consumer, __ATOMIC_ACQUIRE) < depth;
}

// Post sends from eight threads and poll from four; expect each completion once.
TEST(Threads, SendAndPoll)
{
	TestQp qp{deep()};
	TestCq cq{depth};
	cq.attach(qp);
	run(
		cq,
		[&](uint64_t id) {
			std::vector<ibv_sge> one{{id, 8, 1}};
			ibv_send_wr wr = send_wr(IBV_WR_SEND, one, IBV_SEND_SIGNALED, id);
			ibv_send_wr *bad;
			return vrdma_queue_send(&qp.queues, &wr, &bad);
		},
		[&] {
			for (uint32_t i = 0; i < total;) {
				if (qp.sq_valid(i) && has_room(cq, i))
					cq.complete_send(qp.queues.qpn, i++);
				else
					std::this_thread::yield();
			}
		});
	cq.detach(qp);
}

// The same with an SRQ, whose WQEs complete out of order.
TEST(Threads, ReceiveFromAnSrqAndPoll)
{
	const vrdma_srq_layout layout{depth, 6};
	PageBuffer buffer{vrdma_srq_buffer_size(layout.depth, layout.stride_shift)};
	vrdma_shared_receive_queue srq;
	ASSERT_EQ(vrdma_shared_receive_queue_init(&srq, buffer.data(), &layout, 2), 0);
	TestQp qp{deep()};
	qp.queues.srq = &srq;
	TestCq cq{depth};
	cq.attach(qp);
	const auto wqe = [&](uint32_t index) {
		return reinterpret_cast<const vrdma_rq_wqe *>(
			buffer.data() + (uint64_t(index % depth) << layout.stride_shift));
	};
	const auto valid = [&](uint32_t index) {
		const bool odd_pass = index / depth % 2 == 1;
		return bool(__atomic_load_n(&wqe(index)->ctrl, __ATOMIC_ACQUIRE) &
			    VRDMA_WQE_PHASE) != odd_pass;
	};
	run(
		cq,
		[&](uint64_t id) {
			std::vector<ibv_sge> one{{id, 8, 1}};
			ibv_recv_wr wr = recv_wr(one, id);
			ibv_recv_wr *bad;
			return vrdma_shared_receive(&srq, &wr, &bad);
		},
		[&] {
			std::vector<uint32_t> held;
			uint32_t taken = 0, completed = 0;
			while (completed < total) {
				if (taken < total && held.size() < depth / 2 && valid(taken))
					held.push_back(wqe(taken++)->cookie);
				else if (!held.empty() && has_room(cq, completed)) {
					cq.complete({.ctrl = VRDMA_CQE_RECV,
						     .qpn = qp.queues.qpn,
						     .wqe_index = held.back()});
					held.pop_back();
					completed++;
				} else
					std::this_thread::yield();
			}
		});
	cq.detach(qp);
	vrdma_shared_receive_queue_destroy(&srq);
}

} // namespace
} // namespace vrdma::test
