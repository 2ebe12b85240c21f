// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Tests the provider with the installed libibverbs: its commands to the kernel, its handling of the
// answers, and verbs from end to end.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <vrdma/device.h>

#include "direct/vrdmadv.h"
#include "fake_kernel.h"
#include "fake_sysfs.h"

namespace vrdma::test
{
namespace
{

template <auto destroy> struct Destroy {
	template <typename T> void operator()(T *object) const
	{
		EXPECT_EQ(destroy(object), 0);
	}
};
using Context = std::unique_ptr<ibv_context, Destroy<ibv_close_device>>;
using Pd = std::unique_ptr<ibv_pd, Destroy<ibv_dealloc_pd>>;
using Mr = std::unique_ptr<ibv_mr, Destroy<ibv_dereg_mr>>;
using Cq = std::unique_ptr<ibv_cq, Destroy<ibv_destroy_cq>>;
using Srq = std::unique_ptr<ibv_srq, Destroy<ibv_destroy_srq>>;
using Qp = std::unique_ptr<ibv_qp, Destroy<ibv_destroy_qp>>;
using Ah = std::unique_ptr<ibv_ah, Destroy<ibv_destroy_ah>>;

Context open_device()
{
	static const FakeSysfs sysfs(
		FakeSysfs::pci_modalias(VRDMA_PCI_VENDOR_ID, VRDMA_PCI_DEVICE_ID),
		VRDMA_UVERBS_ABI_VERSION);
	setenv("SYSFS_PATH", sysfs.path().c_str(), 1);
	setenv("RDMAV_DRIVERS", PROVIDER, 0);

	int count = 0;
	ibv_device **devices = ibv_get_device_list(&count);
	Context context;
	if (devices && count == 1)
		context.reset(ibv_open_device(devices[0]));
	ibv_free_device_list(devices);
	return context;
}

class Provider : public testing::Test
{
      protected:
	void SetUp() override
	{
		kernel.refusals.clear();
		kernel.doorbells() = {};
		kernel.status() = {};
		kernel.kick() = 0;
		context = open_device();
		ASSERT_TRUE(context);
		pd.reset(ibv_alloc_pd(context.get()));
		ASSERT_TRUE(pd);
		cq.reset(ibv_create_cq(context.get(), 10, nullptr, nullptr, 0));
		ASSERT_TRUE(cq);
	}
	void TearDown() override
	{
		cq.reset();
		pd.reset();
		context.reset();
		EXPECT_EQ(kernel.live_objects, 0);
	}

	ibv_qp_init_attr init_attr(ibv_qp_type type = IBV_QPT_RC)
	{
		ibv_qp_init_attr attr{};
		attr.send_cq = cq.get();
		attr.recv_cq = cq.get();
		attr.qp_type = type;
		attr.cap = {5, 3, 2, 1, 100};
		return attr;
	}
	// For an RC QP in the PD. The caller sets the fields of the mask.
	ibv_qp_init_attr_ex extended_attr(uint32_t comp_mask) const
	{
		ibv_qp_init_attr_ex attr{};
		attr.comp_mask = IBV_QP_INIT_ATTR_PD | comp_mask;
		attr.pd = pd.get();
		attr.send_cq = attr.recv_cq = cq.get();
		attr.qp_type = IBV_QPT_RC;
		attr.cap = {1, 1, 1, 1, 0};
		return attr;
	}
	Qp create_qp(ibv_qp_type type = IBV_QPT_RC)
	{
		ibv_qp_init_attr attr = init_attr(type);
		return Qp(ibv_create_qp(pd.get(), &attr));
	}
	static int set_state(const Qp &qp, ibv_qp_state state)
	{
		ibv_qp_attr attr{};
		attr.qp_state = state;
		return ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE);
	}

	// The device's view of the buffers that the provider gave to the kernel.
	const vrdma_sq_wqe *sent(uint32_t index) const
	{
		const auto &ours = kernel.create_qp;
		return reinterpret_cast<const vrdma_sq_wqe *>(
			ours.buffer + vrdma_sq_offset(ours.sq_stride_shift) +
			(uint64_t(index) << ours.sq_stride_shift));
	}
	void complete(uint32_t index, vrdma_cqe cqe) const
	{
		auto *ring = reinterpret_cast<vrdma_cqe *>(kernel.create_cq.buffer +
							   VRDMA_QUEUE_CONTROL_SIZE);
		cqe.ctrl |= VRDMA_CQE_PHASE;
		ring[index] = cqe;
	}

