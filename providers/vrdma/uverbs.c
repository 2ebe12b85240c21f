/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The control verbs through the kernel: the standard uverbs commands with uverbs.h's additions. */
#include <stdio.h>
#include <sys/mman.h>

#include "uverbs_ioctl.h"
#include "vrdma.h"

/* Commands and answers consist of libibverbs' part and then ours, without a gap. */
#define CHECK_COMMAND(type, core, ours)                                                            \
	static_assert(sizeof(type) == sizeof(((type *)0)->core) + sizeof(((type *)0)->ours),       \
		      #type);                                                                      \
	static_assert(offsetof(type, ours) == sizeof(((type *)0)->core), #type "." #ours)

struct alloc_pd_answer {
	struct ib_uverbs_alloc_pd_resp core;
	struct vrdma_uverbs_alloc_pd_resp ours;
};
CHECK_COMMAND(struct alloc_pd_answer, core, ours);

struct create_ah_answer {
	struct ib_uverbs_create_ah_resp core;
	struct vrdma_uverbs_create_ah_resp ours;
};
CHECK_COMMAND(struct create_ah_answer, core, ours);

struct create_cq_command {
	struct ibv_create_cq_ex core;
	struct vrdma_uverbs_create_cq ours;
};
CHECK_COMMAND(struct create_cq_command, core, ours);

struct create_cq_answer {
	struct ib_uverbs_ex_create_cq_resp core;
	struct vrdma_uverbs_create_cq_resp ours;
};
CHECK_COMMAND(struct create_cq_answer, core, ours);

struct resize_cq_command {
	struct ibv_resize_cq core;
	struct vrdma_uverbs_resize_cq ours;
};
CHECK_COMMAND(struct resize_cq_command, core, ours);

struct query_device_answer {
	struct ib_uverbs_ex_query_device_resp core;
	struct vrdma_uverbs_query_device_resp ours;
};
CHECK_COMMAND(struct query_device_answer, core, ours);

struct create_srq_command {
	struct ibv_create_srq core;
	struct vrdma_uverbs_create_srq ours;
};
CHECK_COMMAND(struct create_srq_command, core, ours);

struct create_xrc_srq_command {
	struct ibv_create_xsrq core;
	struct vrdma_uverbs_create_srq ours;
};
CHECK_COMMAND(struct create_xrc_srq_command, core, ours);

struct resize_srq_command {
	struct ibv_modify_srq core;
	struct vrdma_uverbs_resize_srq ours;
};
CHECK_COMMAND(struct resize_srq_command, core, ours);

struct create_qp_command {
	struct ibv_create_qp core;
	struct vrdma_uverbs_create_qp ours;
};
CHECK_COMMAND(struct create_qp_command, core, ours);

struct create_qp_answer {
	struct ib_uverbs_create_qp_resp core;
	struct vrdma_uverbs_create_qp_resp ours;
};
CHECK_COMMAND(struct create_qp_answer, core, ours);

static void close_context(struct vrdma_context *context)
{
	vrdma_unmap_pages(context);
}

static int query_device(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ib_uverbs_ex_query_device_resp answer;
	size_t answer_size = sizeof(answer);
	int ret = ibv_cmd_query_device_any(context, input, attr, attr_size, &answer, &answer_size);

	if (!ret)
		vrdma_print_version(&attr->orig_attr, answer.base.fw_ver);
	return ret;
}

static int query_clock(struct ibv_context *context, uint64_t *clock)
{
	struct query_device_answer answer = {};
	struct ibv_device_attr_ex attr;
	size_t size = sizeof(answer);
	int ret = ibv_cmd_query_device_any(context, NULL, &attr, sizeof(attr), &answer.core, &size);

	*clock = answer.ours.clock;
	return ret;
}

static int query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr)
{
	struct ibv_query_port command = {};

	return ibv_cmd_query_port(context, port_num, attr, &command, sizeof(command));
}

static int alloc_buffer(struct vrdma_context *context, struct vrdma_buffer *buffer, uint64_t size)
{
	(void)context;
	return vrdma_buffer_init(buffer, size);
}

static void free_buffer(struct vrdma_context *context, struct vrdma_buffer *buffer)
{
	(void)context;
	vrdma_buffer_destroy(buffer);
}

static int share_buffer(struct vrdma_context *context, struct vrdma_buffer *buffer)
{
	(void)context;
	buffer->address = (uintptr_t)buffer->data;
	return ibv_dontfork_range(buffer->data, buffer->size) ? errno : 0;
}

static void unshare_buffer(struct vrdma_context *context, struct vrdma_buffer *buffer)
{
	(void)context;
	ibv_dofork_range(buffer->data, buffer->size);
}

static int alloc_pd(struct ibv_context *context, struct vrdma_pd *pd)
{
	struct ibv_alloc_pd command = {};
	struct alloc_pd_answer answer = {};

	return ibv_cmd_alloc_pd(context, &pd->base, &command, sizeof(command), &answer.core,
				sizeof(answer));
}

static int dealloc_pd(struct vrdma_pd *pd)
{
	return ibv_cmd_dealloc_pd(&pd->base);
}

static int import_pd(struct ibv_context *context, uint32_t handle, struct vrdma_pd *pd)
{
	pd->base.context = context;
	pd->base.handle = handle;
	return vrdma_uverbs_query_pd(context, handle);
}

static int import_mr(struct ibv_pd *pd, uint32_t handle, struct vrdma_mr *mr)
{
	return ibv_cmd_query_mr(pd, &mr->base, handle);
}

static int reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access,
		  struct vrdma_mr *mr)
{
	struct ibv_reg_mr command = {};
	struct ib_uverbs_reg_mr_resp answer = {};

