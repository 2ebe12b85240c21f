// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <gtest/gtest.h>

#include "queue_fixture.h"

namespace vrdma::test
{
namespace
{

ibv_sge sge_of(const void *data, uint32_t length)
{
	return {reinterpret_cast<uintptr_t>(data), length, 0};
}

// Sends an RDMA WRITE of two SGEs: expects every field of the WQE.
TEST(PostSend, RdmaWrite)
{
	TestQp qp;
	std::vector<ibv_sge> sges{{0x1000, 100, 7}, {0x2000, 200, 8}};
	ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, sges, IBV_SEND_SIGNALED);
	wr.imm_data = 0xffffffff; // no immediate data goes with this opcode
	wr.wr.rdma = {.remote_addr = 0xabcdef0123456789, .rkey = 0x5566};

	ASSERT_EQ(qp.send(wr), 0);
	const vrdma_sq_wqe *wqe = qp.sent(0);
	EXPECT_EQ(wqe->ctrl, VRDMA_WQE_PHASE | VRDMA_SQ_RDMA_WRITE | VRDMA_SQ_SIGNALED |
				     VRDMA_SET(VRDMA_WQE_NUM_SGE, 2u));
	EXPECT_EQ(wqe->length, 0u);
	EXPECT_EQ(wqe->imm, 0u);
	EXPECT_EQ(wqe->rkey, 0x5566u);
	EXPECT_EQ(wqe->raddr, 0xabcdef0123456789u);
	const auto *sge = payload<vrdma_sge>(wqe);
	EXPECT_EQ(sge[0].addr, 0x1000u);
	EXPECT_EQ(sge[0].length, 100u);
	EXPECT_EQ(sge[0].lkey, 7u);
	EXPECT_EQ(sge[1].addr, 0x2000u);
	EXPECT_EQ(sge[1].length, 200u);
	EXPECT_EQ(sge[1].lkey, 8u);
	EXPECT_FALSE(qp.sq_valid(1));
}

// Sends each flag alone: expects its bit and no other.
TEST(PostSend, Flags)
{
	struct Case {
		unsigned int flag;
		uint32_t bit;
	};
	for (const auto &[flag, bit] :
	     {Case{0, 0}, Case{IBV_SEND_SIGNALED, VRDMA_SQ_SIGNALED},
	      Case{IBV_SEND_SOLICITED, VRDMA_SQ_SOLICITED}, Case{IBV_SEND_FENCE, VRDMA_SQ_FENCE},
	      Case{IBV_SEND_INLINE, VRDMA_SQ_INLINE}}) {
		TestQp qp;
		std::vector<ibv_sge> none;
		ibv_send_wr wr = send_wr(IBV_WR_SEND, none, flag);

		ASSERT_EQ(qp.send(wr), 0);
		EXPECT_EQ(qp.sent(0)->ctrl, VRDMA_WQE_PHASE | VRDMA_SQ_SEND | bit);
	}
}

// Sends unsignaled on a QP that signals all: expects the flag.
TEST(PostSend, SignalAll)
{
	TestQp qp({.signal_all = true});
	std::vector<ibv_sge> none;
	ibv_send_wr wr = send_wr(IBV_WR_SEND, none);

	ASSERT_EQ(qp.send(wr), 0);
	EXPECT_TRUE(qp.sent(0)->ctrl & VRDMA_SQ_SIGNALED);
}

// Sends with immediate data: expects it unchanged, in network byte order.
TEST(PostSend, ImmediateData)
{
	for (ibv_wr_opcode opcode : {IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM}) {
		TestQp qp;
		std::vector<ibv_sge> none;
		ibv_send_wr wr = send_wr(opcode, none);
		wr.imm_data = htobe32(0x01020304);

		ASSERT_EQ(qp.send(wr), 0);
		EXPECT_EQ(qp.sent(0)->imm, htobe32(0x01020304));
	}
}

// Sends a SEND in the place of an old RDMA WRITE: expects no field of the old WQE in its header.
TEST(PostSend, HeaderKeepsNothingOfTheLastPass)
{
	TestQp qp({.cap = {.max_send_wr = 1,
			   .max_recv_wr = 1,
			   .max_send_sge = 1,
			   .max_recv_sge = 1,
			   .max_inline_data = 16}});
	uint8_t data[8] = {};
	std::vector<ibv_sge> sges{sge_of(data, 8)};
	ibv_send_wr write = send_wr(IBV_WR_RDMA_WRITE_WITH_IMM, sges, IBV_SEND_INLINE);
	write.imm_data = 1;
	write.wr.rdma = {.remote_addr = 2, .rkey = 3};
	ASSERT_EQ(qp.send(write), 0);
	qp.queues.sq.tail = 1;

	ibv_send_wr send = send_wr(IBV_WR_SEND, sges);
	ASSERT_EQ(qp.send(send), 0);
	const vrdma_sq_wqe *wqe = qp.sent(1);
	EXPECT_EQ(wqe->ctrl, VRDMA_SQ_SEND | VRDMA_SET(VRDMA_WQE_NUM_SGE, 1u));
	EXPECT_EQ(wqe->length, 0u);
	EXPECT_EQ(wqe->imm, 0u);
	EXPECT_EQ(wqe->rkey, 0u);
	EXPECT_EQ(wqe->raddr, 0u);
}

// Sends a datagram: expects Q_Key, address handle and destination.
TEST(PostSend, Datagram)
{
	TestQp qp({.type = IBV_QPT_UD});
	vrdma_ah ah{};
	ah.id = 77;
	std::vector<ibv_sge> none;
	ibv_send_wr wr = send_wr(IBV_WR_SEND, none);
	wr.wr.ud = {.ah = &ah.base, .remote_qpn = 0x321, .remote_qkey = 0x11111111};

	ASSERT_EQ(qp.send(wr), 0);
	EXPECT_EQ(qp.sent(0)->qkey, 0x11111111u);
	EXPECT_EQ(qp.sent(0)->ud.ah, 77u);
	EXPECT_EQ(qp.sent(0)->ud.dest_qpn, 0x321u);
}

// Sends both atomics: expects operands, then the one SGE; no swap operand for an addition.
TEST(PostSend, Atomics)
{
	for (ibv_wr_opcode opcode : {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
		TestQp qp;
		std::vector<ibv_sge> sges{{0x3000, 8, 9}};
		ibv_send_wr wr = send_wr(opcode, sges);
		wr.wr.atomic = {
			.remote_addr = 0x4000, .compare_add = 0x1111, .swap = 0x2222, .rkey = 0x33};

		ASSERT_EQ(qp.send(wr), 0);
		const vrdma_sq_wqe *wqe = qp.sent(0);
		EXPECT_EQ(wqe->raddr, 0x4000u);
		EXPECT_EQ(wqe->rkey, 0x33u);
		const auto *operands = payload<vrdma_sq_atomic>(wqe);
		EXPECT_EQ(operands->compare_add, 0x1111u);
		EXPECT_EQ(operands->swap, opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? 0x2222u : 0u);
		const auto *sge = payload<vrdma_sge>(wqe, VRDMA_SQ_PAYLOAD_OFFSET + 16);
		EXPECT_EQ(sge->addr, 0x3000u);
		EXPECT_EQ(sge->lkey, 9u);
	}
}

// Posts a bind of a type 2 window: expects the window's key with the request's tag, and the memory.
// Posts a bind of a type 1 window, and of no window: expects EINVAL.
TEST(PostSend, BindsWindows)
{
	TestQp qp;
	ibv_mr mr{};
	mr.lkey = 0x3300;
	ibv_mw mw{};
	mw.type = IBV_MW_TYPE_2;
	mw.rkey = 0xabcd01;
	std::vector<ibv_sge> none;
	ibv_send_wr wr = send_wr(IBV_WR_BIND_MW, none);
	wr.bind_mw = {.mw = &mw,
		      .rkey = 0x777702,
		      .bind_info = {.mr = &mr,
				    .addr = 0x5000,
				    .length = 1ull << 40,
				    .mw_access_flags = IBV_ACCESS_REMOTE_READ}};
	ASSERT_EQ(qp.send(wr), 0);
	EXPECT_EQ(qp.sent(0)->ctrl & ~VRDMA_WQE_PHASE, uint32_t(VRDMA_SQ_BIND_MW));
	EXPECT_EQ(qp.sent(0)->rkey, 0xabcd02u);
	EXPECT_EQ(qp.sent(0)->raddr, 0u);
	EXPECT_EQ(qp.sent(0)->imm, 0u);
	const auto *bind = payload<vrdma_sq_bind>(qp.sent(0));
	EXPECT_EQ(bind->addr, 0x5000u);
	EXPECT_EQ(bind->length, 1ull << 40);
	EXPECT_EQ(bind->lkey, 0x3300u);
	EXPECT_EQ(bind->access_flags, uint32_t(IBV_ACCESS_REMOTE_READ));

	wr.send_flags = IBV_SEND_INLINE;
	EXPECT_EQ(qp.send(wr), EINVAL);
	wr.send_flags = 0;
	mw.type = IBV_MW_TYPE_1;
	EXPECT_EQ(qp.send(wr), EINVAL);
	wr.bind_mw.mw = nullptr;
	EXPECT_EQ(qp.send(wr), EINVAL);
	EXPECT_FALSE(qp.sq_valid(1));
}

// Binds a type 1 window: expects its new key and the memory. On a UD QP, and on a QP that may not
// send: expects EINVAL.
TEST(PostSend, BindsType1Windows)
{
	ibv_mw_bind bind{};
	bind.send_flags = IBV_SEND_SIGNALED;
	TestQp qp;
	ASSERT_EQ(vrdma_queue_bind(&qp.queues, 0x1234, &bind), 0);
	EXPECT_EQ(qp.sent(0)->ctrl & ~VRDMA_WQE_PHASE, VRDMA_SQ_BIND_MW | VRDMA_SQ_SIGNALED);
	EXPECT_EQ(qp.sent(0)->rkey, 0x1234u);
	EXPECT_EQ(payload<vrdma_sq_bind>(qp.sent(0))->length, 0u);
	EXPECT_EQ(payload<vrdma_sq_bind>(qp.sent(0))->lkey, 0u);
	bind.send_flags = IBV_SEND_INLINE;
	EXPECT_EQ(vrdma_queue_bind(&qp.queues, 0x1234, &bind), EINVAL);

	bind.send_flags = 0;
	TestQp datagrams({.type = IBV_QPT_UD});
	EXPECT_EQ(vrdma_queue_bind(&datagrams.queues, 0x1234, &bind), EINVAL);
}

// Invalidates a local and a remote key: expects the key in the WQE, and no immediate data.
TEST(PostSend, Invalidations)
{
	for (ibv_wr_opcode opcode : {IBV_WR_LOCAL_INV, IBV_WR_SEND_WITH_INV}) {
		TestQp qp;
		std::vector<ibv_sge> none;
		ibv_send_wr wr = send_wr(opcode, none);
		wr.invalidate_rkey = 0x5566;
		ASSERT_EQ(qp.send(wr), 0);
		EXPECT_EQ(qp.sent(0)->ctrl & ~VRDMA_WQE_PHASE, uint32_t(opcode));
		EXPECT_EQ(qp.sent(0)->rkey, 0x5566u);
		EXPECT_EQ(qp.sent(0)->raddr, 0u);
		EXPECT_EQ(qp.sent(0)->imm, 0u);
	}
}

// Sends inline data from three buffers, more than the QP has SGEs: expects the bytes one after the
// other in the WQE.
TEST(PostSend, InlineGathers)
{
	TestQp qp;
	const char first[] = "ab", second[] = "cde", third[] = "f";
	std::vector<ibv_sge> sges{sge_of(first, 2), sge_of(second, 3), sge_of(third, 1)};
	ibv_send_wr wr = send_wr(IBV_WR_SEND, sges, IBV_SEND_INLINE);

	ASSERT_EQ(qp.send(wr), 0);
	EXPECT_EQ(VRDMA_GET(VRDMA_WQE_NUM_SGE, qp.sent(0)->ctrl), 0u);
	EXPECT_EQ(qp.sent(0)->length, 6u);
	EXPECT_EQ(memcmp(payload<char>(qp.sent(0)), "abcdef", 6), 0);
}

// Sends as much inline data as the QP reports, then a byte more, then lengths whose sum wraps:
// expects success and EINVAL.
TEST(PostSend, InlineLimit)
{
	TestQp qp;
	std::vector<uint8_t> data(qp.cap().max_inline_data + 1, 0x5a);
	std::vector<ibv_sge> sges{sge_of(data.data(), qp.cap().max_inline_data)};
	ibv_send_wr wr = send_wr(IBV_WR_SEND, sges, IBV_SEND_INLINE);
	EXPECT_EQ(qp.send(wr), 0);
	EXPECT_EQ(qp.sent(0)->length, qp.cap().max_inline_data);

	sges[0].length++;
	EXPECT_EQ(qp.send(wr), EINVAL);
	EXPECT_EQ(qp.bad_send, &wr);

	std::vector<ibv_sge> wrapping{sge_of(data.data(), 8), sge_of(data.data(), ~0u)};
	ibv_send_wr second = send_wr(IBV_WR_SEND, wrapping, IBV_SEND_INLINE);
	EXPECT_EQ(qp.send(second), EINVAL);
	EXPECT_FALSE(qp.sq_valid(1));
}

// Sends every opcode on every type of QP: expects EINVAL for opcodes that the type does not have.
TEST(PostSend, OpcodesByQpType)
{
	for (ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
		for (uint32_t opcode = 0; opcode < 70; opcode++) {
			TestQp qp({.type = type});
			vrdma_ah ah{};
			std::vector<ibv_sge> sges{{0, 8, 0}};
			ibv_send_wr wr = send_wr(IBV_WR_SEND, sges);
			/* In C an enumeration holds any number. */
			memcpy(&wr.opcode, &opcode, sizeof(opcode));
			ibv_mw mw{};
			mw.type = IBV_MW_TYPE_2;
			if (type == IBV_QPT_UD)
				wr.wr.ud.ah = &ah.base;
			else if (opcode == IBV_WR_BIND_MW)
				wr.bind_mw.mw = &mw;

			/* Bit n: opcode n. */
			const uint64_t all = type == IBV_QPT_RC   ? 0x83ff
					     : type == IBV_QPT_UC ? 0x18f
								  : 0xc;
			const bool legal = opcode < 64 && (all >> opcode & 1) != 0;
			EXPECT_EQ(qp.send(wr), legal ? 0 : EINVAL) << type << ' ' << opcode;
			EXPECT_EQ(qp.sq_valid(0), legal);
		}
	}
}

// Sends invalid requests, each with one error: expects EINVAL and no WQE.
TEST(PostSend, RefusesBadRequests)
{
	std::vector<ibv_sge> one{{0, 8, 0}}, three(3);
	ibv_send_wr too_many = send_wr(IBV_WR_SEND, three);
	ibv_send_wr negative = send_wr(IBV_WR_SEND, one);
	ibv_send_wr inline_negative = send_wr(IBV_WR_SEND, one, IBV_SEND_INLINE);
	negative.num_sge = inline_negative.num_sge = -1;
	ibv_send_wr unknown_flag = send_wr(IBV_WR_SEND, one, IBV_SEND_IP_CSUM);
	ibv_send_wr inline_read = send_wr(IBV_WR_RDMA_READ, one, IBV_SEND_INLINE);
	ibv_send_wr inline_atomic = send_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, one, IBV_SEND_INLINE);
	ibv_send_wr atomic_without_sge = send_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, one);
	atomic_without_sge.num_sge = 0;

