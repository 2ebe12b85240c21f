/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* XRC: domains, and QPs that receive for the SRQs of one (ibv_open_xrcd(3), ibv_open_qp(3)). */
#include <stdlib.h>

#include "vrdma.h"

struct ibv_xrcd *vrdma_open_xrcd(struct ibv_context *base, struct ibv_xrcd_init_attr *attr)
{
	const uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct vrdma_xrcd *xrcd;
	int ret;

	if (attr->comp_mask != needed) {
		errno = attr->comp_mask & ~needed ? EOPNOTSUPP : EINVAL;
		return NULL;
	}
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return NULL;
	ret = to_vrdma_context(base)->control->open_xrcd(base, attr, xrcd);
	if (ret) {
		free(xrcd);
		errno = ret;
		return NULL;
	}
	return &xrcd->base.xrcd;
}

int vrdma_close_xrcd(struct ibv_xrcd *base)
{
	struct vrdma_xrcd *xrcd = to_vrdma_xrcd(base);
	int ret = to_vrdma_context(base->context)->control->close_xrcd(xrcd);

	if (!ret)
		free(xrcd);
	return ret;
}

int vrdma_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
{
	const struct verbs_srq *base = &to_vrdma_srq(srq)->base;

	if (base->srq_type != IBV_SRQT_XRC)
		return EOPNOTSUPP;
	*srq_num = base->srq_num;
	return 0;
}

/* WQEs cannot be posted to an XRC receive QP: its empty queues only keep the QP's state. */
static int init_no_queues(struct vrdma_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
	static struct vrdma_qp_control nobodys;
	static const struct vrdma_qp_layout none;

	return vrdma_queue_pair_init(&qp->queues, &nobodys, &none, attr);
}

static struct ibv_qp *make_recv(struct ibv_context *base, struct ibv_qp_init_attr_ex *attr,
				struct ibv_qp_open_attr *open)
{
	const struct vrdma_control *control = to_vrdma_context(base)->control;
	struct vrdma_qp *qp = calloc(1, sizeof(*qp));
	int ret;

	if (!qp)
		return NULL;
	ret = init_no_queues(qp, attr);
	if (!ret) {
		ret = open ? control->open_qp(base, open, qp)
			   : control->create_xrc_recv(base, attr, qp);
		if (ret)
			vrdma_queue_pair_destroy(&qp->queues);
	}
	if (ret) {
		free(qp);
		errno = ret;
		return NULL;
	}
	return &qp->base.qp;
}

struct ibv_qp *vrdma_create_xrc_recv(struct ibv_context *base, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr_ex bare = {
		.qp_context = attr->qp_context,
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = attr->xrcd,
	};

	/* A PD has no effect here, but programs may give one. */
	if (attr->comp_mask & ~(uint32_t)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD) ||
	    attr->srq) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD)) {
		errno = EINVAL;
		return NULL;
	}
	return make_recv(base, &bare, NULL);
}

struct ibv_qp *vrdma_open_qp(struct ibv_context *base, struct ibv_qp_open_attr *attr)
{
	const uint32_t needed = IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_NUM |
				IBV_QP_OPEN_ATTR_TYPE;
	struct ibv_qp_init_attr_ex bare = {.qp_type = IBV_QPT_XRC_RECV};

	if ((attr->comp_mask & needed) != needed || attr->qp_type != IBV_QPT_XRC_RECV) {
		errno = EINVAL;
		return NULL;
	}
	return make_recv(base, &bare, attr);
}