	FakeKernel &kernel = FakeKernel::instance();
	Context context;
	Pd pd;
	Cq cq;
};

// Queries device and port: expects the kernel's answers, and its firmware version as text.
TEST_F(Provider, Queries)
{
	ibv_device_attr attr{};
	ASSERT_EQ(ibv_query_device(context.get(), &attr), 0);
	EXPECT_STREQ(attr.fw_ver, "1.2.3");
	EXPECT_EQ(attr.max_qp_wr, int(FakeKernel::max_qp_wr));

	ibv_device_attr_ex extended{};
	ASSERT_EQ(ibv_query_device_ex(context.get(), nullptr, &extended), 0);
	EXPECT_STREQ(extended.orig_attr.fw_ver, "1.2.3");

	ibv_port_attr port{};
	ASSERT_EQ(ibv_query_port(context.get(), 1, &port), 0);
	EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
}

// Registers memory: expects the kernel to get address, length and access, and the kernel's keys.
TEST_F(Provider, RegistersMemory)
{
	uint8_t data[100];
	const int access = IBV_ACCESS_LOCAL_WRITE;
	const Mr mr(ibv_reg_mr(pd.get(), data, sizeof(data), access));
	ASSERT_TRUE(mr);
	EXPECT_EQ(mr->lkey, FakeKernel::lkey);
	EXPECT_EQ(kernel.reg_mr_start, reinterpret_cast<uintptr_t>(data));
	EXPECT_EQ(kernel.reg_mr_length, sizeof(data));
	EXPECT_EQ(kernel.reg_mr_pd, FakeKernel::pd_handle);
}

// Changes a region's access rights: expects the kernel to get only this change. If the kernel
// refuses, expects its errno.
TEST_F(Provider, ReregistersMemory)
{
	uint8_t data[100];
	const int before = IBV_ACCESS_LOCAL_WRITE;
	const Mr mr(ibv_reg_mr(pd.get(), data, sizeof(data), before));
	ASSERT_TRUE(mr);
	const int access = IBV_ACCESS_REMOTE_READ;
	EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, access),
		  0);
	EXPECT_EQ(kernel.rereg_mr_flags, uint32_t(IBV_REREG_MR_CHANGE_ACCESS));
	EXPECT_EQ(kernel.rereg_mr_access, uint32_t(access));
	EXPECT_EQ(kernel.rereg_mr_handle, mr->handle);

	kernel.refusals[IB_USER_VERBS_CMD_REREG_MR] = EBUSY;
	EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, access),
		  IBV_REREG_MR_ERR_CMD);
	EXPECT_EQ(errno, EBUSY);
}

// Allocates a null region: expects the device's fixed key, and no command to the kernel.
TEST_F(Provider, NullRegion)
{
	const auto before = kernel.live_objects;
	const Mr mr(ibv_alloc_null_mr(pd.get()));
	ASSERT_TRUE(mr);
	EXPECT_EQ(mr->lkey, VRDMA_NULL_LKEY);
	EXPECT_EQ(kernel.live_objects, before);
}

// Allocates windows of each type, and of an invalid type: expects the kernel's key, and EINVAL.
TEST_F(Provider, AllocatesWindows)
{
	for (ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
		ibv_mw *mw = ibv_alloc_mw(pd.get(), type);
		ASSERT_TRUE(mw);
		EXPECT_EQ(mw->rkey, FakeKernel::mw_rkey);
		EXPECT_EQ(mw->type, type);
		EXPECT_EQ(ibv_dealloc_mw(mw), 0);
	}
	EXPECT_EQ(ibv_alloc_mw(pd.get(), ibv_mw_type(3)), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

// Creates a CQ for 10 CQEs: expects a page-aligned, zeroed ring of 16, and 16 reported.
TEST_F(Provider, CreatesCq)
{
	EXPECT_EQ(cq->cqe, 16);
	EXPECT_EQ(kernel.create_cq.depth, 16u);
	EXPECT_EQ(kernel.create_cq.reserved, 0u);
	EXPECT_NE(kernel.create_cq.buffer, 0u);
	EXPECT_EQ(kernel.create_cq.buffer % 4096, 0u);
}

// Creates CQs with no and with too many CQEs, and one that the kernel refuses: expects the errno.
TEST_F(Provider, RefusesBadCqs)
{
	for (int cqe : {0, -1, int(FakeKernel::max_cqe) + 1}) {
		EXPECT_EQ(ibv_create_cq(context.get(), cqe, nullptr, nullptr, 0), nullptr);
		EXPECT_EQ(errno, EINVAL);
	}
	kernel.refusals[IB_USER_VERBS_CMD_CREATE_CQ] = ENOSPC;
	EXPECT_EQ(ibv_create_cq(context.get(), 1, nullptr, nullptr, 0), nullptr);
	EXPECT_EQ(errno, ENOSPC);
}

// Creates a QP for 5 sends and 3 receives: expects the layout of the format, the kernel and the
// program to get the same limits, and the QPN that the kernel gave.
TEST_F(Provider, CreatesQp)
{
	ibv_qp_init_attr attr = init_attr();
	const Qp qp(ibv_create_qp(pd.get(), &attr));
	ASSERT_TRUE(qp);
	EXPECT_EQ(qp->qp_num, FakeKernel::qpn);

	const auto &ours = kernel.create_qp;
	EXPECT_EQ(ours.buffer % 4096, 0u);
	EXPECT_EQ(ours.sq_depth, 8u);
	EXPECT_EQ(ours.rq_depth, 4u);
	EXPECT_EQ(ours.sq_stride_shift, 7);
	EXPECT_EQ(ours.rq_stride_shift, 5);
	for (uint8_t reserved : ours.reserved)
		EXPECT_EQ(reserved, 0);
	EXPECT_EQ(attr.cap.max_send_wr, 8u);
	EXPECT_EQ(attr.cap.max_recv_wr, 4u);
	EXPECT_EQ(attr.cap.max_inline_data, 128u - VRDMA_SQ_PAYLOAD_OFFSET);
	EXPECT_EQ(kernel.create_qp_max_send_wr, attr.cap.max_send_wr);
	EXPECT_EQ(kernel.create_qp_max_inline, attr.cap.max_inline_data);
}

// Asks whether data is written in order: expects no, for any operation. The device copies with
// memmove(), which may begin at the end. Only the last bytes are guaranteed to be written last.
TEST_F(Provider, PromisesNoOrderOfData)
{
	const Qp qp = create_qp();
	for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND})
		EXPECT_EQ(ibv_query_qp_data_in_order(qp.get(), opcode, 0), 0);
}

