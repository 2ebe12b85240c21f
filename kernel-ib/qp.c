// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queue pairs: RC, UC and UD, and the kernel's GSI. Processes post in their own memory (queue.h),
 * and the kernel in its own (post_send.c). The device decides which transitions a QP may make, and
 * with which attributes, because only the device knows the state.
 */
#include <linux/log2.h>

#include "vrdma_ib.h"

static bool vrdma_qp_type_known(enum ib_qp_type type, struct ib_udata *udata)
{
	switch (type) {
	case IB_QPT_RC:
	case IB_QPT_UC:
	case IB_QPT_UD:
		return true;
	case IB_QPT_XRC_INI:
		return udata;
	case IB_QPT_GSI:
		return !udata;
	default:
		return false;
	}
}

static int vrdma_qp_check_attr(struct vrdma_dev *dev, const struct ib_qp_init_attr *attr,
			       struct ib_udata *udata)
{
	const struct ib_device_attr *limits = &dev->ibdev.attrs;
	const struct ib_qp_cap *cap = &attr->cap;

	if (!vrdma_qp_type_known(attr->qp_type, udata))
		return -EOPNOTSUPP;
	if (attr->create_flags & ~IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK || attr->rwq_ind_tbl ||
	    !attr->send_cq || (!attr->recv_cq && attr->qp_type != IB_QPT_XRC_INI))
		return -EOPNOTSUPP;
	if (cap->max_send_wr > limits->max_qp_wr || cap->max_recv_wr > limits->max_qp_wr ||
	    cap->max_send_sge > limits->max_send_sge || cap->max_recv_sge > limits->max_recv_sge ||
	    cap->max_inline_data > le32_to_cpu(dev->caps.max_inline))
		return -EINVAL;
	return 0;
}

bool vrdma_ring_fits(u32 depth, u8 stride_shift, u8 min_shift, u32 max_wr, size_t entry_size)
{
	if (stride_shift < min_shift || stride_shift > VRDMA_MAX_STRIDE_SHIFT)
		return false;
	if (depth > VRDMA_MAX_QUEUE_DEPTH || depth < max_wr || (depth && !is_power_of_2(depth)))
		return false;
	return !depth || entry_size <= BIT(stride_shift);
}

static int vrdma_qp_check_rings(const struct ib_qp_cap *cap, enum ib_qp_type type,
				const struct vrdma_uverbs_create_qp *req)
{
	size_t send_sges = cap->max_send_sge * sizeof(struct vrdma_sge);
	size_t recv_sges = cap->max_recv_sge * sizeof(struct vrdma_sge);
	size_t xrc = type == IB_QPT_XRC_INI ? sizeof(struct vrdma_sq_xrc) : 0;
	size_t payload = xrc + max_t(size_t, send_sges, cap->max_inline_data);

	if (req->flags & ~VRDMA_UVERBS_QP_BLOCK_SELF_MULTICAST ||
	    memchr_inv(req->reserved, 0, sizeof(req->reserved)))
		return -EINVAL;
	if (!vrdma_ring_fits(req->sq_depth, req->sq_stride_shift, VRDMA_SQ_MIN_STRIDE_SHIFT,
			     cap->max_send_wr, VRDMA_SQ_PAYLOAD_OFFSET + payload))
		return -EINVAL;
	if (!vrdma_ring_fits(req->rq_depth, req->rq_stride_shift, VRDMA_RQ_MIN_STRIDE_SHIFT,
			     cap->max_recv_wr, VRDMA_RQ_PAYLOAD_OFFSET + recv_sges))
		return -EINVAL;
	return 0;
}

/* With an SRQ the QP has no receive ring of its own. */
static int vrdma_qp_check_srq(const struct ib_qp_init_attr *attr,
			      const struct vrdma_uverbs_create_qp *req)
{
	if (attr->srq && (attr->cap.max_recv_wr || attr->cap.max_recv_sge || req->rq_depth))
		return -EINVAL;
	return 0;
}

