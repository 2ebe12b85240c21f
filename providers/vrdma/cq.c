/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>

#include "vrdma.h"

struct create_cq_command {
	struct ibv_create_cq core;
	struct vrdma_uverbs_create_cq ours;
};
VRDMA_CHECK_COMMAND(struct create_cq_command, core, ours);

struct create_cq_answer {
	struct ib_uverbs_create_cq_resp core;
	struct vrdma_uverbs_create_cq_resp ours;
};
VRDMA_CHECK_COMMAND(struct create_cq_answer, core, ours);

static int create_queue(struct vrdma_cq *cq, uint32_t depth)
{
	int ret = vrdma_buffer_init(&cq->buffer, vrdma_cq_buffer_size(depth));

	if (ret)
		return ret;
	ret = vrdma_completion_queue_init(&cq->queue, cq->buffer.data, depth);
	if (ret)
		vrdma_buffer_destroy(&cq->buffer);
	return ret;
}

static void destroy_queue(struct vrdma_cq *cq)
{
	vrdma_completion_queue_destroy(&cq->queue);
	vrdma_buffer_destroy(&cq->buffer);
}

static int create_cq(struct vrdma_cq *cq, struct ibv_context *context, uint32_t depth,
		     struct ibv_comp_channel *channel, int comp_vector)
{
	struct create_cq_command command = {};
	struct create_cq_answer answer = {};
	int ret = create_queue(cq, depth);

	if (ret)
		return ret;
	command.ours.buffer = (uintptr_t)cq->buffer.data;
	command.ours.depth = depth;
	ret = ibv_cmd_create_cq(context, (int)depth, channel, comp_vector, &cq->base, &command.core,
				sizeof(command), &answer.core, sizeof(answer));
	if (ret)
		destroy_queue(cq);
	return ret;
}

struct ibv_cq *vrdma_create_cq(struct ibv_context *context, int cqe,
			       struct ibv_comp_channel *channel, int comp_vector)
{
	struct vrdma_cq *cq;
	uint32_t depth = 1;
	int ret;

	if (cqe < 1 || (uint32_t)cqe > to_vrdma_context(context)->max_cqe ||
	    (uint32_t)cqe > VRDMA_MAX_CQ_DEPTH) {
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
	struct vrdma_cq *cq = to_vrdma_cq(base);
	int ret = ibv_cmd_destroy_cq(base);

	if (ret)
		return ret;
	destroy_queue(cq);
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