// Creates a QP that does not get datagrams that it sends to its own groups: expects the kernel to
// get the flag. Expects EOPNOTSUPP for types without groups, and for other flags.
TEST_F(Provider, CreatesQpThatBlocksItsOwnMulticast)
{
	const auto create = [&](ibv_qp_type type, uint32_t flags) {
		const ibv_qp_init_attr simple = init_attr(type);
		ibv_qp_init_attr_ex attr = {};
		attr.send_cq = simple.send_cq;
		attr.recv_cq = simple.recv_cq;
		attr.cap = simple.cap;
		attr.qp_type = type;
		attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
		attr.pd = pd.get();
		attr.create_flags = flags;
		return Qp(ibv_create_qp_ex(context.get(), &attr));
	};
	ASSERT_TRUE(create(IBV_QPT_UD, 0));
	EXPECT_EQ(kernel.create_qp.flags, 0);
	ASSERT_TRUE(create(IBV_QPT_UD, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB));
	EXPECT_EQ(kernel.create_qp.flags, VRDMA_UVERBS_QP_BLOCK_SELF_MULTICAST);
	EXPECT_FALSE(create(IBV_QPT_RC, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB));
	EXPECT_EQ(errno, EOPNOTSUPP);
	EXPECT_FALSE(create(IBV_QPT_UD, IBV_QP_CREATE_SCATTER_FCS));
	EXPECT_EQ(errno, EOPNOTSUPP);
}

// Creates QPs that the device or the provider does not support, each for one reason: expects the
// errno, and the program's attributes unchanged.
TEST_F(Provider, RefusesBadQps)
{
	struct Case {
		void (*change)(ibv_qp_init_attr &);
		int error;
	};
	for (const auto &[change, error] :
	     {Case{[](auto &attr) { attr.qp_type = IBV_QPT_RAW_PACKET; }, EOPNOTSUPP},
	      Case{[](auto &attr) { attr.cap.max_send_wr = FakeKernel::max_qp_wr + 1; }, EINVAL},
	      Case{[](auto &attr) { attr.cap.max_recv_wr = FakeKernel::max_qp_wr + 1; }, EINVAL},
	      Case{[](auto &attr) { attr.cap.max_send_sge = FakeKernel::max_sge + 1; }, EINVAL},
	      Case{[](auto &attr) { attr.cap.max_recv_sge = FakeKernel::max_sge + 1; }, EINVAL},
	      Case{[](auto &attr) { attr.cap.max_inline_data = FakeKernel::max_inline + 1; },
		   EINVAL}}) {
		ibv_qp_init_attr attr = init_attr();
		change(attr);
		const ibv_qp_cap before = attr.cap;

		EXPECT_EQ(ibv_create_qp(pd.get(), &attr), nullptr);
		EXPECT_EQ(errno, error);
		EXPECT_EQ(memcmp(&before, &attr.cap, sizeof(before)), 0);
	}
	kernel.refusals[IB_USER_VERBS_CMD_CREATE_QP] = EDQUOT;
	ibv_qp_init_attr attr = init_attr();
	EXPECT_EQ(ibv_create_qp(pd.get(), &attr), nullptr);
	EXPECT_EQ(errno, EDQUOT);
}

