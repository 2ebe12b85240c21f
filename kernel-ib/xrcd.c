// SPDX-License-Identifier: GPL-2.0-only
/*
 * XRC domains, and the QPs that receive for a domain's SRQs. Processes share both, so neither
 * belongs to one process. ib_uverbs and ib_core manage the sharing.
 */
#include "vrdma_ib.h"

int vrdma_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	int err;

	err = vrdma_udata_none(udata);
	if (err)
		return err;
	return vrdma_cmd_alloc_xrcd(to_vrdma_dev(ibxrcd->device), &to_vrdma_xrcd(ibxrcd)->handle);
}

int vrdma_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	return vrdma_cmd_destroy(to_vrdma_dev(ibxrcd->device), VRDMA_ADMIN_DEALLOC_XRCD,
				 to_vrdma_xrcd(ibxrcd)->handle);
}

/* An XRC target QP has no queues, no CQs and no PD. */
static int vrdma_create_xrc_tgt(struct ib_qp *ibqp, struct ib_qp_init_attr *attr)
{
	struct vrdma_cmd_create_qp arg = {
		.qp_type = IB_QPT_XRC_TGT,
		.xrcd = cpu_to_le32(to_vrdma_xrcd(attr->xrcd)->handle),
	};
	struct vrdma_dev *dev = to_vrdma_dev(ibqp->device);
	struct vrdma_qp *qp = to_vrdma_qp(ibqp);
	u32 doorbell_slot;
	int err;

	if (attr->create_flags)
		return -EOPNOTSUPP;
	err = vrdma_cmd_create_qp(dev, &arg, &ibqp->qp_num, &doorbell_slot);
	if (err)
		return err;
	err = vrdma_event_target_add(&dev->qps, ibqp->qp_num, &qp->target);
	if (err)
		vrdma_cmd_destroy(dev, VRDMA_ADMIN_DESTROY_QP, ibqp->qp_num);
	memset(&attr->cap, 0, sizeof(attr->cap));
	return err;
}

int vrdma_create_any_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	if (attr->qp_type == IB_QPT_XRC_TGT)
		return vrdma_create_xrc_tgt(ibqp, attr);
	return vrdma_create_qp(ibqp, attr, udata);
}