	return ibv_cmd_reg_mr(pd, addr, length, iova, access, &mr->base, &command, sizeof(command),
			      &answer, sizeof(answer));
}

static int dereg_mr(struct vrdma_mr *mr)
{
	return ibv_cmd_dereg_mr(&mr->base);
}

static int rereg_mr(struct vrdma_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		    int access)
{
	struct ibv_rereg_mr command = {};
	struct ib_uverbs_rereg_mr_resp answer = {};

	return ibv_cmd_rereg_mr(&mr->base, (uint32_t)flags, addr, length, (uintptr_t)addr, access,
				pd, &command, sizeof(command), &answer, sizeof(answer));
}

static int alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type, struct ibv_mw *mw)
{
	struct ibv_alloc_mw command = {};
	struct ib_uverbs_alloc_mw_resp answer = {};

	return ibv_cmd_alloc_mw(pd, type, mw, &command, sizeof(command), &answer, sizeof(answer));
}

static int query_dm(struct ibv_context *context, uint32_t handle,
		    struct vrdma_uverbs_query_dm_resp *answer)
{
	const struct ib_uverbs_attr attrs[] = {
		vrdma_uverbs_handle(VRDMA_UVERBS_ATTR_QUERY_DM_HANDLE, handle),
		vrdma_uverbs_answer(VRDMA_UVERBS_ATTR_QUERY_DM_RESP, answer, sizeof(*answer)),
	};

	return vrdma_uverbs_call(context->cmd_fd, UVERBS_OBJECT_DM, VRDMA_UVERBS_METHOD_QUERY_DM,
				 attrs, 2);
}

static size_t whole_pages(size_t length)
{
	return (length + VRDMA_PAGE_SIZE - 1) & ~(size_t)(VRDMA_PAGE_SIZE - 1);
}

static int import_dm(struct ibv_context *context, uint32_t handle, struct vrdma_dm *dm)
{
	struct vrdma_uverbs_query_dm_resp answer = {};
	int ret = query_dm(context, handle, &answer);
	void *data;

	if (ret)
		return ret;
	data = mmap(NULL, whole_pages(answer.length), PROT_READ | PROT_WRITE, MAP_SHARED,
		    context->cmd_fd, (off_t)answer.mmap_offset);
	if (data == MAP_FAILED)
		return errno;
	dm->base.handle = handle;
	dm->data = data;
	dm->length = answer.length;
	return 0;
}

static void unimport_dm(struct vrdma_dm *dm)
{
	munmap(dm->data, whole_pages(dm->length));
}

static int alloc_dm(struct ibv_context *context, const struct ibv_alloc_dm_attr *attr,
		    struct vrdma_dm *dm)
{
	int ret = ibv_cmd_alloc_dm(context, attr, &dm->base, NULL);

	if (ret)
		return ret;
	ret = import_dm(context, dm->base.handle, dm);
	if (ret)
		ibv_cmd_free_dm(&dm->base);
	return ret;
}

static int free_dm(struct vrdma_dm *dm)
{
	int ret = ibv_cmd_free_dm(&dm->base);

	if (!ret)
		unimport_dm(dm);
	return ret;
}