// Creates an SRQ for 5 receives of 2 SGEs and a QP that uses it: expects the layout of the format,
// the SRQ's handle, no receive queue of the QP's own, and that both can be destroyed.
TEST_F(Provider, CreatesSrq)
{
	ibv_srq_init_attr attr{};
	attr.attr = {.max_wr = 5, .max_sge = 2};
	const Srq srq(ibv_create_srq(pd.get(), &attr));
	ASSERT_TRUE(srq);
	EXPECT_EQ(attr.attr.max_wr, 8u);
	EXPECT_EQ(kernel.create_srq.depth, 8u);
	EXPECT_EQ(kernel.create_srq.stride_shift, 6);
	EXPECT_EQ(kernel.create_srq.buffer % 4096, 0u);
	for (uint8_t reserved : kernel.create_srq.reserved)
		EXPECT_EQ(reserved, 0);

	ibv_qp_init_attr qp_attr = init_attr();
	qp_attr.srq = srq.get();
	const Qp qp(ibv_create_qp(pd.get(), &qp_attr));
	ASSERT_TRUE(qp);
	EXPECT_EQ(qp->srq, srq.get());
	EXPECT_EQ(kernel.create_qp_srq, FakeKernel::srq_handle);
	EXPECT_EQ(kernel.create_qp_max_recv_wr, 0u);
	EXPECT_EQ(kernel.create_qp.rq_depth, 0u);
	EXPECT_EQ(qp_attr.cap.max_recv_wr, 0u);
	ASSERT_EQ(set_state(qp, IBV_QPS_RTS), 0);
	ibv_recv_wr wr{}, *bad = nullptr;
	EXPECT_EQ(ibv_post_recv(qp.get(), &wr, &bad), EINVAL);
	EXPECT_EQ(ibv_post_srq_recv(srq.get(), &wr, &bad), 0);
}

// Creates SRQs of sizes that the device does not support, and one that the kernel refuses: expects
// the errno.
TEST_F(Provider, RefusesBadSrqs)
{
	for (const auto &[max_wr, max_sge] :
	     {std::pair{0u, 1u}, {FakeKernel::max_qp_wr + 1, 1u}, {1u, FakeKernel::max_sge + 1}}) {
		ibv_srq_init_attr attr{};
		attr.attr = {.max_wr = max_wr, .max_sge = max_sge};
		EXPECT_EQ(ibv_create_srq(pd.get(), &attr), nullptr);
		EXPECT_EQ(errno, EINVAL);
	}
	kernel.refusals[IB_USER_VERBS_CMD_CREATE_SRQ] = EDQUOT;
	ibv_srq_init_attr attr{};
	attr.attr.max_wr = 1;
	EXPECT_EQ(ibv_create_srq(pd.get(), &attr), nullptr);
	EXPECT_EQ(errno, EDQUOT);
}

// Arms limits within and beyond the depth, and requests another size: expects the kernel to get
// only the first.
TEST_F(Provider, ModifiesSrq)
{
	ibv_srq_init_attr init{};
	init.attr.max_wr = 8;
	const Srq srq(ibv_create_srq(pd.get(), &init));
	ASSERT_TRUE(srq);
	ibv_srq_attr attr{.max_wr = 16, .max_sge = 0, .srq_limit = 8};
	EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_LIMIT), 0);
	EXPECT_EQ(kernel.modify_srq_limit, 8u);
	EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, 4), EINVAL);
	attr.srq_limit = 9;
	EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_LIMIT), EINVAL);
	EXPECT_EQ(ibv_query_srq(srq.get(), &attr), 0);
	EXPECT_EQ(attr.srq_limit, 8u);
}

// Resizes an SRQ: expects the kernel to get a ring of at least the requested size, and the limit
// with it. Expects no change if either is refused.
TEST_F(Provider, ResizesAnSrq)
{
	ibv_srq_init_attr init{};
	init.attr = {8, 2, 0};
	const Srq srq(ibv_create_srq(pd.get(), &init));
	ASSERT_TRUE(srq);
	ibv_srq_attr attr{.max_wr = 20, .max_sge = 0, .srq_limit = 30};
	EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR), 0);
	EXPECT_EQ(attr.max_wr, 32u);
	EXPECT_EQ(kernel.modify_srq_mask, uint32_t{IBV_SRQ_MAX_WR});
	EXPECT_EQ(kernel.modify_srq_max_wr, 32u);
	EXPECT_EQ(kernel.resize_srq.depth, 32u);
	EXPECT_EQ(kernel.resize_srq.buffer % 4096, 0u);
	EXPECT_EQ(kernel.resize_srq.reserved, 0u);
	EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_LIMIT), 0);

	const int both = IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT;
	attr.max_wr = 16;
	attr.srq_limit = 16;
	EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, both), 0);
	EXPECT_EQ(kernel.modify_srq_mask, uint32_t(both));
	EXPECT_EQ(kernel.modify_srq_limit, 16u);

	kernel.resize_srq = {};
	attr.srq_limit = 17;
	EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, both), EINVAL);
	attr = {.max_wr = 0, .max_sge = 0, .srq_limit = 0};
	EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, both), EINVAL);
	attr.max_wr = FakeKernel::max_qp_wr + 1;
	EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, both), EINVAL);
	EXPECT_EQ(kernel.resize_srq.depth, 0u);

	kernel.refusals[IB_USER_VERBS_CMD_MODIFY_SRQ] = ENOMEM;
	attr.max_wr = 64;
	EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR), ENOMEM);
	EXPECT_EQ(attr.max_wr, 64u);
	ibv_recv_wr wr{}, *bad = nullptr;
	for (int i = 0; i < 16; i++)
		EXPECT_EQ(ibv_post_srq_recv(srq.get(), &wr, &bad), 0);
	EXPECT_EQ(ibv_post_srq_recv(srq.get(), &wr, &bad), ENOMEM);
}