static void vrdma_qp_fill_arg(struct vrdma_cmd_create_qp *arg, const struct ib_qp_init_attr *attr,
			      const struct vrdma_uverbs_create_qp *req)
{
	arg->send_cq = cpu_to_le32(to_vrdma_cq(attr->send_cq)->cqn);
	arg->recv_cq = attr->recv_cq ? cpu_to_le32(to_vrdma_cq(attr->recv_cq)->cqn) : 0;
	arg->sq_depth = cpu_to_le32(req->sq_depth);
	arg->rq_depth = cpu_to_le32(req->rq_depth);
	arg->sq_stride_shift = req->sq_stride_shift;
	arg->rq_stride_shift = req->rq_stride_shift;
	arg->qp_type = attr->qp_type;
	arg->flags = attr->sq_sig_type == IB_SIGNAL_ALL_WR ? VRDMA_QP_SQ_SIGNAL_ALL : 0;
	if (req->flags & VRDMA_UVERBS_QP_BLOCK_SELF_MULTICAST ||
	    attr->create_flags & IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK)
		arg->flags |= VRDMA_QP_BLOCK_SELF_MULTICAST;
	arg->max_inline = cpu_to_le32(attr->cap.max_inline_data);
	arg->max_send_sge = cpu_to_le16(attr->cap.max_send_sge);
	arg->max_recv_sge = cpu_to_le16(attr->cap.max_recv_sge);
	arg->srq = attr->srq ? cpu_to_le32(to_vrdma_srq(attr->srq)->srqn) : 0;
}

/* Creates the QP in the device, which needs the page list only during the command. */
static int vrdma_qp_make(struct vrdma_dev *dev, struct vrdma_qp *qp,
			 struct vrdma_cmd_create_qp *arg, const struct vrdma_uverbs_create_qp *req,
			 struct ib_udata *udata)
{
	u64 size = vrdma_qp_buffer_size(req->sq_depth, req->sq_stride_shift, req->rq_depth,
					req->rq_stride_shift);
	struct vrdma_pages pages;
	int err;

	err = vrdma_queue_memory_init(dev, &qp->memory, &pages, udata, req->buffer, size);
	if (err)
		return err;
	arg->pages = pages.list;
	arg->first_offset = cpu_to_le32(pages.first_offset);
	err = vrdma_cmd_create_qp(dev, arg, &qp->ibqp.qp_num, &qp->doorbell_slot);
	vrdma_pages_cleanup(dev, &pages);
	if (!err && qp->doorbell_slot >= VRDMA_DOORBELL_SLOTS) {
		vrdma_dev_fail(dev, "CREATE_QP returned a doorbell slot out of range");
		vrdma_dev_quiesce(dev);
		err = -EIO;
	}
	if (err)
		vrdma_queue_memory_cleanup(dev, &qp->memory);
	return err;
}

int vrdma_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	struct vrdma_cmd_create_qp arg = {
		.ucontext = cpu_to_le32(vrdma_udata_owner(udata)),
		.pd = cpu_to_le32(to_vrdma_pd(ibqp->pd)->handle),
	};
	struct vrdma_dev *dev = to_vrdma_dev(ibqp->device);
	struct vrdma_uverbs_create_qp_resp resp = {};
	struct vrdma_qp *qp = to_vrdma_qp(ibqp);
	struct vrdma_uverbs_create_qp req = {};
	int err;

	err = vrdma_qp_check_attr(dev, attr, udata);
	if (err)
		return err;
	if (udata)
		err = vrdma_udata_in(udata, &req, sizeof(req));
	else
		vrdma_qp_kernel_layout(&req, attr);
	if (err)
		return err;
	err = vrdma_qp_check_rings(&attr->cap, attr->qp_type, &req);
	if (err)
		return err;
	err = vrdma_qp_check_srq(attr, &req);
	if (err)
		return err;

	vrdma_qp_fill_arg(&arg, attr, &req);
	err = vrdma_qp_make(dev, qp, &arg, &req, udata);
	if (err)
		return err;

	attr->cap.max_send_wr = req.sq_depth;
	attr->cap.max_recv_wr = req.rq_depth;
	qp->cap = attr->cap;
	qp->sq_sig_type = attr->sq_sig_type;
	if (!udata) {
		err = vrdma_work_queues_init(qp, &req);
		if (err)
			goto err_destroy;
	}

	err = vrdma_event_target_add(&dev->qps, ibqp->qp_num, &qp->target);
	if (err)
		goto err_queues;

	resp.doorbell_slot = qp->doorbell_slot;
	err = vrdma_udata_out(udata, &resp, sizeof(resp));
	if (err)
		goto err_target;
	if (!udata)
		vrdma_work_queues_attach(qp);
	return 0;

err_target:
	vrdma_event_target_remove(&dev->qps, ibqp->qp_num, &qp->target);
err_queues:
	vrdma_work_queues_cleanup(qp);
err_destroy:
	if (!vrdma_cmd_destroy(dev, VRDMA_ADMIN_DESTROY_QP, ibqp->qp_num))
		vrdma_queue_memory_cleanup(dev, &qp->memory);
	return err;
}

