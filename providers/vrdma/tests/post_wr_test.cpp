// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Tests which WQEs the device finds after ibv_wr_*(), and when. The queues are in plain memory.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "queue_fixture.h"
#include "vrdma.h"

namespace vrdma::test
{
namespace
{

constexpr uint64_t all_ops = VRDMA_MASK(9, 0) | IBV_QP_EX_WITH_ATOMIC_WRITE;

class TestQpEx
{
      public:
	explicit TestQpEx(ibv_qp_type type = IBV_QPT_RC, uint64_t ops = all_ops)
	    : buffer_(vrdma_qp_buffer_size(depth, stride_shift, 0, 5))
	{
		const vrdma_qp_layout layout{depth, 0, stride_shift, 5};
		ibv_qp_init_attr_ex attr{};

		attr.qp_type = type;
		attr.cap = {depth, 0, 2, 0, 64};
		if (vrdma_queue_pair_init(&qp.queues, buffer_.data(), &layout, &attr))
			throw std::bad_alloc();
		qp.queues.legal_opcodes = ~0u; // another test checks which ones a transport allows
		qp.queues.doorbell = {.page = &pages.doorbells,
				      .status = &pages.status,
				      .kick_page = &pages.kick,
				      .slot = 200};
		vrdma_queue_pair_set_state(&qp.queues, IBV_QPS_RTS);
		if (vrdma_qp_set_send_ops(&qp, ops))
			throw std::bad_alloc();
		wr = &qp.base.qp_ex;
		wr->wr_flags = IBV_SEND_SIGNALED;
	}
	TestQpEx(const TestQpEx &) = delete;
	TestQpEx &operator=(const TestQpEx &) = delete;
	~TestQpEx()
	{
		vrdma_queue_pair_destroy(&qp.queues);
	}

	const vrdma_sq_wqe *sent(uint32_t index)
	{
		return reinterpret_cast<const vrdma_sq_wqe *>(
			buffer_.data() + vrdma_sq_offset(stride_shift) +
			(uint64_t(index % depth) << stride_shift));
	}
	// Whether the device finds another WQE after it has taken `index` WQEs.
	bool valid(uint32_t index)
	{
		const bool phase = sent(index)->ctrl & VRDMA_WQE_PHASE;
		return phase != ((index / depth) % 2 == 1);
	}
	uint32_t opcode(uint32_t index)
	{
		return sent(index)->ctrl & VRDMA_SQ_OPCODE;
	}
	bool rung() const
	{
		return pages.doorbells.slot[200] != 0;
	}
	void complete_all()
	{
		qp.queues.sq.tail = qp.queues.sq.head;
	}

	static constexpr uint32_t depth = 4;
	static constexpr uint8_t stride_shift = 7;
	DevicePages pages;
	vrdma_qp qp{};
	ibv_qp_ex *wr;