// Sends on a QP that a sleeping device does not poll, completes, polls: expects the WQE, the
// doorbell of the slot that the kernel gave, the kick, and the completion.
TEST_F(Provider, SendsAndCompletes)
{
	const Qp qp = create_qp();
	ASSERT_TRUE(qp);
	ASSERT_EQ(set_state(qp, IBV_QPS_RTS), 0);
	kernel.status().need_kick = 1;
	const char text[] = "hello";
	ibv_sge sge{reinterpret_cast<uintptr_t>(text), sizeof(text), 0};
	ibv_send_wr wr{}, *bad = nullptr;
	wr.wr_id = 17;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;

	ASSERT_EQ(ibv_post_send(qp.get(), &wr, &bad), 0);
	EXPECT_EQ(sent(0)->ctrl,
		  VRDMA_WQE_PHASE | VRDMA_SQ_SEND | VRDMA_SQ_INLINE | VRDMA_SQ_SIGNALED);
	EXPECT_STREQ(reinterpret_cast<const char *>(sent(0) + 1), text);
	EXPECT_EQ(kernel.doorbells().slot[FakeKernel::slot], 1);
	EXPECT_EQ(kernel.doorbells().line[FakeKernel::slot / 64], 1);
	EXPECT_NE(kernel.kick(), 0u);

	complete(0, {.ctrl = VRDMA_SET(VRDMA_CQE_OPCODE, uint32_t(IBV_WC_SEND)),
		     .qpn = FakeKernel::qpn});
	ibv_wc wc{};
	ASSERT_EQ(ibv_poll_cq(cq.get(), 1, &wc), 1);
	EXPECT_EQ(wc.wr_id, 17u);
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &wc), 0);
}

// Sends before RTS, after the kernel refused the transition, and in RTS: expects EINVAL, EINVAL, 0.
TEST_F(Provider, PostsFollowTheState)
{
	const Qp qp = create_qp();
	ASSERT_TRUE(qp);
	ibv_send_wr wr{}, *bad = nullptr;
	wr.opcode = IBV_WR_SEND;
	EXPECT_EQ(ibv_post_send(qp.get(), &wr, &bad), EINVAL);
	EXPECT_EQ(bad, &wr);

	kernel.refusals[IB_USER_VERBS_CMD_MODIFY_QP] = EINVAL;
	EXPECT_EQ(set_state(qp, IBV_QPS_RTS), EINVAL);
	EXPECT_EQ(ibv_post_send(qp.get(), &wr, &bad), EINVAL);

	kernel.refusals.clear();
	EXPECT_EQ(set_state(qp, IBV_QPS_RTS), 0);
	EXPECT_EQ(ibv_post_send(qp.get(), &wr, &bad), 0);

	ibv_qp_attr attr{};
	ibv_qp_init_attr init{};
	ASSERT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_STATE, &init), 0);
	EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
}

// Resets a QP with a CQE that was not polled: expects the CQE struck out and the ring cleared.
TEST_F(Provider, ResetStrikesOut)
{
	const Qp qp = create_qp();
	ASSERT_TRUE(qp);
	ASSERT_EQ(set_state(qp, IBV_QPS_RTS), 0);
	ibv_send_wr wr{}, *bad = nullptr;
	wr.opcode = IBV_WR_SEND;
	ASSERT_EQ(ibv_post_send(qp.get(), &wr, &bad), 0);
	complete(0, {.qpn = FakeKernel::qpn});

	ASSERT_EQ(set_state(qp, IBV_QPS_RESET), 0);
	ibv_wc wc{};
	EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &wc), 0);
	EXPECT_EQ(sent(0)->ctrl, 0u);
	EXPECT_EQ(ibv_post_send(qp.get(), &wr, &bad), EINVAL);
}