static int reg_dm_mr(struct ibv_pd *pd, struct vrdma_dm *dm, uint64_t offset, size_t length,
		     unsigned int access, struct vrdma_mr *mr)
{
	return ibv_cmd_reg_dm_mr(pd, &dm->base, offset, length, access, &mr->base, NULL);
}

static int create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr, struct vrdma_ah *ah)
{
	struct create_ah_answer answer = {};
	int ret = ibv_cmd_create_ah(pd, &ah->base, attr, &answer.core, sizeof(answer));

	ah->id = answer.ours.ah;
	return ret;
}

static int destroy_ah(struct vrdma_ah *ah)
{
	return ibv_cmd_destroy_ah(&ah->base);
}

static int create_cq(struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr,
		     struct vrdma_cq *cq)
{
	struct ibv_cq_init_attr_ex rounded = *attr;
	struct create_cq_command command = {};
	struct create_cq_answer answer = {};

	rounded.cqe = cq->queue.depth;
	command.ours.buffer = cq->buffer.address;
	command.ours.depth = cq->queue.depth;
	return vrdma_cmd_create_cq_ex(context, &rounded, &cq->base, &command.core, sizeof(command),
				      &answer.core, sizeof(answer));
}

static int resize_cq(struct vrdma_cq *cq, const struct vrdma_buffer *buffer, uint32_t depth)
{
	struct resize_cq_command command = {};
	struct ib_uverbs_resize_cq_resp answer = {};

	command.ours.buffer = buffer->address;
	command.ours.depth = depth;
	return ibv_cmd_resize_cq(&cq->base.cq, (int)depth, &command.core, sizeof(command), &answer,
				 sizeof(answer));
}

static int modify_cq(struct vrdma_cq *cq, struct ibv_modify_cq_attr *attr)
{
	struct ibv_modify_cq command = {};

	return ibv_cmd_modify_cq(&cq->base.cq, attr, &command, sizeof(command));
}

static int destroy_cq(struct vrdma_cq *cq)
{
	return ibv_cmd_destroy_cq(&cq->base.cq);
}

static struct vrdma_uverbs_create_srq srq_buffer(const struct vrdma_srq *srq)
{
	return (struct vrdma_uverbs_create_srq){
		.buffer = srq->buffer.address,
		.depth = srq->queue.depth,
		.stride_shift = (uint8_t)srq->queue.stride_shift,
	};
}

static int create_basic_srq(struct ibv_srq_init_attr_ex *attr, struct vrdma_srq *srq)
{
	struct ibv_srq_init_attr basic = {.srq_context = attr->srq_context, .attr = attr->attr};
	struct create_srq_command command = {.ours = srq_buffer(srq)};
	struct ib_uverbs_create_srq_resp answer = {};
	int ret = ibv_cmd_create_srq(attr->pd, &srq->base.srq, &basic, &command.core,
				     sizeof(command), &answer, sizeof(answer));

	attr->attr = basic.attr;
	return ret;
}

static int create_srq(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr,
		      struct vrdma_srq *srq)
{
	struct create_xrc_srq_command command = {.ours = srq_buffer(srq)};
	struct ib_uverbs_create_srq_resp answer = {};

	if (attr->srq_type == IBV_SRQT_BASIC)
		return create_basic_srq(attr, srq);
	return ibv_cmd_create_srq_ex(context, &srq->base, attr, &command.core, sizeof(command),
				     &answer, sizeof(answer));
}

static int modify_srq(struct vrdma_srq *srq, struct ibv_srq_attr *attr, int attr_mask)
{
	struct ibv_modify_srq command = {};

	return ibv_cmd_modify_srq(&srq->base.srq, attr, attr_mask, &command, sizeof(command));
}

static int resize_srq(struct vrdma_srq *srq, const struct vrdma_buffer *buffer,
		      const struct ibv_srq_attr *attr, int attr_mask)
{
	struct ibv_srq_attr wanted = *attr;
	struct resize_srq_command command = {};

	command.ours.buffer = buffer->address;
	command.ours.depth = attr->max_wr;
	return ibv_cmd_modify_srq(&srq->base.srq, &wanted, attr_mask, &command.core,
				  sizeof(command));
}

static int query_srq(struct vrdma_srq *srq, struct ibv_srq_attr *attr)
{
	struct ibv_query_srq command = {};

	return ibv_cmd_query_srq(&srq->base.srq, attr, &command, sizeof(command));
}

static int destroy_srq(struct vrdma_srq *srq)
{
	return ibv_cmd_destroy_srq(&srq->base.srq);
}

