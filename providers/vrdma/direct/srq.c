/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Shared receive queues. */
#include "verbs.h"

static void init_base_srq(struct verbs_srq *srq, struct ibv_context *context,
			  const struct ibv_srq_init_attr_ex *attr)
{
	srq->srq.context = context;
	srq->srq.srq_context = attr->srq_context;
	srq->srq.pd = attr->pd;
	pthread_mutex_init(&srq->srq.mutex, NULL);
	pthread_cond_init(&srq->srq.cond, NULL);
	if (attr->srq_type == IBV_SRQT_XRC) {
		srq->srq_num = srq->srq.handle;
		srq->xrcd = &to_vrdma_xrcd(attr->xrcd)->base;
		srq->cq = attr->cq;
	}
}

int vrdma_direct_create_srq(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr,
			    struct vrdma_srq *srq)
{
	struct vrdma_dev *dev = vrdma_dev_of(context);
	const struct vrdma_shared_receive_queue *queue = &srq->queue;
	struct vrdma_cmd_create_srq arg = {
		.pages = vrdma_contiguous_pages(
			srq->buffer.address,
			vrdma_srq_buffer_size(queue->depth, queue->stride_shift)),
		.ucontext = htole32(to_vrdma_context(context)->ucontext),
		.pd = htole32(attr->pd->handle),
		.depth = htole32(queue->depth),
		.stride_shift = (__u8)queue->stride_shift,
		.max_sge = htole16((uint16_t)queue->max_sge),
	};
	int ret;

	if (attr->srq_type == IBV_SRQT_XRC) {
		arg.xrcd = htole32(to_vrdma_xrcd(attr->xrcd)->base.handle);
		arg.cq = htole32(attr->cq->handle);
	}
	ret = -vrdma_cmd_create_srq(dev, &arg, &srq->base.srq.handle);
	if (ret)
		return ret;
	init_base_srq(&srq->base, context, attr);
	vrdma_events_add_srq(dev, srq);
	return 0;
}

int vrdma_direct_modify_srq(struct vrdma_srq *srq, struct ibv_srq_attr *attr, int attr_mask)
{
	const struct ibv_srq *base = &srq->base.srq;

	(void)attr_mask; /* only the limit can be modified */
	return -vrdma_cmd_modify_srq(vrdma_dev_of(base->context), base->handle, attr->srq_limit);
}

int vrdma_direct_resize_srq(struct vrdma_srq *srq, const struct vrdma_buffer *buffer,
			    const struct ibv_srq_attr *attr, int attr_mask)
{
	struct vrdma_cmd_resize_srq arg = {
		.pages = vrdma_contiguous_pages(
			buffer->address,
			vrdma_srq_buffer_size(attr->max_wr, srq->queue.stride_shift)),
		.depth = htole32(attr->max_wr),
		.srqn = htole32(srq->base.srq.handle),
	};

	if (attr_mask & IBV_SRQ_LIMIT) {
		arg.flags = htole32(VRDMA_RESIZE_SRQ_LIMIT);
		arg.limit = htole32(attr->srq_limit);
	}
	return -vrdma_cmd_resize_srq(vrdma_dev_of(srq->base.srq.context), &arg);
}

int vrdma_direct_query_srq(struct vrdma_srq *srq, struct ibv_srq_attr *attr)
{
	const struct ibv_srq *base = &srq->base.srq;

	attr->max_wr = vrdma_shared_receive_queue_depth(&srq->queue);
	attr->max_sge = srq->queue.max_sge;
	return -vrdma_cmd_query_srq(vrdma_dev_of(base->context), base->handle, &attr->srq_limit);
}

int vrdma_direct_destroy_srq(struct vrdma_srq *srq)
{
	struct ibv_srq *base = &srq->base.srq;
	uint32_t async;
	int ret = vrdma_destroy_object(base->context, VRDMA_ADMIN_DESTROY_SRQ, base->handle);

	if (ret)
		return ret;
	vrdma_events_remove_srq(vrdma_dev_of(base->context), srq, &async);
	if (vrdma_dev_of(base->context)->forked)
		return 0; /* they are the parent's to acknowledge */
	vrdma_wait_for_acks(&base->mutex, &base->cond, &base->events_completed, async);
	return 0;
}
