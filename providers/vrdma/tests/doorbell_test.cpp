// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vrdma/device.h>

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "queue_fixture.h"

namespace vrdma::test
{
namespace
{

bool rung(const TestQp &qp)
{
	return qp.pages.doorbells.slot[200] != 0;
}

// Posts sends while the device polls the QP or not, and sleeps or not: expects a doorbell only if
// the device does not poll, and a kick only if it sleeps as well.
TEST(Doorbell, SendsTellWhomTheyMust)
{
	struct Case {
		uint32_t sq_polled, need_kick;
		bool doorbell, kick;
	};
	for (const auto &[sq_polled, need_kick, doorbell, kick] :
	     {Case{1, 0, false, false}, Case{1, 1, false, false}, Case{0, 0, true, false},
	      Case{0, 1, true, true}}) {
		TestQp qp;
		std::vector<ibv_sge> none;
		ibv_send_wr wr = send_wr(IBV_WR_SEND, none);
		qp.control().sq_polled = sq_polled;
		qp.pages.status.need_kick = need_kick;

		ASSERT_EQ(qp.send(wr), 0);
		EXPECT_EQ(rung(qp), doorbell);
		EXPECT_EQ(qp.pages.doorbells.line[200 / 64], doorbell);
		EXPECT_EQ(qp.pages.kick != 0, kick);
	}
}

// Posts receives while rq_wanted is set or not: expects a doorbell only if it is set, for any value
// of sq_polled.
TEST(Doorbell, ReceivesTellOnlyWhoWantsThem)
{
	for (uint32_t rq_wanted : {0u, 1u}) {
		TestQp qp;
		std::vector<ibv_sge> none;
		ibv_recv_wr wr = recv_wr(none);
		qp.control().rq_wanted = rq_wanted;
		qp.pages.status.need_kick = 1;

		ASSERT_EQ(qp.receive(wr), 0);
		EXPECT_EQ(rung(qp), rq_wanted != 0);
		EXPECT_EQ(qp.pages.kick != 0, rq_wanted != 0);
	}
}

// There is no page whose stores are trapped: expects a count of one in the eventfd, or the bytes at
// the page's offset in the file.
TEST(Doorbell, WithoutAKickPageItWritesToAFile)
{
	TestQp qp;
	std::vector<ibv_sge> none;
	ibv_send_wr wr = send_wr(IBV_WR_SEND, none);
	uint64_t seen = 0;
	const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	const int file = memfd_create("bar0", MFD_CLOEXEC);
	qp.pages.status.need_kick = 1;
	qp.queues.doorbell.kick_page = nullptr;

	qp.queues.doorbell.kick_fd = event;
	qp.queues.doorbell.kick_offset = -1;
	ASSERT_EQ(qp.send(wr), 0);
	EXPECT_EQ(read(event, &seen, sizeof(seen)), 8);
	EXPECT_EQ(seen, 1u);

	qp.queues.doorbell.kick_fd = file;
	qp.queues.doorbell.kick_offset = VRDMA_BAR0_KICK_OFFSET;
	ASSERT_EQ(qp.send(wr), 0);
	EXPECT_EQ(pread(file, &seen, sizeof(seen), VRDMA_BAR0_KICK_OFFSET), 8);
	EXPECT_NE(seen, 0u);
	close(file);
	close(event);
}

// Rings the first and the last slot: expects only the bytes of that slot and of its line to be set.
TEST(Doorbell, SlotAndLine)
{
	for (uint32_t slot : {uint32_t(VRDMA_DOORBELL_FIRST_SLOT), VRDMA_DOORBELL_SLOTS - 1u}) {
		TestQp qp({.slot = slot});
		std::vector<ibv_sge> none;
		ibv_send_wr wr = send_wr(IBV_WR_SEND, none);

		ASSERT_EQ(qp.send(wr), 0);
		for (uint32_t i = 0; i < VRDMA_DOORBELL_SLOTS; i++)
			EXPECT_EQ(qp.pages.doorbells.slot[i], i == slot || i == slot / 64) << i;
	}
}

// The device's side of the protocol: takes WQEs until it finds none, then stops polling, looks once
// more, and waits for its doorbell.
class Poller
{
      public:
	Poller(TestQp &qp, TestCq &cq, uint32_t total) : qp_(qp), cq_(cq), total_(total)
	{
	}

	// Returns false if the guest posted a WQE without ringing the doorbell.
	bool run()
	{
		while (taken_ < total_) {
			take_all();
			vrdma_store_release(&qp_.control().sq_polled, 0);
			vrdma_full_fence();
			if (qp_.sq_valid(taken_) || taken_ == total_)
				continue;
			if (!await_doorbell())
				return false;
			vrdma_store_release(&qp_.control().sq_polled, 1);
		}
		return true;
	}

      private:
	void take_all()
	{
		for (; taken_ < total_ && qp_.sq_valid(taken_); taken_++)
			cq_.complete_send(qp_.queues.qpn, taken_);
	}
	bool await_doorbell()
	{
		const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
		uint8_t *slot = &qp_.pages.doorbells.slot[200];

		while (!__atomic_exchange_n(slot, 0, __ATOMIC_ACQUIRE)) {
			if (std::chrono::steady_clock::now() > deadline)
				return false;
			std::this_thread::yield();
		}
		return true;
	}

	TestQp &qp_;
	TestCq &cq_;
	uint32_t total_;
	uint32_t taken_ = 0;
};

// Sends 20,000 WQEs to a poller in another thread, which sleeps whenever it finds no WQE. Each is
// sent after the one before has completed. Expects all to complete.
TEST(Doorbell, NoWakeUpIsLost)
{
	constexpr uint32_t total = 20000;
	TestQp qp;
	TestCq cq;
	cq.attach(qp);
	Poller poller(qp, cq, total);
	bool told = false;
	std::thread device([&] { told = poller.run(); });

	for (uint32_t i = 0; i < total; i++) {
		std::vector<ibv_sge> none;
		ibv_send_wr wr = send_wr(IBV_WR_SEND, none, IBV_SEND_SIGNALED, i);
		const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
		ibv_wc wc{};

		EXPECT_EQ(qp.send(wr), 0);
		while (!vrdma_queue_poll(&cq.queue, 1, &wc)) {
			if (std::chrono::steady_clock::now() > deadline)
				break;
			std::this_thread::yield();
		}
		if (wc.wr_id != i)
			break;
	}
	device.join();
	EXPECT_TRUE(told);
	EXPECT_EQ(qp.queues.sq.tail, total);
}

} // namespace
} // namespace vrdma::test