static int create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
		     const struct vrdma_qp_layout *layout, struct vrdma_qp *qp,
		     uint32_t *doorbell_slot)
{
	struct create_qp_command command = {};
	struct create_qp_answer answer = {};
	int ret;

	command.ours.buffer = qp->buffer.address;
	command.ours.sq_depth = layout->sq_depth;
	command.ours.rq_depth = layout->rq_depth;
	command.ours.sq_stride_shift = layout->sq_stride_shift;
	command.ours.rq_stride_shift = layout->rq_stride_shift;
	if (attr->create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB)
		command.ours.flags = VRDMA_UVERBS_QP_BLOCK_SELF_MULTICAST;
	ret = ibv_cmd_create_qp_ex(context, &qp->base, attr, &command.core, sizeof(command),
				   &answer.core, sizeof(answer));
	*doorbell_slot = answer.ours.doorbell_slot;
	return ret;
}

static int query_qp(struct vrdma_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		    struct ibv_qp_init_attr *init_attr)
{
	struct ibv_query_qp command = {};

	return ibv_cmd_query_qp(&qp->base.qp, attr, attr_mask, init_attr, &command,
				sizeof(command));
}

static int modify_qp(struct vrdma_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct ibv_modify_qp command = {};

	return ibv_cmd_modify_qp(&qp->base.qp, attr, attr_mask, &command, sizeof(command));
}

static int destroy_qp(struct vrdma_qp *qp)
{
	return ibv_cmd_destroy_qp(&qp->base.qp);
}

static int open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr,
		     struct vrdma_xrcd *xrcd)
{
	struct ibv_open_xrcd command = {};
	struct ib_uverbs_open_xrcd_resp answer = {};

	return ibv_cmd_open_xrcd(context, &xrcd->base, sizeof(xrcd->base), attr, &command,
				 sizeof(command), &answer, sizeof(answer));
}

static int close_xrcd(struct vrdma_xrcd *xrcd)
{
	return ibv_cmd_close_xrcd(&xrcd->base);
}

static int create_xrc_recv(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
			   struct vrdma_qp *qp)
{
	struct ibv_create_qp command = {};
	struct ib_uverbs_create_qp_resp answer = {};

	return ibv_cmd_create_qp_ex(context, &qp->base, attr, &command, sizeof(command), &answer,
				    sizeof(answer));
}

static int open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr, struct vrdma_qp *qp)
{
	struct ibv_open_qp command = {};
	struct ib_uverbs_create_qp_resp answer = {};

	return ibv_cmd_open_qp(context, &qp->base, sizeof(qp->base), attr, &command,
			       sizeof(command), &answer, sizeof(answer));
}

const struct vrdma_control vrdma_uverbs_control = {
	.close = close_context,
	.query_device = query_device,
	.query_clock = query_clock,
	.query_port = query_port,
	.alloc_buffer = alloc_buffer,
	.free_buffer = free_buffer,
	.share_buffer = share_buffer,
	.unshare_buffer = unshare_buffer,
	.alloc_pd = alloc_pd,
	.dealloc_pd = dealloc_pd,
	.import_pd = import_pd,
	.import_mr = import_mr,
	.reg_mr = reg_mr,
	.rereg_mr = rereg_mr,
	.dereg_mr = dereg_mr,
	.advise_mr = ibv_cmd_advise_mr,
	.alloc_dm = alloc_dm,
	.free_dm = free_dm,
	.import_dm = import_dm,
	.unimport_dm = unimport_dm,
	.reg_dm_mr = reg_dm_mr,
	.alloc_mw = alloc_mw,
	.dealloc_mw = ibv_cmd_dealloc_mw,
	.create_ah = create_ah,
	.destroy_ah = destroy_ah,
	.create_cq = create_cq,
	.resize_cq = resize_cq,
	.modify_cq = modify_cq,
	.destroy_cq = destroy_cq,
	.create_srq = create_srq,
	.modify_srq = modify_srq,
	.resize_srq = resize_srq,
	.query_srq = query_srq,
	.destroy_srq = destroy_srq,
	.create_qp = create_qp,
	.query_qp = query_qp,
	.modify_qp = modify_qp,
	.destroy_qp = destroy_qp,
	.attach_mcast = ibv_cmd_attach_mcast,
	.detach_mcast = ibv_cmd_detach_mcast,
	.open_xrcd = open_xrcd,
	.close_xrcd = close_xrcd,
	.create_xrc_recv = create_xrc_recv,
	.open_qp = open_qp,
};