// Creates an address handle and sends a datagram: expects the handle's device number in the WQE.
TEST_F(Provider, AddressHandles)
{
	const Qp qp = create_qp(IBV_QPT_UD);
	ASSERT_TRUE(qp);
	ASSERT_EQ(set_state(qp, IBV_QPS_RTS), 0);
	ibv_ah_attr attr{};
	attr.is_global = 1;
	attr.port_num = 1;
	const Ah ah(ibv_create_ah(pd.get(), &attr));
	ASSERT_TRUE(ah);
	ibv_send_wr wr{}, *bad = nullptr;
	wr.opcode = IBV_WR_SEND;
	wr.wr.ud = {.ah = ah.get(), .remote_qpn = 5, .remote_qkey = 6};

	ASSERT_EQ(ibv_post_send(qp.get(), &wr, &bad), 0);
	EXPECT_EQ(sent(0)->ud.ah, FakeKernel::ah);
}

// Arms the CQ: expects the request in the line that the device reads.
TEST_F(Provider, ArmsCq)
{
	ASSERT_EQ(ibv_req_notify_cq(cq.get(), 1), 0);
	const auto *control = reinterpret_cast<const vrdma_cq_control *>(kernel.create_cq.buffer);
	EXPECT_EQ(control->arm, VRDMA_SET(VRDMA_CQ_ARM_SEQUENCE, 1u) | VRDMA_CQ_ARM_SOLICITED);
}

// A parent domain's allocator, which records requests and gives the answers that a test sets.
struct Allocator {
	struct Request {
		size_t size, alignment;
		uint64_t type;
	};
	std::vector<Request> requests;
	int live = 0;
	void *answer = nullptr; // if set, returned instead of memory
	size_t skew = 0;

	static void *alloc(ibv_pd *, void *context, size_t size, size_t alignment, uint64_t type)
	{
		auto *self = static_cast<Allocator *>(context);
		self->requests.push_back({size, alignment, type});
		if (self->answer)
			return self->answer == fails ? nullptr : self->answer;
		self->live++;
		auto *data = static_cast<uint8_t *>(aligned_alloc(alignment, size + alignment));
		memset(data, 0xff, size + alignment);
		return data + self->skew;
	}
	static void release(ibv_pd *, void *context, void *data, uint64_t)
	{
		auto *self = static_cast<Allocator *>(context);
		self->live--;
		free(static_cast<uint8_t *>(data) - self->skew);
	}
	static constexpr char fails_here = 0;
	static inline void *const fails = const_cast<char *>(&fails_here);

	ibv_parent_domain_init_attr attr(ibv_pd *pd, ibv_td *td = nullptr)
	{
		ibv_parent_domain_init_attr attr{};
		attr.pd = pd;
		attr.td = td;
		attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
				 IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
		attr.alloc = alloc;
		attr.free = release;
		attr.pd_context = this;
		return attr;
	}
};

// Creates a QP, an SRQ and a CQ in a parent domain: expects their queues in its allocator's memory,
// zeroed, and the memory given back when they are destroyed.
TEST_F(Provider, QueuesInAParentDomainsMemory)
{
	Allocator allocator;
	auto attr = allocator.attr(pd.get());
	const Pd domain(ibv_alloc_parent_domain(context.get(), &attr));
	ASSERT_TRUE(domain);
	{
		ibv_qp_init_attr qp_attr = init_attr();
		const Qp qp(ibv_create_qp(domain.get(), &qp_attr));
		ASSERT_TRUE(qp);
		ASSERT_EQ(allocator.requests.size(), 1u);
		EXPECT_EQ(allocator.requests[0].alignment, 4096u);
		EXPECT_EQ(allocator.requests[0].size % 4096, 0u);
		EXPECT_EQ(allocator.requests[0].type, uint64_t(VRDMADV_RES_QP));
		EXPECT_EQ(sent(0)->ctrl, 0u);
		EXPECT_EQ(ibv_dealloc_pd(domain.get()), EBUSY);

		ibv_srq_init_attr srq_attr{};
		srq_attr.attr = {4, 1, 0};
		const Srq srq(ibv_create_srq(domain.get(), &srq_attr));
		ibv_cq_init_attr_ex cq_attr{};
		cq_attr.cqe = 4;
		cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
		cq_attr.parent_domain = domain.get();
		const Cq ex(ibv_cq_ex_to_cq(ibv_create_cq_ex(context.get(), &cq_attr)));
		ASSERT_TRUE(srq && ex);
		ASSERT_EQ(allocator.requests.size(), 3u);
		EXPECT_EQ(allocator.requests[1].type, uint64_t(VRDMADV_RES_SRQ));
		EXPECT_EQ(allocator.requests[2].type, uint64_t(VRDMADV_RES_CQ));
		EXPECT_EQ(allocator.live, 3);
	}
	EXPECT_EQ(allocator.live, 0);
}

