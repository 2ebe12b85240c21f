/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>

#include "cm.h"

void vrdma_cm_ah_attr(const struct vrdma_cm_id *id, struct ib_uverbs_ah_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	memcpy(attr->grh.dgid, id->peer.dgid, sizeof(attr->grh.dgid));
	attr->grh.sgid_index = id->peer.sgid_index;
	attr->grh.hop_limit = id->peer.hop_limit;
	attr->grh.traffic_class = id->peer.traffic_class;
	attr->is_global = 1;
	attr->port_num = VRDMA_PORT;
}

static int init_attr(const struct vrdma_cm_id *id, struct ib_uverbs_qp_attr *attr)
{
	attr->port_num = VRDMA_PORT;
	attr->pkey_index = id->port->pkey_index;
	attr->qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (vrdma_cm_is_datagram(id)) {
		attr->qkey = VRDMA_CM_QKEY;
		attr->qp_attr_mask |= IBV_QP_QKEY;
		return 0;
	}
	attr->qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
	if (id->state < VRDMA_CM_REQ_SENT)
		return 0;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->responder_resources)
		attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	return 0;
}

/* Whether the id has the parameters of both ends. */
static bool is_answered(const struct vrdma_cm_id *id)
{
	return id->state == VRDMA_CM_REP_RCVD || id->state == VRDMA_CM_REQ_RCVD ||
	       id->state == VRDMA_CM_REP_SENT || id->state == VRDMA_CM_CONNECTED;
}

static int rtr_attr(const struct vrdma_cm_id *id, struct ib_uverbs_qp_attr *attr)
{
	if (!is_answered(id))
		return EINVAL;
	attr->qp_attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	vrdma_cm_ah_attr(id, &attr->ah_attr);
	attr->path_mtu = id->mtu;
	attr->dest_qp_num = id->remote_qpn;
	attr->rq_psn = id->psn;
	attr->max_dest_rd_atomic = id->responder_resources;
	return 0;
}

static int rts_attr(const struct vrdma_cm_id *id, struct ib_uverbs_qp_attr *attr)
{
	if (!is_answered(id))
		return EINVAL;
	attr->qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT;
	attr->sq_psn = id->remote_psn;
	attr->retry_cnt = id->retry_count;
	attr->rnr_retry = id->rnr_retry_count;
	attr->max_rd_atomic = id->initiator_depth;
	attr->timeout = id->ack_timeout ? id->ack_timeout : id->timeout;
	return 0;
}

int vrdma_cm_qp_attr(const struct vrdma_cm_id *id, uint32_t state, struct ib_uverbs_qp_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	if (!id->port)
		return EINVAL;
	switch (state) {
	case IBV_QPS_INIT:
		return init_attr(id, attr);
	case IBV_QPS_RTR:
		return rtr_attr(id, attr);
	case IBV_QPS_RTS:
		return rts_attr(id, attr);
	default:
		return EINVAL;
	}
}
