// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Many threads post to and poll one queue: each WQE completes exactly once. These tests run under
// ThreadSanitizer as well.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <mutex>
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

// Counts how often each wr_id from 0 to total - 1 was polled.
class Tally
{
      public:
	// Polls until all have completed.
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

// Runs the threads: posters that each post their share of wr_ids, pollers, and the device.
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

// An SRQ, and the ring that the device uses for it.
class SrqRing
{
      public:
	SrqRing()
	{
		const vrdma_srq_layout layout{depth, stride_shift};
		EXPECT_EQ(vrdma_shared_receive_queue_init(&queue, buffer_.data(), &layout, 2), 0);
	}
	SrqRing(const SrqRing &) = delete;
	SrqRing &operator=(const SrqRing &) = delete;
	~SrqRing()
	{
		vrdma_shared_receive_queue_destroy(&queue);
	}

	// Takes the WQE with this index if it has been posted.
	bool take(uint32_t index, std::vector<uint32_t> &cookies)
	{
		const std::lock_guard guard{device_};
		const auto *wqe = reinterpret_cast<const vrdma_rq_wqe *>(
			buffer_.data() + (uint64_t(index % depth_) << stride_shift));
		const bool odd_pass = index / depth_ % 2 == 1;
		if (bool(__atomic_load_n(&wqe->ctrl, __ATOMIC_ACQUIRE) & VRDMA_WQE_PHASE) ==
		    odd_pass)
			return false;
		cookies.push_back(wqe->cookie);
		return true;
	}

	// Returns whether the resize succeeded.
	bool resize(uint32_t to)
	{
		PageBuffer next{vrdma_srq_buffer_size(to, stride_shift)};
		vrdma_srq_move move;
		EXPECT_EQ(vrdma_shared_receive_queue_begin_move(&queue), 0);
		const int ret = vrdma_shared_receive_queue_prepare(&queue, &move, next.data(), to);
		if (!ret) {
			{
				const std::lock_guard guard{device_};
				std::swap(buffer_, next);
				depth_ = to;
			}
			vrdma_shared_receive_queue_adopt(&queue, &move);
		}
		vrdma_shared_receive_queue_end_move(&queue, &move);
		return !ret;
	}

	vrdma_shared_receive_queue queue;

      private:
	static constexpr uint8_t stride_shift = 6;

	std::mutex device_;
	uint32_t depth_ = depth;
	PageBuffer buffer_{vrdma_srq_buffer_size(depth, stride_shift)};
};

// Posts from eight threads, polls from four, and completes out of order, while another thread runs
// `meanwhile` repeatedly; expects each completion once.
template <typename Meanwhile> void run_srq(Meanwhile meanwhile)
{
	SrqRing srq;
	TestQp qp{deep()};
	qp.queues.srq = &srq.queue;
	TestCq cq{depth};
	cq.attach(qp);
	std::atomic<bool> done{false};
	std::thread other([&] {
		while (!done.load())
			meanwhile(srq);
	});
	run(
		cq,
		[&](uint64_t id) {
			std::vector<ibv_sge> one{{id, 8, 1}};
			ibv_recv_wr wr = recv_wr(one, id);
			ibv_recv_wr *bad;
			return vrdma_shared_receive(&srq.queue, &wr, &bad);
		},
		[&] {
			std::vector<uint32_t> held;
			uint32_t taken = 0, completed = 0;
			while (completed < total) {
				if (taken < total && held.size() < depth / 2 &&
				    srq.take(taken, held))
					taken++;
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
	done = true;
	other.join();
	cq.detach(qp);
}

TEST(Threads, ReceiveFromAnSrqAndPoll)
{
	run_srq([](SrqRing &) { std::this_thread::yield(); });
}

// Another thread grows and shrinks the SRQ meanwhile.
TEST(Threads, ReceiveFromAnSrqThatIsResized)
{
	std::atomic<uint32_t> resized{0};
	run_srq([&](SrqRing &srq) {
		for (uint32_t to : {2 * depth, depth, depth / 2, depth / 4, 4 * depth})
			resized += srq.resize(to);
		std::this_thread::yield();
	});
	EXPECT_GE(resized.load(), 2u);
}

} // namespace
} // namespace vrdma::test