	for (ibv_send_wr *wr : {&too_many, &negative, &inline_negative, &unknown_flag, &inline_read,
				&inline_atomic, &atomic_without_sge}) {
		TestQp qp;
		EXPECT_EQ(qp.send(*wr), EINVAL);
		EXPECT_EQ(qp.bad_send, wr);
		EXPECT_FALSE(qp.sq_valid(0));
		EXPECT_EQ(qp.pages.doorbells.slot[200], 0);
	}
	TestQp ud({.type = IBV_QPT_UD});
	ibv_send_wr without_ah = send_wr(IBV_WR_SEND, one);
	EXPECT_EQ(ud.send(without_ah), EINVAL);
}

// Sends a list whose third request is bad: expects the first two to be posted, with a doorbell, and
// the third in bad_wr.
TEST(PostSend, ListStopsAtTheBadRequest)
{
	TestQp qp;
	std::vector<ibv_sge> none;
	ibv_send_wr wrs[4];
	for (int i = 0; i < 4; i++) {
		wrs[i] = send_wr(IBV_WR_SEND, none);
		wrs[i].next = i < 3 ? &wrs[i + 1] : nullptr;
	}
	wrs[2].opcode = IBV_WR_TSO;

	EXPECT_EQ(qp.send(wrs[0]), EINVAL);
	EXPECT_EQ(qp.bad_send, &wrs[2]);
	EXPECT_TRUE(qp.sq_valid(0));
	EXPECT_TRUE(qp.sq_valid(1));
	EXPECT_FALSE(qp.sq_valid(2));
	EXPECT_EQ(qp.pages.doorbells.slot[200], 1);
}

