/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Completion queues. */
#include <errno.h>

#include "verbs.h"

static uint32_t cq_flags(const struct ibv_cq_init_attr_ex *attr)
{
	uint32_t flags = 0;

	if (attr->wc_flags &
	    (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK))
		flags |= VRDMA_CQ_TIMESTAMP;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
	    attr->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)
		flags |= VRDMA_CQ_IGNORE_OVERRUN;
	return flags;
}

/* The queue of a direct channel, or the one that the event thread empties. */
static uint32_t event_queue(const struct vrdma_events *events, struct ibv_comp_channel *channel)
{
	const struct vrdma_eq *eq = channel ? to_vrdma_channel(channel)->eq : NULL;

	return eq ? eq->handle : events->eqs[1].handle;
}

int vrdma_direct_create_cq(struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr,
			   struct vrdma_cq *cq)
{
	struct vrdma_dev *dev = vrdma_dev_of(context);
	struct vrdma_cmd_create_cq arg = {
		.pages = vrdma_contiguous_pages(cq->buffer.address,
						vrdma_cq_buffer_size(cq->queue.depth)),
		.depth = htole32(cq->queue.depth),
		.ucontext = htole32(to_vrdma_context(context)->ucontext),
		.flags = htole32(cq_flags(attr)),
	};
	int ret;

	if (attr->comp_vector >= (uint32_t)context->num_comp_vectors)
		return EINVAL;
	if (attr->channel && attr->channel->context != context)
		return EBADF; /* as the kernel does for a file of another context */
	arg.eq = htole32(event_queue(&dev->events, attr->channel));
	ret = -vrdma_cmd_create_cq(dev, &arg, &cq->base.cq.handle);
	if (ret)
		return ret;
	cq->base.cq.context = context;
	cq->base.cq.channel = attr->channel;
	cq->base.cq.cqe = (int)cq->queue.depth;
	vrdma_events_add_cq(dev, cq, attr->channel);
	return 0;
}

int vrdma_direct_resize_cq(struct vrdma_cq *cq, const struct vrdma_buffer *buffer, uint32_t depth)
{
	const struct vrdma_cmd_resize_cq arg = {
		.pages = vrdma_contiguous_pages(buffer->address, vrdma_cq_buffer_size(depth)),
		.depth = htole32(depth),
		.cqn = htole32(cq->base.cq.handle),
	};
	int ret = -vrdma_cmd_resize_cq(vrdma_dev_of(cq->base.cq.context), &arg);

	if (!ret)
		cq->base.cq.cqe = (int)depth;
	return ret;
}

int vrdma_direct_modify_cq(struct vrdma_cq *cq, struct ibv_modify_cq_attr *attr)
{
	return -vrdma_cmd_modify_cq(vrdma_dev_of(cq->base.cq.context), cq->base.cq.handle,
				    attr->moderate.cq_count, attr->moderate.cq_period);
}

int vrdma_direct_destroy_cq(struct vrdma_cq *cq)
{
	struct ibv_cq *base = &cq->base.cq;
	uint32_t completions, async;
	int ret = vrdma_destroy_object(base->context, VRDMA_ADMIN_DESTROY_CQ, base->handle);

	if (ret)
		return ret;
	vrdma_events_remove_cq(vrdma_dev_of(base->context), cq, &completions, &async);
	if (vrdma_dev_of(base->context)->forked)
		return 0; /* they are the parent's to acknowledge */
	vrdma_wait_for_acks(&base->mutex, &base->cond, &base->comp_events_completed, completions);
	vrdma_wait_for_acks(&base->mutex, &base->cond, &base->async_events_completed, async);
	return 0;
}
