/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The control verbs through the kernel: the standard uverbs commands and what uverbs.h adds. */
#include <stdio.h>

#include "vrdma.h"

/* A command is libibverbs' part and then ours, without a gap; so is an answer. */
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
	struct ibv_create_cq core;
	struct vrdma_uverbs_create_cq ours;
};
CHECK_COMMAND(struct create_cq_command, core, ours);

struct create_cq_answer {
	struct ib_uverbs_create_cq_resp core;
	struct vrdma_uverbs_create_cq_resp ours;
};
CHECK_COMMAND(struct create_cq_answer, core, ours);

struct create_srq_command {
	struct ibv_create_srq core;
	struct vrdma_uverbs_create_srq ours;
};
CHECK_COMMAND(struct create_srq_command, core, ours);

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

static int alloc_pd(struct ibv_context *context, struct ibv_pd *pd)
{
	struct ibv_alloc_pd command = {};
	struct alloc_pd_answer answer = {};

	return ibv_cmd_alloc_pd(context, pd, &command, sizeof(command), &answer.core,
				sizeof(answer));
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

static int create_cq(struct ibv_context *context, struct ibv_comp_channel *channel, int comp_vector,
		     struct vrdma_cq *cq)
{
	struct create_cq_command command = {};
	struct create_cq_answer answer = {};

	command.ours.buffer = cq->buffer.address;
	command.ours.depth = cq->queue.depth;
	return ibv_cmd_create_cq(context, (int)cq->queue.depth, channel, comp_vector, &cq->base,
				 &command.core, sizeof(command), &answer.core, sizeof(answer));
}

static int destroy_cq(struct vrdma_cq *cq)
{
	return ibv_cmd_destroy_cq(&cq->base);
}

static int create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr, struct vrdma_srq *srq)
{
	struct create_srq_command command = {};
	struct ib_uverbs_create_srq_resp answer = {};

	command.ours.buffer = srq->buffer.address;
	command.ours.depth = srq->queue.depth;
	command.ours.stride_shift = (uint8_t)srq->queue.stride_shift;
	return ibv_cmd_create_srq(pd, &srq->base.srq, attr, &command.core, sizeof(command), &answer,
				  sizeof(answer));
}

static int modify_srq(struct vrdma_srq *srq, struct ibv_srq_attr *attr, int attr_mask)
{
	struct ibv_modify_srq command = {};

	return ibv_cmd_modify_srq(&srq->base.srq, attr, attr_mask, &command, sizeof(command));
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

static int create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
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
	ret = ibv_cmd_create_qp(pd, &qp->base, attr, &command.core, sizeof(command), &answer.core,
				sizeof(answer));
	*doorbell_slot = answer.ours.doorbell_slot;
	return ret;
}

static int query_qp(struct vrdma_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		    struct ibv_qp_init_attr *init_attr)
{
	struct ibv_query_qp command = {};

	return ibv_cmd_query_qp(&qp->base, attr, attr_mask, init_attr, &command, sizeof(command));
}

static int modify_qp(struct vrdma_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct ibv_modify_qp command = {};

	return ibv_cmd_modify_qp(&qp->base, attr, attr_mask, &command, sizeof(command));
}

static int destroy_qp(struct vrdma_qp *qp)
{
	return ibv_cmd_destroy_qp(&qp->base);
}

const struct vrdma_control vrdma_uverbs_control = {
	.close = close_context,
	.query_device = query_device,
	.query_port = query_port,
	.alloc_buffer = alloc_buffer,
	.free_buffer = free_buffer,
	.alloc_pd = alloc_pd,
	.dealloc_pd = ibv_cmd_dealloc_pd,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
	.create_ah = create_ah,
	.destroy_ah = destroy_ah,
	.create_cq = create_cq,
	.destroy_cq = destroy_cq,
	.create_srq = create_srq,
	.modify_srq = modify_srq,
	.query_srq = query_srq,
	.destroy_srq = destroy_srq,
	.create_qp = create_qp,
	.query_qp = query_qp,
	.modify_qp = modify_qp,
	.destroy_qp = destroy_qp,
};