// Fills the ring: expects ENOMEM for one more WQE. Completes the last WQE, the only signaled one:
// expects room for a full ring again.
TEST(PostSend, FullRing)
{
	TestQp qp;
	TestCq cq;
	cq.attach(qp);
	std::vector<ibv_sge> none;
	for (uint64_t i = 0; i < 4; i++) {
		ibv_send_wr wr = send_wr(IBV_WR_SEND, none, i == 3 ? IBV_SEND_SIGNALED : 0, i);
		ASSERT_EQ(qp.send(wr), 0);
	}
	ibv_send_wr wr = send_wr(IBV_WR_SEND, none);
	EXPECT_EQ(qp.send(wr), ENOMEM);
	EXPECT_EQ(qp.bad_send, &wr);

	cq.complete_send(qp.queues.qpn, 3);
	const auto wcs = cq.poll();
	ASSERT_EQ(wcs.size(), 1u);
	EXPECT_EQ(wcs[0].wr_id, 3u);
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(qp.send(wr), 0);
	EXPECT_EQ(qp.send(wr), ENOMEM);
}

// Sends on a QP without a send queue: expects an error.
TEST(PostSend, NoSendQueue)
{
	TestQp qp({.cap = {.max_send_wr = 0,
			   .max_recv_wr = 1,
			   .max_send_sge = 0,
			   .max_recv_sge = 1,
			   .max_inline_data = 0}});
	std::vector<ibv_sge> none;
	ibv_send_wr wr = send_wr(IBV_WR_SEND, none);

	EXPECT_EQ(qp.send(wr), EINVAL);
}

// Sends and completes over many passes, and over the wrap of the free-running indexes: expects each
// WQE to be valid once, with its own phase, and to complete with its wr_id.
TEST(PostSend, WrapsAround)
{
	for (uint32_t start : {0u, ~0u - 5}) {
		const uint32_t aligned = start & ~3u; // the device counts from a ring's beginning
		TestQp qp;
		TestCq cq;
		cq.attach(qp);
		qp.queues.sq.head = qp.queues.sq.tail = aligned;

		for (uint32_t n = 0; n < 25; n++) {
			const uint32_t index = aligned + n;
			std::vector<ibv_sge> none;
			ibv_send_wr wr = send_wr(IBV_WR_SEND, none, IBV_SEND_SIGNALED, 1000 + n);

			ASSERT_FALSE(qp.sq_valid(index)) << n;
			ASSERT_EQ(qp.send(wr), 0) << n;
			ASSERT_TRUE(qp.sq_valid(index)) << n;
			cq.complete_send(qp.queues.qpn, index);
			const auto wcs = cq.poll();
			ASSERT_EQ(wcs.size(), 1u);
			ASSERT_EQ(wcs[0].wr_id, 1000 + n);
		}
	}
}

} // namespace
} // namespace vrdma::test
