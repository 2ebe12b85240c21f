// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Tests the read functions of an extended CQ over plain memory, with CQEs that the device wrote.
#include <gtest/gtest.h>

#include <cstring>

#include <unistd.h>

#include "queue_fixture.h"
#include "vrdma.h"

namespace vrdma::test
{
namespace
{

class TestCqEx
{
      public:
	explicit TestCqEx(TestQp &qp) : buffer_(vrdma_cq_buffer_size(depth))
	{
		if (vrdma_completion_queue_init(&cq_.queue, buffer_.data(), depth))
			throw std::bad_alloc();
		vrdma_cq_set_readers(&cq_);
		vrdma_cq_attach(&cq_.queue, &qp.queues.send_link, &qp.queues);
		ex = &cq_.base.cq_ex;
	}
	TestCqEx(const TestCqEx &) = delete;
	TestCqEx &operator=(const TestCqEx &) = delete;
	~TestCqEx()
	{
		vrdma_completion_queue_destroy(&cq_.queue);
	}

	void complete(vrdma_cqe cqe)
	{
		cqe.ctrl |= (produced_ / depth) % 2 ? 0 : VRDMA_CQE_PHASE;
		memcpy(buffer_.data() + VRDMA_QUEUE_CONTROL_SIZE +
			       (produced_++ % depth) * sizeof(cqe),
		       &cqe, sizeof(cqe));
	}
	uint32_t consumer()
	{
		return reinterpret_cast<vrdma_cq_control *>(buffer_.data())->consumer;
	}
	int start()
	{
		ibv_poll_cq_attr attr{};
		return ibv_start_poll(ex, &attr);
	}
	vrdma_completion_queue &queue()
	{
		return cq_.queue;
	}
	void set_wallclock_offset(uint64_t offset)
	{
		cq_.wallclock_offset = offset;
	}

	static constexpr uint32_t depth = 8;
	ibv_cq_ex *ex;

      private:
	vrdma_cq cq_{};
	PageBuffer buffer_;
	uint32_t produced_ = 0;
};

class PollCqEx : public testing::Test
{
      protected:
	void post(uint64_t wr_id)
	{
		std::vector<ibv_sge> sges;
		ibv_send_wr wr = send_wr(IBV_WR_RDMA_READ, sges, IBV_SEND_SIGNALED, wr_id);
		ASSERT_EQ(qp.send(wr), 0);
	}