/*
 * Removes a kernel QP's CQEs and links from its CQs. This must happen before the QP is destroyed,
 * because then another QP may get its number. A QP in RESET completes nothing. If the device
 * refuses RESET, it has failed and is quiet.
 */
static void vrdma_qp_retire(struct vrdma_dev *dev, struct vrdma_qp *qp)
{
	struct vrdma_qp_attr wire = { .state = IB_QPS_RESET };

	vrdma_qp_attr_select(&wire, IB_QP_STATE);
	vrdma_cmd_modify_qp(dev, qp->ibqp.qp_num, &wire);
	vrdma_work_queues_detach(qp);
}

int vrdma_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibqp->device);
	struct vrdma_qp *qp = to_vrdma_qp(ibqp);
	int err;

	if (qp->memory.pages)
		vrdma_qp_retire(dev, qp);
	err = vrdma_cmd_destroy(dev, VRDMA_ADMIN_DESTROY_QP, ibqp->qp_num);
	if (err)
		return err;
	vrdma_event_target_remove(&dev->qps, ibqp->qp_num, &qp->target);
	vrdma_work_queues_cleanup(qp);
	vrdma_queue_memory_cleanup(dev, &qp->memory);
	vrdma_qp_counters_free(qp);
	return 0;
}

static int vrdma_qp_attr_to_wire(struct vrdma_qp_attr *wire, const struct ib_qp_attr *attr,
				 int mask)
{
	VRDMA_QP_ATTR_TO_WIRE(wire, attr);
	if (!vrdma_qp_attr_select(wire, mask))
		return -EOPNOTSUPP;
	return mask & IB_QP_AV ? vrdma_av_from_ah_attr(&wire->av, &attr->ah_attr) : 0;
}

static void vrdma_qp_attr_from_wire(struct ib_qp_attr *attr, const struct vrdma_qp_attr *wire)
{
	VRDMA_QP_ATTR_FROM_WIRE(attr, wire);
	vrdma_av_to_ah_attr(&wire->av, &attr->ah_attr);
}

int vrdma_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibqp->device);
	struct vrdma_qp *qp = to_vrdma_qp(ibqp);
	struct vrdma_qp_attr wire = {};
	int err;

	err = vrdma_udata_none(udata);
	if (err)
		return err;
	err = vrdma_qp_attr_to_wire(&wire, attr, mask);
	if (err)
		return err;
	/* The MAD layer does not name the port of a GSI QP when it modifies the QP. */
	if (ibqp->qp_type == IB_QPT_GSI && mask & IB_QP_STATE && attr->qp_state == IB_QPS_INIT) {
		wire.port_num = VRDMA_PORT;
		wire.attr_mask |= cpu_to_le32(IB_QP_PORT);
	}
	err = vrdma_cmd_modify_qp(dev, ibqp->qp_num, &wire);
	if (!qp->memory.pages || !(mask & IB_QP_STATE))
		return err;
	if (!err && attr->qp_state == IB_QPS_RESET)
		vrdma_work_queues_reset(qp);
	/* All QPs of a failed device are in error. A user that drains one must not get an error. */
	if (err && attr->qp_state == IB_QPS_ERR && vrdma_dev_failed(dev))
		return 0;
	return err;
}

int vrdma_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_qp_init_attr *init_attr)
{
	struct vrdma_qp *qp = to_vrdma_qp(ibqp);
	struct vrdma_qp_attr wire;
	int err;

	err = vrdma_cmd_query_qp(to_vrdma_dev(ibqp->device), ibqp->qp_num, &wire);
	if (err)
		return err;

	memset(attr, 0, sizeof(*attr));
	vrdma_qp_attr_from_wire(attr, &wire);
	attr->cap = qp->cap;

	memset(init_attr, 0, sizeof(*init_attr));
	init_attr->qp_context = ibqp->qp_context;
	init_attr->send_cq = ibqp->send_cq;
	init_attr->recv_cq = ibqp->recv_cq;
	init_attr->srq = ibqp->srq;
	init_attr->qp_type = ibqp->qp_type;
	init_attr->sq_sig_type = qp->sq_sig_type;
	init_attr->cap = qp->cap;
	return 0;
}

int vrdma_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	return vrdma_cmd_multicast(to_vrdma_dev(ibqp->device), VRDMA_ADMIN_ATTACH_MCAST,
				   ibqp->qp_num, gid->raw);
}

/* A failed device has forgotten the group. */
int vrdma_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibqp->device);
	int err;

	err = vrdma_cmd_multicast(dev, VRDMA_ADMIN_DETACH_MCAST, ibqp->qp_num, gid->raw);
	return err && vrdma_dev_failed(dev) ? 0 : err;
}