// An allocator that has no memory, leaves the allocation to the driver, or ignores the alignment:
// expects ENOMEM, a queue, and EINVAL with the memory given back.
TEST_F(Provider, AllocatorsAnswers)
{
	Allocator allocator;
	auto attr = allocator.attr(pd.get());
	const Pd domain(ibv_alloc_parent_domain(context.get(), &attr));
	const auto create = [&] {
		ibv_qp_init_attr qp_attr = init_attr();
		errno = 0;
		return Qp(ibv_create_qp(domain.get(), &qp_attr));
	};
	allocator.answer = Allocator::fails;
	EXPECT_FALSE(create());
	EXPECT_EQ(errno, ENOMEM);
	allocator.answer = IBV_ALLOCATOR_USE_DEFAULT;
	EXPECT_TRUE(create());
	allocator.answer = nullptr;
	allocator.skew = 64;
	EXPECT_FALSE(create());
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(allocator.live, 0);
}

// Resizes a CQ: expects the kernel to get a ring of at least the requested depth, prepared for the
// next CQE, and the old ring to stay in use if the kernel refuses.
TEST_F(Provider, ResizesACq)
{
	ASSERT_EQ(ibv_resize_cq(cq.get(), 20), 0);
	EXPECT_EQ(cq->cqe, 32);
	EXPECT_EQ(kernel.resize_cq.depth, 32u);
	EXPECT_EQ(kernel.resize_cq.buffer % 4096, 0u);

	EXPECT_EQ(ibv_resize_cq(cq.get(), 0), EINVAL);
	EXPECT_EQ(ibv_resize_cq(cq.get(), int(FakeKernel::max_cqe) + 1), EINVAL);
	kernel.refusals[IB_USER_VERBS_CMD_RESIZE_CQ] = EINVAL;
	EXPECT_EQ(ibv_resize_cq(cq.get(), 4), EINVAL);
	EXPECT_EQ(cq->cqe, 32);
	ibv_wc wc{};
	EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &wc), 0);
}

// Queries and sets ECE: expects the device's vendor and no options, unknown options to be removed,
// and EINVAL for another vendor's options.
TEST_F(Provider, Ece)
{
	ibv_qp_init_attr attr = init_attr();
	const Qp qp(ibv_create_qp(pd.get(), &attr));
	ASSERT_TRUE(qp);
	ibv_ece ece{1, 2, 3};
	ASSERT_EQ(ibv_query_ece(qp.get(), &ece), 0);
	EXPECT_EQ(ece.vendor_id, uint32_t{VRDMA_PCI_VENDOR_ID});
	EXPECT_EQ(ece.options, 0u);
	EXPECT_EQ(ece.comp_mask, 0u);
	EXPECT_EQ(ibv_set_ece(qp.get(), &ece), 0);
	ece.options = 5;
	EXPECT_EQ(ibv_set_ece(qp.get(), &ece), 0);
	EXPECT_EQ(ece.options, 0u);
	ece.comp_mask = 1;
	EXPECT_EQ(ibv_set_ece(qp.get(), &ece), EINVAL);
	ece = {0x15b3, 0, 0};
	EXPECT_EQ(ibv_set_ece(qp.get(), &ece), EINVAL);
	ece.vendor_id = 0; // libibverbs itself refuses this
	EXPECT_EQ(ibv_set_ece(qp.get(), &ece), EOPNOTSUPP);
}

// Modifies a CQ with no attribute and with an unknown one: expects EINVAL.
TEST_F(Provider, ModerationIsChecked)
{
	ibv_modify_cq_attr attr{};
	attr.attr_mask = 2;
	EXPECT_EQ(ibv_modify_cq(cq.get(), &attr), EINVAL);
	attr.attr_mask = 0;
	EXPECT_EQ(ibv_modify_cq(cq.get(), &attr), EINVAL);
}

