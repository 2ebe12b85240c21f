/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>

#include "vrdma.h"

#define INIT_ATTRS                                                                                 \
	(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS)

/* Only datagram QPs can join multicast groups. */
static uint32_t create_flags_of(enum ibv_qp_type type)
{
	return type == IBV_QPT_UD ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0;
}

static int check_init_attr(const struct vrdma_context *context,
			   const struct ibv_qp_init_attr_ex *attr)
{
	if (attr->comp_mask & ~INIT_ATTRS)
		return EOPNOTSUPP;
	if (attr->create_flags & ~create_flags_of(attr->qp_type))
		return EOPNOTSUPP;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD))
		return EINVAL;
	if ((int)attr->qp_type != VRDMA_QPT_GSI && attr->qp_type != IBV_QPT_RC &&
	    attr->qp_type != IBV_QPT_UC && attr->qp_type != IBV_QPT_UD &&
	    attr->qp_type != IBV_QPT_XRC_SEND)
		return EOPNOTSUPP;
	if (!attr->send_cq || (!attr->recv_cq && attr->qp_type != IBV_QPT_XRC_SEND))
		return EOPNOTSUPP;
	if (attr->cap.max_send_wr > context->max_qp_wr ||
	    attr->cap.max_recv_wr > context->max_qp_wr ||
	    attr->cap.max_send_sge > context->max_send_sge ||
	    attr->cap.max_recv_sge > context->max_recv_sge)
		return EINVAL;
	return 0;
}

static int create_queues(struct vrdma_context *context, struct vrdma_qp *qp,
			 const struct vrdma_qp_layout *layout,
			 const struct ibv_qp_init_attr_ex *attr)
{
	int ret = vrdma_queue_alloc(context, attr->pd, VRDMADV_RES_QP, &qp->buffer,
				    vrdma_qp_buffer_size(layout->sq_depth, layout->sq_stride_shift,
							 layout->rq_depth,
							 layout->rq_stride_shift));

	if (ret)
		return ret;
	ret = vrdma_queue_pair_init(&qp->queues, qp->buffer.data, layout, attr);
	if (ret)
		vrdma_queue_free(context, &qp->buffer);
	return ret;
}

static void destroy_queues(struct vrdma_context *context, struct vrdma_qp *qp)
{
	vrdma_queue_pair_destroy(&qp->queues);
	if (qp->buffer.data)
		vrdma_queue_free(context, &qp->buffer);
}

static void attach_to_cqs(struct vrdma_qp *qp)
{
	struct vrdma_queue_pair *queues = &qp->queues;

	vrdma_cq_attach(&to_vrdma_cq(qp->base.qp.send_cq)->queue, &queues->send_link, queues);
	if (qp->base.qp.recv_cq && qp->base.qp.recv_cq != qp->base.qp.send_cq)
		vrdma_cq_attach(&to_vrdma_cq(qp->base.qp.recv_cq)->queue, &queues->recv_link,
				queues);
}

/* An XRC QP has one CQ or none. */
static void detach_from_cqs(struct vrdma_qp *qp)
{
	if (qp->base.qp.send_cq)
		vrdma_cq_detach(&to_vrdma_cq(qp->base.qp.send_cq)->queue, &qp->queues.send_link);
	if (qp->base.qp.recv_cq)
		vrdma_cq_detach(&to_vrdma_cq(qp->base.qp.recv_cq)->queue, &qp->queues.recv_link);
}

static void strike_out_of_cqs(struct vrdma_qp *qp)
{
	if (qp->base.qp.send_cq)
		vrdma_cq_strike_out(&to_vrdma_cq(qp->base.qp.send_cq)->queue, &qp->queues);
	if (qp->base.qp.recv_cq)
		vrdma_cq_strike_out(&to_vrdma_cq(qp->base.qp.recv_cq)->queue, &qp->queues);
}

static int create_qp(struct vrdma_qp *qp, struct vrdma_context *context,
		     struct ibv_qp_init_attr_ex *attr)
{
	struct vrdma_qp_layout layout;
	uint32_t slot;
	int ret = vrdma_qp_layout_init(&layout, &attr->cap, attr->qp_type, context->max_inline);

