/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>

#include "vrdma.h"

static int create_queue(struct vrdma_context *context, struct ibv_pd *pd, struct vrdma_srq *srq,
			const struct vrdma_srq_layout *layout, uint32_t max_sge)
{
	int ret = vrdma_queue_alloc(context, pd, VRDMADV_RES_SRQ, &srq->buffer,
				    vrdma_srq_buffer_size(layout->depth, layout->stride_shift));

	if (ret)
		return ret;
	ret = vrdma_shared_receive_queue_init(&srq->queue, srq->buffer.data, layout, max_sge);
	if (ret)
		vrdma_queue_free(context, &srq->buffer);
	return ret;
}

static void destroy_queue(struct vrdma_context *context, struct vrdma_srq *srq)
{
	vrdma_shared_receive_queue_destroy(&srq->queue);
	vrdma_queue_free(context, &srq->buffer);
}

/* Checks the type of the SRQ. Attributes that the type does not use are refused. */
static int check_kind(const struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t xrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	const uint32_t common = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;

	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd)
		return EINVAL;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) || attr->srq_type == IBV_SRQT_BASIC)
		return attr->comp_mask & ~common ? EINVAL : 0;
	if (attr->srq_type != IBV_SRQT_XRC)
		return EOPNOTSUPP;
	return attr->comp_mask == (common | xrc) && attr->xrcd && attr->cq ? 0 : EINVAL;
}

static int create_srq(struct vrdma_srq *srq, struct vrdma_context *context,
		      struct ibv_srq_init_attr_ex *attr)
{
	struct vrdma_srq_layout layout;
	int ret;

	if (attr->attr.max_wr > context->max_srq_wr || attr->attr.max_sge > context->max_srq_sge)
		return EINVAL;
	ret = vrdma_srq_layout_init(&layout, &attr->attr);
	if (ret)
		return ret;
	ret = create_queue(context, attr->pd, srq, &layout, attr->attr.max_sge);
	if (ret)
		return ret;
	ret = context->control->create_srq(&context->base.context, attr, srq);
	if (ret) {
		destroy_queue(context, srq);
		return ret;
	}
	if (srq->base.srq_type == IBV_SRQT_XRC) {
		srq->queue.srqn = srq->base.srq_num;
		vrdma_cq_attach_srq(&to_vrdma_cq(srq->base.cq)->queue, &srq->queue);
	}
	return 0;
}

struct ibv_srq *vrdma_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq_init_attr_ex rounded = *attr;
	struct vrdma_srq *srq;
	int ret = check_kind(attr);

	if (ret) {
		errno = ret;
		return NULL;
	}
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return NULL;
	if (!(rounded.comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		rounded.srq_type = IBV_SRQT_BASIC;
	srq->base.srq_type = rounded.srq_type;
	ret = create_srq(srq, to_vrdma_context(context), &rounded);
	if (ret) {
		free(srq);
		errno = ret;
		return NULL;
	}
	attr->attr.max_wr = rounded.attr.max_wr;
	attr->attr.max_sge = rounded.attr.max_sge;
	return &srq->base.srq;
}

struct ibv_srq *vrdma_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex extended = {
		.srq_context = attr->srq_context,
		.attr = attr->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_srq *srq = vrdma_create_srq_ex(pd->context, &extended);

	if (srq)
		attr->attr = extended.attr;
	return srq;
}

/*
 * Threads cannot post during the move. The new ring thus has all WQEs that the device may not have
 * taken when the device switches to it.
 */
static int replace_ring(struct vrdma_srq *srq, const struct vrdma_context *context,
			struct vrdma_buffer *buffer, const struct ibv_srq_attr *attr, int attr_mask)
{
	struct vrdma_shared_receive_queue *queue = &srq->queue;
	struct vrdma_srq_move move;
	int ret = vrdma_shared_receive_queue_begin_move(queue);

	if (ret)
		return ret;
	ret = vrdma_shared_receive_queue_prepare(queue, &move, buffer->data, attr->max_wr);
	if (!ret)
		ret = context->control->resize_srq(srq, buffer, attr, attr_mask);
	if (!ret) {
		struct vrdma_buffer old = srq->buffer;

		vrdma_shared_receive_queue_adopt(queue, &move);
		srq->buffer = *buffer;
		*buffer = old;
	}
	vrdma_shared_receive_queue_end_move(queue, &move);
	return ret;
}

static int resize_srq(struct vrdma_srq *srq, struct ibv_srq_attr *attr, int attr_mask)
{
	struct vrdma_context *context = to_vrdma_context(srq->base.srq.context);
	struct vrdma_pd *domain = srq->buffer.domain;
	struct ibv_srq_attr rounded = *attr;
	struct vrdma_buffer buffer;
	int ret;

	if (!attr->max_wr || attr->max_wr > context->max_srq_wr)
		return EINVAL;
	rounded.max_wr = vrdma_ring_depth(attr->max_wr);
	if (attr_mask & IBV_SRQ_LIMIT && attr->srq_limit > rounded.max_wr)
		return EINVAL;
	ret = vrdma_queue_alloc(context, domain ? &domain->base : NULL, VRDMADV_RES_SRQ, &buffer,
				vrdma_srq_buffer_size(rounded.max_wr, srq->queue.stride_shift));
	if (ret)
		return ret;
	ret = replace_ring(srq, context, &buffer, &rounded, attr_mask);
	vrdma_queue_free(context, &buffer);
	if (!ret)
		attr->max_wr = rounded.max_wr;
	return ret;
}

int vrdma_modify_srq(struct ibv_srq *base, struct ibv_srq_attr *attr, int attr_mask)
{
	struct vrdma_srq *srq = to_vrdma_srq(base);

	if (attr_mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return EINVAL;
	if (attr_mask & IBV_SRQ_MAX_WR)
		return resize_srq(srq, attr, attr_mask);
	if (!attr_mask)
		return 0;
	if (attr->srq_limit > vrdma_shared_receive_queue_depth(&srq->queue))
		return EINVAL;
	return to_vrdma_context(base->context)->control->modify_srq(srq, attr, attr_mask);
}

int vrdma_query_srq(struct ibv_srq *base, struct ibv_srq_attr *attr)
{
	return to_vrdma_context(base->context)->control->query_srq(to_vrdma_srq(base), attr);
}

int vrdma_destroy_srq(struct ibv_srq *base)
{
	struct vrdma_context *context = to_vrdma_context(base->context);
	struct vrdma_srq *srq = to_vrdma_srq(base);
	int ret = context->control->destroy_srq(srq);

	if (ret)
		return ret;
	if (srq->base.srq_type == IBV_SRQT_XRC)
		vrdma_cq_detach_srq(&to_vrdma_cq(srq->base.cq)->queue, &srq->queue);
	destroy_queue(context, srq);
	free(srq);
	return 0;
}

int vrdma_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	return vrdma_shared_receive(&to_vrdma_srq(srq)->queue, wr, bad_wr);
}
