/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>

#include "vrdma.h"

static int create_queue(struct vrdma_context *context, struct vrdma_cq *cq, uint32_t depth)
{
	int ret = context->control->alloc_buffer(context, &cq->buffer, vrdma_cq_buffer_size(depth));

	if (ret)
		return ret;
	ret = vrdma_completion_queue_init(&cq->queue, cq->buffer.data, depth);
	if (ret)
		context->control->free_buffer(context, &cq->buffer);
	return ret;
}

static void destroy_queue(struct vrdma_context *context, struct vrdma_cq *cq)
{
	vrdma_completion_queue_destroy(&cq->queue);
	context->control->free_buffer(context, &cq->buffer);
}

static int create_cq(struct vrdma_cq *cq, struct vrdma_context *context, uint32_t depth,
		     struct ibv_comp_channel *channel, int comp_vector)
{
	int ret = create_queue(context, cq, depth);

	if (ret)
		return ret;
	ret = context->control->create_cq(&context->base.context, channel, comp_vector, cq);
	if (ret)
		destroy_queue(context, cq);
	return ret;
}

struct ibv_cq *vrdma_create_cq(struct ibv_context *base, int cqe, struct ibv_comp_channel *channel,
			       int comp_vector)
{
	struct vrdma_context *context = to_vrdma_context(base);
	struct vrdma_cq *cq;
	uint32_t depth = 1;
	int ret;

	if (cqe < 1 || (uint32_t)cqe > context->max_cqe || (uint32_t)cqe > VRDMA_MAX_CQ_DEPTH) {
		errno = EINVAL;
		return NULL;
	}
	while (depth < (uint32_t)cqe)
		depth *= 2;

	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;
	ret = create_cq(cq, context, depth, channel, comp_vector);
	if (ret) {
		free(cq);
		errno = ret;
		return NULL;
	}
	return &cq->base;
}

int vrdma_destroy_cq(struct ibv_cq *base)
{
	struct vrdma_context *context = to_vrdma_context(base->context);
	struct vrdma_cq *cq = to_vrdma_cq(base);
	int ret = context->control->destroy_cq(cq);

	if (ret)
		return ret;
	destroy_queue(context, cq);
	free(cq);
	return 0;
}

int vrdma_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	return vrdma_queue_poll(&to_vrdma_cq(cq)->queue, num_entries, wc);
}

int vrdma_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	vrdma_queue_arm(&to_vrdma_cq(cq)->queue, solicited_only != 0);
	return 0;
}