      private:
	PageBuffer buffer_;
};

void send(TestQpEx &qp, uint64_t wr_id)
{
	qp.wr->wr_id = wr_id;
	ibv_wr_send(qp.wr);
	ibv_wr_set_sge(qp.wr, 0x11, 0x2000, 30);
}

// Writes three requests: expects the device to see none before ibv_wr_complete(), and then all of
// them and a doorbell.
TEST(PostWr, NothingIsVisibleBeforeComplete)
{
	TestQpEx qp;
	ibv_wr_start(qp.wr);
	for (uint64_t i = 0; i < 3; i++) {
		send(qp, 10 + i);
		EXPECT_FALSE(qp.valid(uint32_t(i)));
	}
	EXPECT_FALSE(qp.rung());
	ASSERT_EQ(ibv_wr_complete(qp.wr), 0);
	for (uint32_t i = 0; i < 3; i++) {
		EXPECT_TRUE(qp.valid(i));
		EXPECT_EQ(qp.qp.queues.sq.wr_id[i], 10 + i);
	}
	EXPECT_FALSE(qp.valid(3));
	EXPECT_TRUE(qp.rung());
}

// Aborts on each pass over the ring: expects no visible WQE, and the places to be used again.
TEST(PostWr, AbortLeavesNothingBehind)
{
	TestQpEx qp;
	for (uint32_t posted = 0; posted < 3 * TestQpEx::depth; posted++) {
		ibv_wr_start(qp.wr);
		send(qp, 1);
		send(qp, 2);
		ibv_wr_abort(qp.wr);
		EXPECT_FALSE(qp.valid(posted));
		EXPECT_FALSE(qp.valid(posted + 1));

		ibv_wr_start(qp.wr);
		send(qp, 3);
		ASSERT_EQ(ibv_wr_complete(qp.wr), 0);
		EXPECT_TRUE(qp.valid(posted));
		EXPECT_FALSE(qp.valid(posted + 1));
		qp.complete_all();
	}
	EXPECT_EQ(qp.qp.queues.sq.head, 3 * TestQpEx::depth);
}

// Completes an empty batch: expects success and no doorbell.
TEST(PostWr, AnEmptyBatchIsFine)
{
	TestQpEx qp;
	ibv_wr_start(qp.wr);
	EXPECT_EQ(ibv_wr_complete(qp.wr), 0);
	EXPECT_FALSE(qp.rung());
}

// One bad request between good ones: expects an error at the end, and none of them posted.
TEST(PostWr, AnErrorAbortsTheWholeBatch)
{
	TestQpEx qp;
	ibv_sge sges[3] = {};
	ibv_wr_start(qp.wr);
	send(qp, 1);
	ibv_wr_send(qp.wr);
	ibv_wr_set_sge_list(qp.wr, 3, sges); // max_sge is 2
	send(qp, 3);
	EXPECT_EQ(ibv_wr_complete(qp.wr), EINVAL);
	EXPECT_FALSE(qp.valid(0));
	EXPECT_FALSE(qp.rung());

	ibv_wr_start(qp.wr);
	send(qp, 4);
	EXPECT_EQ(ibv_wr_complete(qp.wr), 0);
	EXPECT_TRUE(qp.valid(0));
}

// More requests than places: expects ENOMEM. A QP whose state refuses posts: expects EINVAL.
TEST(PostWr, RoomAndState)
{
	TestQpEx qp;
	ibv_wr_start(qp.wr);
	for (uint32_t i = 0; i <= TestQpEx::depth; i++)
		send(qp, i);
	EXPECT_EQ(ibv_wr_complete(qp.wr), ENOMEM);
	EXPECT_FALSE(qp.valid(0));

	vrdma_queue_pair_set_state(&qp.qp.queues, IBV_QPS_INIT);
	ibv_wr_start(qp.wr);
	send(qp, 0);
	EXPECT_EQ(ibv_wr_complete(qp.wr), EINVAL);
}

// Each builder: expects its opcode, and its arguments where the format has them.
TEST(PostWr, Formats)
{
	TestQpEx qp;
	const auto post = [&](auto build) {
		const uint32_t index = qp.qp.queues.sq.head;
		ibv_wr_start(qp.wr);
		build();
		EXPECT_EQ(ibv_wr_complete(qp.wr), 0);
		qp.complete_all();
		return qp.sent(index);
	};
	const vrdma_sq_wqe *wqe = post([&] {
		ibv_wr_rdma_write_imm(qp.wr, 0x77, 0x123456789a, htobe32(5));
		ibv_wr_set_sge(qp.wr, 0x11, 0x2000, 30);
	});
	EXPECT_EQ(wqe->ctrl & (VRDMA_SQ_OPCODE | VRDMA_SQ_SIGNALED),
		  VRDMA_SQ_RDMA_WRITE_WITH_IMM | VRDMA_SQ_SIGNALED);
	EXPECT_EQ(wqe->rkey, 0x77u);
	EXPECT_EQ(wqe->raddr, 0x123456789au);
	EXPECT_EQ(wqe->imm, htobe32(5));
	EXPECT_EQ(VRDMA_GET(VRDMA_WQE_NUM_SGE, wqe->ctrl), 1u);
	EXPECT_EQ(payload<vrdma_sge>(wqe)->lkey, 0x11u);

	wqe = post([&] {
		ibv_wr_atomic_cmp_swp(qp.wr, 0x77, 0x1000, 3, 4);
		ibv_wr_set_sge(qp.wr, 0x11, 0x2000, 8);
	});
	EXPECT_EQ(payload<vrdma_sq_atomic>(wqe)->compare_add, 3u);
	EXPECT_EQ(payload<vrdma_sq_atomic>(wqe)->swap, 4u);
	EXPECT_EQ(payload<vrdma_sge>(wqe, VRDMA_SQ_PAYLOAD_OFFSET + 16)->addr, 0x2000u);

	const uint64_t value = 0x1122334455667788;
	wqe = post([&] { ibv_wr_atomic_write(qp.wr, 0x77, 0x1000, &value); });
	EXPECT_EQ(wqe->ctrl & (VRDMA_SQ_OPCODE | VRDMA_SQ_INLINE),
		  VRDMA_SQ_ATOMIC_WRITE | VRDMA_SQ_INLINE);
	EXPECT_EQ(wqe->length, 8u);
	EXPECT_EQ(*payload<uint64_t>(wqe), value);

	wqe = post([&] { ibv_wr_local_inv(qp.wr, 0x4401); });
	EXPECT_EQ(wqe->ctrl & VRDMA_SQ_OPCODE, VRDMA_SQ_LOCAL_INV);
	EXPECT_EQ(wqe->rkey, 0x4401u);

	wqe = post([&] { ibv_wr_send_inv(qp.wr, 0x4402); });
	EXPECT_EQ(wqe->ctrl & VRDMA_SQ_OPCODE, VRDMA_SQ_SEND_WITH_INV);
	EXPECT_EQ(wqe->rkey, 0x4402u);
	EXPECT_EQ(wqe->imm, 0u);

	ibv_mr mr{};
	ibv_mw mw{};
	mr.lkey = 0x9900;
	mw.rkey = 0x4400;
	mw.type = IBV_MW_TYPE_2;
	const ibv_mw_bind_info info{&mr, 0x5000, 100, IBV_ACCESS_REMOTE_READ};
	wqe = post([&] { ibv_wr_bind_mw(qp.wr, &mw, 0x4407, &info); });
	EXPECT_EQ(wqe->rkey, 0x4407u);
	EXPECT_EQ(payload<vrdma_sq_bind>(wqe)->addr, 0x5000u);
	EXPECT_EQ(payload<vrdma_sq_bind>(wqe)->length, 100u);
	EXPECT_EQ(payload<vrdma_sq_bind>(wqe)->lkey, 0x9900u);
	EXPECT_EQ(payload<vrdma_sq_bind>(wqe)->access_flags, uint32_t(IBV_ACCESS_REMOTE_READ));
}

// A new key that differs in more than the low byte, or a window of type 1: expects EINVAL.
TEST(PostWr, BindsWhatItMay)
{
	TestQpEx qp;
	ibv_mw mw{};
	const ibv_mw_bind_info info{};
	const auto bind = [&](ibv_mw_type type, uint32_t rkey) {
		mw.type = type;
		mw.rkey = 0x4400;
		ibv_wr_start(qp.wr);
		ibv_wr_bind_mw(qp.wr, &mw, rkey, &info);
		return ibv_wr_complete(qp.wr);
	};
	EXPECT_EQ(bind(IBV_MW_TYPE_2, 0x4500), EINVAL);
	EXPECT_EQ(bind(IBV_MW_TYPE_1, 0x4401), EINVAL);
	EXPECT_EQ(bind(IBV_MW_TYPE_2, 0x4401), 0);
}

// Inline data of several buffers: expects them one after the other, and an error for too much data.
TEST(PostWr, InlineData)
{
	TestQpEx qp;
	std::string first = "first ", second = "second";
	const ibv_data_buf list[] = {{first.data(), first.size()}, {second.data(), second.size()}};
	ibv_wr_start(qp.wr);
	ibv_wr_send(qp.wr);
	ibv_wr_set_inline_data_list(qp.wr, 2, list);
	ASSERT_EQ(ibv_wr_complete(qp.wr), 0);
	EXPECT_EQ(qp.sent(0)->length, 12u);
	EXPECT_TRUE(qp.sent(0)->ctrl & VRDMA_SQ_INLINE);
	EXPECT_EQ(memcmp(payload<char>(qp.sent(0)), "first second", 12), 0);

	std::string large(65, 'x');
	ibv_wr_start(qp.wr);
	ibv_wr_send(qp.wr);
	ibv_wr_set_inline_data(qp.wr, large.data(), large.size());
	EXPECT_EQ(ibv_wr_complete(qp.wr), EINVAL);
}

// Sets data without a request, or data that the operation does not take: expects EINVAL.
TEST(PostWr, SettersThatDoNotFit)
{
	TestQpEx qp;
	uint64_t value = 1;
	ibv_sge sges[2] = {};
	const auto result = [&](auto build) {
		ibv_wr_start(qp.wr);
		build();
		return ibv_wr_complete(qp.wr);
	};
	EXPECT_EQ(result([&] {
			  ibv_wr_rdma_read(qp.wr, 1, 1);
			  ibv_wr_set_inline_data(qp.wr, &value, 8);
		  }),
		  EINVAL);
	EXPECT_EQ(result([&] {
			  ibv_wr_local_inv(qp.wr, 1);
			  ibv_wr_set_sge(qp.wr, 1, 1, 8);
		  }),
		  EINVAL);
	EXPECT_EQ(result([&] {
			  ibv_wr_atomic_fetch_add(qp.wr, 1, 8, 1);
			  ibv_wr_set_sge_list(qp.wr, 2, sges);
		  }),
		  EINVAL);
	EXPECT_EQ(result([&] {
			  ibv_wr_send(qp.wr);
			  ibv_wr_set_ud_addr(qp.wr, nullptr, 1, 1);
		  }),
		  EINVAL);
	EXPECT_EQ(result([&] {
			  ibv_wr_send(qp.wr);
			  ibv_wr_set_xrc_srqn(qp.wr, 1);
		  }),
		  EINVAL);
	EXPECT_FALSE(qp.valid(0));
}

// An unsupported flag, and an operation that the QP was not created for: expects EINVAL.
TEST(PostWr, FlagsAndOperations)
{
	TestQpEx qp(IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
	ibv_wr_start(qp.wr);
	ibv_wr_rdma_write(qp.wr, 1, 1);
	EXPECT_EQ(ibv_wr_complete(qp.wr), EINVAL);

	qp.wr->wr_flags = IBV_SEND_IP_CSUM;
	ibv_wr_start(qp.wr);
	send(qp, 1);
	EXPECT_EQ(ibv_wr_complete(qp.wr), EINVAL);

	EXPECT_EQ(vrdma_qp_set_send_ops(&qp.qp, IBV_QP_EX_WITH_TSO), EOPNOTSUPP);
	qp.qp.queues.legal_opcodes = VRDMA_BIT(VRDMA_SQ_SEND);
	EXPECT_EQ(vrdma_qp_set_send_ops(&qp.qp, IBV_QP_EX_WITH_SEND), 0);
	EXPECT_EQ(vrdma_qp_set_send_ops(&qp.qp, IBV_QP_EX_WITH_RDMA_READ), EOPNOTSUPP);
}

// A datagram, and a request of an XRC QP: expects their destinations, and data behind the SRQ's
// number.
TEST(PostWr, Addresses)
{
	TestQpEx ud(IBV_QPT_UD);
	vrdma_ah ah{};
	ah.id = 0x55;
	ibv_wr_start(ud.wr);
	ibv_wr_send(ud.wr);
	ibv_wr_set_sge(ud.wr, 1, 2, 3);
	ibv_wr_set_ud_addr(ud.wr, &ah.base, 0xabc, 0x1234);
	ASSERT_EQ(ibv_wr_complete(ud.wr), 0);
	EXPECT_EQ(ud.sent(0)->ud.ah, 0x55u);
	EXPECT_EQ(ud.sent(0)->ud.dest_qpn, 0xabcu);
	EXPECT_EQ(ud.sent(0)->qkey, 0x1234u);

	TestQpEx xrc(IBV_QPT_XRC_SEND);
	ibv_wr_start(xrc.wr);
	ibv_wr_send(xrc.wr);
	ibv_wr_set_xrc_srqn(xrc.wr, 0x66);
	ibv_wr_set_sge(xrc.wr, 1, 2, 3);
	ASSERT_EQ(ibv_wr_complete(xrc.wr), 0);
	EXPECT_EQ(payload<vrdma_sq_xrc>(xrc.sent(0))->srqn, 0x66u);
	EXPECT_EQ(payload<vrdma_sge>(xrc.sent(0), VRDMA_SQ_PAYLOAD_OFFSET + 8)->length, 3u);
}

} // namespace
} // namespace vrdma::test