// Frees parts of a parent domain that are in use, and creates domains of invalid parts: expects
// EBUSY, and EINVAL.
TEST_F(Provider, ParentDomainsAreChecked)
{
	ibv_td_init_attr td_attr{};
	ibv_td *td = ibv_alloc_td(context.get(), &td_attr);
	ASSERT_TRUE(td);
	ibv_parent_domain_init_attr attr{};
	attr.pd = pd.get();
	attr.td = td;
	{
		const Pd domain(ibv_alloc_parent_domain(context.get(), &attr));
		ASSERT_TRUE(domain);
		EXPECT_EQ(domain->handle, pd->handle);
		EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
		EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
		ibv_parent_domain_init_attr nested{};
		nested.pd = domain.get();
		EXPECT_EQ(ibv_alloc_parent_domain(context.get(), &nested), nullptr);
		EXPECT_EQ(errno, EINVAL);
	}
	EXPECT_EQ(ibv_dealloc_td(td), 0);

	for (const auto spoil : {+[](ibv_parent_domain_init_attr &bad) { bad.pd = nullptr; },
				 +[](ibv_parent_domain_init_attr &bad) {
					 bad.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
				 }}) {
		ibv_parent_domain_init_attr bad{};
		bad.pd = pd.get();
		spoil(bad);
		EXPECT_EQ(ibv_alloc_parent_domain(context.get(), &bad), nullptr);
		EXPECT_EQ(errno, EINVAL);
	}
	attr.comp_mask = 4; /* memory that a confidential VM shares, which libibverbs 65 has */
	EXPECT_EQ(ibv_alloc_parent_domain(context.get(), &attr), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	td_attr.comp_mask = 1;
	EXPECT_EQ(ibv_alloc_td(context.get(), &td_attr), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

// Creates extended CQs with unsupported and with invalid attributes: expects EOPNOTSUPP, or EINVAL.
TEST_F(Provider, ExtendedCqsAreChecked)
{
	const auto error = [&](auto spoil) {
		ibv_cq_init_attr_ex attr{};
		attr.cqe = 4;
		spoil(attr);
		errno = 0;
		ibv_cq_ex *made = ibv_create_cq_ex(context.get(), &attr);
		const int result = errno;
		const Cq owned(made ? ibv_cq_ex_to_cq(made) : nullptr);
		return made ? 0 : result;
	};
	EXPECT_EQ(error([](auto &attr) { attr.wc_flags = IBV_WC_STANDARD_FLAGS; }), 0);
	EXPECT_EQ(error([](auto &attr) { attr.cqe = 0; }), EINVAL);
	EXPECT_EQ(error([](auto &attr) { attr.cqe = FakeKernel::max_cqe + 1; }), EINVAL);
	EXPECT_EQ(error([](auto &attr) { attr.wc_flags = IBV_WC_EX_WITH_CVLAN; }), EOPNOTSUPP);
	EXPECT_EQ(error([](auto &attr) { attr.wc_flags = IBV_WC_EX_WITH_TM_INFO; }), EOPNOTSUPP);
	EXPECT_EQ(error([](auto &attr) {
			  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
			  attr.flags = 1u << 7;
		  }),
		  EINVAL);
	EXPECT_EQ(error([&](auto &attr) {
			  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
			  attr.parent_domain = pd.get(); // not a parent domain
		  }),
		  EINVAL);
}

// Attaches a QP to a group, detaches it from another and from that one: expects the kernel's
// results.
TEST_F(Provider, GroupsAreTheKernels)
{
	const Qp qp = create_qp();
	ASSERT_TRUE(qp);
	union ibv_gid gid {
	};
	gid.raw[0] = 0xff;
	EXPECT_EQ(ibv_attach_mcast(qp.get(), &gid, 0), 0);
	EXPECT_EQ(kernel.groups.count({FakeKernel::qp_handle, std::to_array(gid.raw)}), 1u);
	gid.raw[15] = 1;
	EXPECT_EQ(ibv_detach_mcast(qp.get(), &gid, 0), EINVAL);
	gid.raw[15] = 0;
	EXPECT_EQ(ibv_detach_mcast(qp.get(), &gid, 0), 0);
	EXPECT_TRUE(kernel.groups.empty());
}

// Requests features that vrdma does not support: expects EOPNOTSUPP.
TEST_F(Provider, SaysWhatItCannot)
{
	ibv_qp_init_attr_ex extended{};
	extended.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
	extended.pd = pd.get();
	extended.send_cq = extended.recv_cq = cq.get();
	extended.qp_type = IBV_QPT_RC;
	EXPECT_EQ(ibv_create_qp_ex(context.get(), &extended), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	extended.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	extended.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	EXPECT_EQ(ibv_create_qp_ex(context.get(), &extended), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
}

// Creates a QP with create_flags of 0: expects it to be like a QP without create_flags.
TEST_F(Provider, CreatesAQpOfNoFlags)
{
	ibv_qp_init_attr_ex attr = extended_attr(IBV_QP_INIT_ATTR_CREATE_FLAGS);
	const Qp qp{ibv_create_qp_ex(context.get(), &attr)};
	ASSERT_TRUE(qp);
	EXPECT_EQ(qp->state, IBV_QPS_RESET);
}

// Creates a QP with send operations and one without: expects that libibverbs, which looks for its
// own part of a QP by its own layout, has an extended QP of the first alone.
TEST_F(Provider, ExtendsAQpOfSendOperations)
{
	ibv_qp_init_attr_ex attr = extended_attr(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
	attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
	const Qp extended{ibv_create_qp_ex(context.get(), &attr)};
	ASSERT_TRUE(extended);
	EXPECT_EQ(static_cast<void *>(ibv_qp_to_qp_ex(extended.get())), extended.get());

	const Qp plain = create_qp();
	ASSERT_TRUE(plain);
	EXPECT_EQ(ibv_qp_to_qp_ex(plain.get()), nullptr);
}

} // namespace
} // namespace vrdma::test