	TestQp qp;
	TestCqEx cq{qp};
};

// Arms between the start of a poll and its end: expects arming not to wait for the end.
TEST_F(PollCqEx, ArmsMeanwhile)
{
	post(1);
	cq.complete({.qpn = qp.queues.qpn});
	ASSERT_EQ(cq.start(), 0);
	alarm(10); // ends the test if arming waits for the end of the poll
	vrdma_queue_arm(&cq.queue(), false);
	alarm(0);
	ibv_end_poll(cq.ex);
	EXPECT_EQ(cq.start(), ENOENT);
}

// Starts on an empty CQ: expects ENOENT, and that the CQ is free to be polled again.
TEST_F(PollCqEx, Empty)
{
	EXPECT_EQ(cq.start(), ENOENT);
	EXPECT_EQ(cq.start(), ENOENT);
	ibv_poll_cq_attr attr{};
	attr.comp_mask = 1;
	EXPECT_EQ(ibv_start_poll(cq.ex, &attr), EINVAL);
}

// Polls a CQE with all fields set: expects each read function to return its field.
TEST_F(PollCqEx, ReadsEveryField)
{
	post(0x1234);
	cq.set_wallclock_offset(1000);
	cq.complete({.ctrl = VRDMA_SET(VRDMA_CQE_OPCODE, uint32_t(IBV_WC_RDMA_READ)) |
			     VRDMA_CQE_WITH_IMM | VRDMA_CQE_GRH,
		     .qpn = qp.queues.qpn,
		     .wqe_index = 0,
		     .byte_len = 77,
		     .imm = htobe32(0xaabbccdd),
		     .src_qpn = 0x42,
		     .vendor_err = 3,
		     .header = VRDMA_CQE_HEADER_IPV4,
		     .timestamp = 123456789});
	ASSERT_EQ(cq.start(), 0);
	EXPECT_EQ(cq.ex->wr_id, 0x1234u);
	EXPECT_EQ(cq.ex->status, IBV_WC_SUCCESS);
	EXPECT_EQ(ibv_wc_read_opcode(cq.ex), IBV_WC_RDMA_READ);
	EXPECT_EQ(ibv_wc_read_byte_len(cq.ex), 77u);
	EXPECT_EQ(ibv_wc_read_imm_data(cq.ex), htobe32(0xaabbccdd));
	EXPECT_EQ(ibv_wc_read_qp_num(cq.ex), qp.queues.qpn);
	EXPECT_EQ(ibv_wc_read_src_qp(cq.ex), 0x42u);
	EXPECT_EQ(ibv_wc_read_vendor_err(cq.ex), 3u);
	EXPECT_EQ(ibv_wc_read_wc_flags(cq.ex), unsigned(IBV_WC_GRH | IBV_WC_WITH_IMM));
	EXPECT_EQ(ibv_wc_read_slid(cq.ex), 0u);
	EXPECT_EQ(ibv_wc_read_sl(cq.ex), VRDMA_CQE_HEADER_IPV4);
	EXPECT_EQ(ibv_wc_read_dlid_path_bits(cq.ex), 0u);
	EXPECT_EQ(ibv_wc_read_completion_ts(cq.ex), 123456789u);
	EXPECT_EQ(ibv_wc_read_completion_wallclock_ns(cq.ex), 123457789u);
	ibv_end_poll(cq.ex);
}

// Polls more CQEs than the ring has places, several per poll: expects all in order. Expects the end
// of each poll, and nothing before it, to give their places back to the device.
TEST_F(PollCqEx, NextAndEnd)
{
	uint32_t taken = 0;
	for (int round = 0; round < 5; round++) {
		for (uint64_t i = 0; i < 3; i++) {
			post(taken + i);
			cq.complete({.qpn = qp.queues.qpn, .wqe_index = taken + uint32_t(i)});
		}
		const uint32_t before = taken;
		ASSERT_EQ(cq.start(), 0);
		EXPECT_EQ(cq.ex->wr_id, taken++);
		ASSERT_EQ(ibv_next_poll(cq.ex), 0);
		EXPECT_EQ(cq.ex->wr_id, taken++);
		ASSERT_EQ(ibv_next_poll(cq.ex), 0);
		EXPECT_EQ(cq.ex->wr_id, taken++);
		EXPECT_EQ(ibv_next_poll(cq.ex), ENOENT);
		EXPECT_EQ(cq.consumer(), before);
		ibv_end_poll(cq.ex);
		EXPECT_EQ(cq.consumer(), taken);
	}
}

// A WQE fails, its CQE does not contain its opcode, and after the poll another WQE takes its place:
// expects the opcode of the failed WQE.
TEST_F(PollCqEx, OpcodeOfAFailure)
{
	post(1);
	cq.complete({.ctrl = IBV_WC_REM_ACCESS_ERR, .qpn = qp.queues.qpn, .wqe_index = 0});
	ASSERT_EQ(cq.start(), 0);
	EXPECT_EQ(cq.ex->status, IBV_WC_REM_ACCESS_ERR);
	std::vector<ibv_sge> sges;
	for (uint32_t i = 0; i < qp.sq_depth(); i++) {
		ibv_send_wr wr = send_wr(IBV_WR_SEND, sges);
		ASSERT_EQ(qp.send(wr), 0);
	}
	EXPECT_EQ(ibv_wc_read_opcode(cq.ex), IBV_WC_RDMA_READ);
	ibv_end_poll(cq.ex);
}

// CQEs of a QP that was detached: expects none to be polled, and their places to be free.
TEST_F(PollCqEx, StruckOut)
{
	post(1);
	cq.complete({.qpn = qp.queues.qpn, .wqe_index = 0});
	vrdma_cq_detach(&cq.queue(), &qp.queues.send_link);
	EXPECT_EQ(cq.start(), ENOENT);
	EXPECT_EQ(cq.consumer(), 1u);
}

// Polls by ibv_poll_cq() after an extended poll: expects the next CQE.
TEST_F(PollCqEx, MixesWithClassicPolls)
{
	for (uint32_t i = 0; i < 2; i++) {
		post(i + 1);
		cq.complete({.qpn = qp.queues.qpn, .wqe_index = i});
	}
	ASSERT_EQ(cq.start(), 0);
	ibv_end_poll(cq.ex);
	ibv_wc wc{};
	ASSERT_EQ(vrdma_queue_poll(&cq.queue(), 1, &wc), 1);
	EXPECT_EQ(wc.wr_id, 2u);
	EXPECT_EQ(cq.start(), ENOENT);
}

} // namespace
} // namespace vrdma::test