	if (ret)
		return ret;
	ret = create_queues(context, qp, &layout, attr);
	if (ret)
		return ret;
	if (vrdma_is_threaded(attr->pd))
		qp->queues.sq.lock.needed = qp->queues.rq.lock.needed = false;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		ret = vrdma_qp_set_send_ops(qp, attr->send_ops_flags);
	if (!ret)
		ret = context->control->create_qp(&context->base.context, attr, &layout, qp, &slot);
	if (ret) {
		destroy_queues(context, qp);
		return ret;
	}
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		vrdma_qp_end(&qp->base)->comp_mask |= VERBS_QP_EX;
	qp->queues.qpn = qp->base.qp.qp_num;
	qp->queues.srq = attr->srq ? &to_vrdma_srq(attr->srq)->queue : NULL;
	qp->queues.doorbell = (struct vrdma_doorbell){
		.page = context->doorbell_page,
		.status = context->status_page,
		.kick_page = context->kick_page,
		.kick_fd = context->kick_fd,
		.kick_offset = context->kick_offset,
		.slot = slot % VRDMA_DOORBELL_SLOTS,
	};
	attach_to_cqs(qp);
	return 0;
}

struct ibv_qp *vrdma_create_qp_ex(struct ibv_context *base, struct ibv_qp_init_attr_ex *attr)
{
	struct vrdma_context *context = to_vrdma_context(base);
	struct ibv_qp_init_attr_ex rounded = *attr;
	struct vrdma_qp *qp;
	int ret;

	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return vrdma_create_xrc_recv(base, attr);
	/* An XRC send QP ignores its srq and recv_cq attributes (ibv_create_qp(3)). */
	if (rounded.qp_type == IBV_QPT_XRC_SEND) {
		rounded.srq = NULL;
		rounded.recv_cq = NULL;
	}
	if (rounded.srq || rounded.qp_type == IBV_QPT_XRC_SEND)
		rounded.cap.max_recv_wr = rounded.cap.max_recv_sge = 0;
	if (!(rounded.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS))
		rounded.create_flags = 0;
	ret = check_init_attr(context, &rounded);
	if (ret) {
		errno = ret;
		return NULL;
	}
	rounded.comp_mask &= ~IBV_QP_INIT_ATTR_CREATE_FLAGS; /* 0 is the same as absent */
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	ret = create_qp(qp, context, &rounded);
	if (ret) {
		free(qp);
		errno = ret;
		return NULL;
	}
	attr->cap = rounded.cap;
	return &qp->base.qp;
}

struct ibv_qp *vrdma_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex extended = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp *qp = vrdma_create_qp_ex(pd->context, &extended);

	if (qp)
		attr->cap = extended.cap;
	return qp;
}

int vrdma_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		   struct ibv_qp_init_attr *init_attr)
{
	return to_vrdma_context(qp->context)
		->control->query_qp(to_vrdma_qp(qp), attr, attr_mask, init_attr);
}

int vrdma_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int attr_mask)
{
	struct vrdma_qp *qp = to_vrdma_qp(base);
	int ret = to_vrdma_context(base->context)->control->modify_qp(qp, attr, attr_mask);

	if (ret || !(attr_mask & IBV_QP_STATE))
		return ret;
	if (attr->qp_state == IBV_QPS_RESET) {
		strike_out_of_cqs(qp);
		vrdma_queue_pair_reset(&qp->queues);
	} else {
		vrdma_queue_pair_set_state(&qp->queues, attr->qp_state);
	}
	return 0;
}

int vrdma_destroy_qp(struct ibv_qp *base)
{
	struct vrdma_context *context = to_vrdma_context(base->context);
	struct vrdma_qp *qp = to_vrdma_qp(base);
	int ret = context->control->destroy_qp(qp);

	if (ret)
		return ret;
	detach_from_cqs(qp);
	destroy_queues(context, qp);
	free(qp);
	return 0;
}

int vrdma_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return to_vrdma_context(qp->context)->control->attach_mcast(qp, gid, lid);
}

int vrdma_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return to_vrdma_context(qp->context)->control->detach_mcast(qp, gid, lid);
}

int vrdma_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	return vrdma_queue_send(&to_vrdma_qp(qp)->queues, wr, bad_wr);
}

int vrdma_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	return vrdma_queue_receive(&to_vrdma_qp(qp)->queues, wr, bad_wr);
}

/*
 * ECE: options that two devices of one vendor agree on when they connect. vrdma has no options yet.
 * It returns an empty set to a peer that offers some, which means that none is accepted.
 */
int vrdma_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	*ece = (struct ibv_ece){.vendor_id = VRDMA_PCI_VENDOR_ID};
	return 0;
}

int vrdma_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	if (ece->vendor_id != VRDMA_PCI_VENDOR_ID || ece->comp_mask)
		return EINVAL;
	ece->options = 0;
	return 0;
}
