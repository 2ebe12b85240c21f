/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Queue pairs, and their multicast groups. */
#include <errno.h>
#include <string.h>
#include <vrdma/qp_attr.h>

#include "verbs.h"

static void init_base_qp(struct ibv_qp *base, struct ibv_context *context,
			 const struct ibv_qp_init_attr_ex *attr)
{
	base->context = context;
	base->qp_context = attr->qp_context;
	base->pd = attr->pd;
	base->send_cq = attr->send_cq;
	base->recv_cq = attr->recv_cq;
	base->srq = attr->srq;
	base->handle = base->qp_num;
	base->state = IBV_QPS_RESET;
	base->qp_type = attr->qp_type;
	pthread_mutex_init(&base->mutex, NULL);
	pthread_cond_init(&base->cond, NULL);
}

int vrdma_direct_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
			   const struct vrdma_qp_layout *layout, struct vrdma_qp *qp,
			   uint32_t *doorbell_slot)
{
	struct vrdma_dev *dev = vrdma_dev_of(context);
	struct vrdma_cmd_create_qp arg = {
		.pages = vrdma_contiguous_pages(
			qp->buffer.address,
			vrdma_qp_buffer_size(layout->sq_depth, layout->sq_stride_shift,
					     layout->rq_depth, layout->rq_stride_shift)),
		.ucontext = htole32(to_vrdma_context(context)->ucontext),
		.pd = htole32(attr->pd->handle),
		.sq_depth = htole32(layout->sq_depth),
		.rq_depth = htole32(layout->rq_depth),
		.sq_stride_shift = layout->sq_stride_shift,
		.rq_stride_shift = layout->rq_stride_shift,
		.qp_type = (__u8)attr->qp_type,
		.flags = attr->sq_sig_all ? VRDMA_QP_SQ_SIGNAL_ALL : 0,
		.max_inline = htole32(attr->cap.max_inline_data),
		.max_send_sge = htole16((uint16_t)attr->cap.max_send_sge),
		.max_recv_sge = htole16((uint16_t)attr->cap.max_recv_sge),
	};
	int ret;

	arg.send_cq = htole32(attr->send_cq->handle);
	arg.recv_cq = attr->recv_cq ? htole32(attr->recv_cq->handle) : 0;
	arg.srq = attr->srq ? htole32(attr->srq->handle) : 0;
	if (attr->create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB)
		arg.flags |= VRDMA_QP_BLOCK_SELF_MULTICAST;
	ret = -vrdma_cmd_create_qp(dev, &arg, &qp->base.qp.qp_num, doorbell_slot);
	if (ret)
		return ret;
	init_base_qp(&qp->base.qp, context, attr);
	vrdma_events_add_qp(dev, qp);
	return 0;
}

static int qp_attr_to_wire(struct vrdma_qp_attr *wire, const struct ibv_qp_attr *attr, int mask)
{
	VRDMA_QP_ATTR_TO_WIRE(wire, attr);
	if (!vrdma_qp_attr_select(wire, (__u32)mask))
		return EOPNOTSUPP;
	return mask & IBV_QP_AV ? vrdma_av_from_ah_attr(&wire->av, &attr->ah_attr) : 0;
}

static void qp_attr_from_wire(struct ibv_qp_attr *attr, const struct vrdma_qp_attr *wire)
{
	VRDMA_QP_ATTR_FROM_WIRE(attr, wire);
	vrdma_av_to_ah_attr(&wire->av, &attr->ah_attr);
}

int vrdma_direct_query_qp(struct vrdma_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			  struct ibv_qp_init_attr *init_attr)
{
	const struct vrdma_queue_pair *queues = &qp->queues;
	struct vrdma_qp_attr wire = {};
	int ret = -vrdma_cmd_query_qp(vrdma_dev_of(qp->base.qp.context), qp->base.qp.qp_num, &wire);

	(void)attr_mask;
	if (ret)
		return ret;
	memset(attr, 0, sizeof(*attr));
	qp_attr_from_wire(attr, &wire);
	attr->cap = (struct ibv_qp_cap){
		.max_send_wr = queues->sq.depth,
		.max_recv_wr = queues->rq.depth,
		.max_send_sge = queues->sq.max_sge,
		.max_recv_sge = queues->rq.max_sge,
		.max_inline_data = queues->max_inline,
	};
	*init_attr = (struct ibv_qp_init_attr){
		.qp_context = qp->base.qp.qp_context,
		.send_cq = qp->base.qp.send_cq,
		.recv_cq = qp->base.qp.recv_cq,
		.srq = qp->base.qp.srq,
		.cap = attr->cap,
		.qp_type = qp->base.qp.qp_type,
		.sq_sig_all = queues->sq_ctrl & VRDMA_SQ_SIGNALED ? 1 : 0,
	};
	return 0;
}

/* Ignores attributes that one side of an XRC connection does not use, as ib_uverbs does. */
static int used_attrs(enum ibv_qp_type type, int mask)
{
	switch (type) {
	case IBV_QPT_XRC_SEND:
		return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	case IBV_QPT_XRC_RECV:
		return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	default:
		return mask;
	}
}

int vrdma_direct_modify_qp(struct vrdma_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct vrdma_qp_attr wire = {};
	int ret = qp_attr_to_wire(&wire, attr, used_attrs(qp->base.qp.qp_type, attr_mask));

	if (ret)
		return ret;
	return -vrdma_cmd_modify_qp(vrdma_dev_of(qp->base.qp.context), qp->base.qp.qp_num, &wire);
}

int vrdma_direct_destroy_qp(struct vrdma_qp *qp)
{
	struct ibv_qp *base = &qp->base.qp;
	uint32_t async;
	int ret = base->qp_type == IBV_QPT_XRC_RECV
			  ? vrdma_direct_close_qp(qp)
			  : vrdma_destroy_object(base->context, VRDMA_ADMIN_DESTROY_QP,
						 base->qp_num);

	if (ret)
		return ret;
	vrdma_events_remove_qp(vrdma_dev_of(base->context), qp, &async);
	if (vrdma_dev_of(base->context)->forked)
		return 0; /* they are the parent's to acknowledge */
	vrdma_wait_for_acks(&base->mutex, &base->cond, &base->events_completed, async);
	return 0;
}

int vrdma_direct_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)lid;
	return -vrdma_cmd_multicast(vrdma_dev_of(qp->context), VRDMA_ADMIN_ATTACH_MCAST, qp->qp_num,
				    gid->raw);
}

int vrdma_direct_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)lid;
	return -vrdma_cmd_multicast(vrdma_dev_of(qp->context), VRDMA_ADMIN_DETACH_MCAST, qp->qp_num,
				    gid->raw);
}
