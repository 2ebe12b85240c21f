/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>
#include <time.h>

#include "vrdma.h"

#define INIT_ATTRS (IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)
#define INIT_FLAGS (IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)
#define WC_FLAGS                                                                                   \
	(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |                             \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static uint32_t depth_of(uint32_t cqe)
{
	uint32_t depth = 1;

	while (depth < cqe)
		depth *= 2;
	return depth;
}

static int create_queue(struct vrdma_context *context, struct ibv_pd *domain, struct vrdma_cq *cq,
			uint32_t depth)
{
	int ret = vrdma_queue_alloc(context, domain, VRDMADV_RES_CQ, &cq->buffer,
				    vrdma_cq_buffer_size(depth));

	if (ret)
		return ret;
	ret = vrdma_completion_queue_init(&cq->queue, cq->buffer.data, depth);
	if (ret)
		vrdma_queue_free(context, &cq->buffer);
	return ret;
}

static void destroy_queue(struct vrdma_context *context, struct vrdma_cq *cq)
{
	vrdma_completion_queue_destroy(&cq->queue);
	vrdma_queue_free(context, &cq->buffer);
}

static struct ibv_pd *domain_of(const struct ibv_cq_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? attr->parent_domain : NULL;
}

static unsigned int flags_of(const struct ibv_cq_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
}

static int create_cq(struct vrdma_cq *cq, struct vrdma_context *context,
		     const struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_pd *domain = domain_of(attr);
	int ret = create_queue(context, domain, cq, depth_of(attr->cqe));

	if (ret)
		return ret;
	if (flags_of(attr) & IBV_CREATE_CQ_ATTR_SINGLE_THREADED || vrdma_is_threaded(domain))
		vrdma_completion_queue_single(&cq->queue);
	ret = context->control->create_cq(&context->base.context, attr, cq);
	if (ret)
		destroy_queue(context, cq);
	return ret;
}

static int check_init_attr(const struct vrdma_context *context,
			   const struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_pd *domain = domain_of(attr);

	if (attr->cqe < 1 || attr->cqe > context->max_cqe || attr->cqe > VRDMA_MAX_CQ_DEPTH)
		return EINVAL;
	if (attr->comp_mask & ~(uint32_t)INIT_ATTRS || attr->wc_flags & ~(uint64_t)WC_FLAGS)
		return EOPNOTSUPP;
	if (flags_of(attr) & ~(unsigned int)INIT_FLAGS)
		return EINVAL;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD && !vrdma_is_parent_domain(domain))
		return EINVAL;
	return 0;
}

static struct vrdma_cq *make_cq(struct ibv_context *base, const struct ibv_cq_init_attr_ex *attr)
{
	struct vrdma_context *context = to_vrdma_context(base);
	int ret = check_init_attr(context, attr);
	struct vrdma_cq *cq;

	if (ret) {
		errno = ret;
		return NULL;
	}
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;
	ret = create_cq(cq, context, attr);
	if (ret) {
		free(cq);
		errno = ret;
		return NULL;
	}
	return cq;
}

struct ibv_cq *vrdma_create_cq(struct ibv_context *context, int cqe,
			       struct ibv_comp_channel *channel, int comp_vector)
{
	const struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe < 0 ? 0 : (uint32_t)cqe,
		.channel = channel,
		.comp_vector = (uint32_t)comp_vector,
	};
	struct vrdma_cq *cq = make_cq(context, &attr);

	return cq ? &cq->base.cq : NULL;
}

static uint64_t realtime(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Compares the two clocks. The error is at most half the time that the query takes. */
static int set_wallclock(struct vrdma_cq *cq, struct ibv_context *context)
{
	uint64_t before = realtime();
	uint64_t clock;
	int ret = to_vrdma_context(context)->control->query_clock(context, &clock);

	cq->wallclock_offset = before + (realtime() - before) / 2 - clock;
	return ret;
}

struct ibv_cq_ex *vrdma_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct vrdma_cq *cq = make_cq(context, attr);
	int ret = 0;

	if (!cq)
		return NULL;
	if (attr->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		ret = set_wallclock(cq, context);
	if (ret) {
		vrdma_destroy_cq(&cq->base.cq);
		errno = ret;
		return NULL;
	}
	vrdma_cq_set_readers(cq);
	return &cq->base.cq_ex;
}

/*
 * No other thread polls during the move. The CQEs that were not taken are copied after the device
 * has written its last CQE to the old ring, and before the first poll of the new ring.
 */
static int replace_ring(struct vrdma_cq *cq, const struct vrdma_context *context,
			struct vrdma_buffer *buffer, uint32_t depth)
{
	struct vrdma_completion_queue *queue = &cq->queue;
	int ret;

	vrdma_completion_queue_begin_move(queue);
	vrdma_completion_queue_prepare(queue, buffer->data, depth);
	ret = context->control->resize_cq(cq, buffer, depth);
	if (!ret) {
		struct vrdma_buffer old = cq->buffer;

		vrdma_completion_queue_adopt(queue, buffer->data, depth);
		cq->buffer = *buffer;
		*buffer = old;
	}
	vrdma_completion_queue_end_move(queue);
	return ret;
}

int vrdma_resize_cq(struct ibv_cq *base, int cqe)
{
	struct vrdma_context *context = to_vrdma_context(base->context);
	struct vrdma_cq *cq = to_vrdma_cq(base);
	struct vrdma_pd *domain = cq->buffer.domain;
	struct vrdma_buffer buffer;
	uint32_t depth;
	int ret;

	if (cqe < 1 || (uint32_t)cqe > context->max_cqe)
		return EINVAL;
	depth = depth_of((uint32_t)cqe);
	ret = vrdma_queue_alloc(context, domain ? &domain->base : NULL, VRDMADV_RES_CQ, &buffer,
				vrdma_cq_buffer_size(depth));
	if (ret)
		return ret;
	ret = replace_ring(cq, context, &buffer, depth);
	vrdma_queue_free(context, &buffer);
	return ret;
}

int vrdma_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	if (attr->attr_mask != IBV_CQ_ATTR_MODERATE)
		return EINVAL;
	return to_vrdma_context(cq->context)->control->modify_cq(to_vrdma_cq(cq), attr);
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
