// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared receive queues. Processes post in their own memory (queue.h), and the kernel in its own
 * (post_recv.c).
 */
#include <linux/log2.h>

#include "vrdma_ib.h"

static int vrdma_srq_check(struct vrdma_dev *dev, const struct ib_srq_init_attr *init,
			   const struct vrdma_uverbs_create_srq *req)
{
	const struct ib_device_attr *limits = &dev->ibdev.attrs;
	const struct ib_srq_attr *attr = &init->attr;
	size_t wqe_size = VRDMA_RQ_PAYLOAD_OFFSET + attr->max_sge * sizeof(struct vrdma_sge);

	if (init->srq_type != IB_SRQT_BASIC && init->srq_type != IB_SRQT_XRC)
		return -EOPNOTSUPP;
	if (!attr->max_wr || attr->max_wr > limits->max_srq_wr ||
	    attr->max_sge > limits->max_srq_sge)
		return -EINVAL;
	if (memchr_inv(req->reserved, 0, sizeof(req->reserved)))
		return -EINVAL;
	if (!vrdma_ring_fits(req->depth, req->stride_shift, VRDMA_RQ_MIN_STRIDE_SHIFT, attr->max_wr,
			     wqe_size))
		return -EINVAL;
	return 0;
}

/* Creates the SRQ in the device, which needs the page list only during the command. */
static int vrdma_srq_make(struct vrdma_dev *dev, struct vrdma_srq *srq,
			  struct vrdma_cmd_create_srq *arg,
			  const struct vrdma_uverbs_create_srq *req, struct ib_udata *udata)
{
	u64 size = vrdma_srq_buffer_size(req->depth, req->stride_shift);
	struct vrdma_pages pages;
	int err;

	err = vrdma_queue_memory_init(dev, &srq->memory, &pages, udata, req->buffer, size);
	if (err)
		return err;
	arg->pages = pages.list;
	arg->first_offset = cpu_to_le32(pages.first_offset);
	err = vrdma_cmd_create_srq(dev, arg, &srq->srqn);
	vrdma_pages_cleanup(dev, &pages);
	if (err)
		vrdma_queue_memory_cleanup(dev, &srq->memory);
	return err;
}

static void vrdma_srq_kernel_layout(struct vrdma_uverbs_create_srq *layout,
				    const struct ib_srq_attr *attr)
{
	layout->depth = roundup_pow_of_two(max(attr->max_wr, 1u));
	layout->stride_shift = vrdma_receive_stride_shift(attr->max_sge);
}

int vrdma_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init, struct ib_udata *udata)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibsrq->device);
	struct vrdma_srq *srq = to_vrdma_srq(ibsrq);
	struct vrdma_uverbs_create_srq req = {};
	struct vrdma_cmd_create_srq arg = {
		.ucontext = cpu_to_le32(vrdma_udata_owner(udata)),
		.pd = cpu_to_le32(to_vrdma_pd(ibsrq->pd)->handle),
	};
	int err = 0;

	if (udata)
		err = vrdma_udata_in(udata, &req, sizeof(req));
	else
		vrdma_srq_kernel_layout(&req, &init->attr);
	if (err)
		return err;
	err = vrdma_srq_check(dev, init, &req);
	if (err)
		return err;

	arg.depth = cpu_to_le32(req.depth);
	arg.stride_shift = req.stride_shift;
	arg.max_sge = cpu_to_le16(init->attr.max_sge);
	if (init->srq_type == IB_SRQT_XRC) {
		arg.xrcd = cpu_to_le32(to_vrdma_xrcd(init->ext.xrc.xrcd)->handle);
		arg.cq = cpu_to_le32(to_vrdma_cq(init->ext.cq)->cqn);
	}
	mutex_init(&srq->resize_lock);
	err = vrdma_srq_make(dev, srq, &arg, &req, udata);
	if (err)
		return err;

	init->attr.max_wr = req.depth;
	ibsrq->ext.xrc.srq_num = srq->srqn; /* only XRC uses it */
	srq->max_wr = init->attr.max_wr;
	srq->max_sge = init->attr.max_sge;
	srq->stride_shift = req.stride_shift;
	if (!udata) {
		err = vrdma_srq_ring_init(srq);
		if (err)
			goto err_destroy;
	}
	err = vrdma_event_target_add(&dev->srqs, srq->srqn, &srq->target);
	if (err)
		goto err_ring;
	return 0;

err_ring:
	vrdma_srq_ring_cleanup(srq);
err_destroy:
	if (!vrdma_cmd_destroy(dev, VRDMA_ADMIN_DESTROY_SRQ, srq->srqn))
		vrdma_queue_memory_cleanup(dev, &srq->memory);
	return err;
}

/* Releases the old ring's memory when the device has the new ring. */
static int vrdma_srq_replace(struct vrdma_dev *dev, struct vrdma_srq *srq,
			     struct vrdma_cmd_resize_srq *arg,
			     const struct vrdma_uverbs_resize_srq *req, struct ib_udata *udata)
{
	u64 size = vrdma_srq_buffer_size(req->depth, srq->stride_shift);
	struct vrdma_queue_memory memory = {};
	struct vrdma_pages pages;
	int err;

	err = vrdma_queue_memory_init(dev, &memory, &pages, udata, req->buffer, size);
	if (err)
		return err;
	arg->pages = pages.list;
	arg->first_offset = cpu_to_le32(pages.first_offset);
	err = vrdma_cmd_resize_srq(dev, arg);
	vrdma_pages_cleanup(dev, &pages);
	if (!err) {
		swap(srq->memory, memory);
		srq->max_wr = req->depth;
	}
	vrdma_queue_memory_cleanup(dev, &memory);
	return err;
}

/* Kernel users size their SRQs once, as they do their CQs. */
static int vrdma_resize_srq(struct ib_srq *ibsrq, const struct ib_srq_attr *attr,
			    enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibsrq->device);
	struct vrdma_srq *srq = to_vrdma_srq(ibsrq);
	struct vrdma_uverbs_resize_srq req;
	struct vrdma_cmd_resize_srq arg = {
		.srqn = cpu_to_le32(srq->srqn),
	};
	int err;

	if (!udata)
		return -EOPNOTSUPP;
	err = vrdma_udata_in(udata, &req, sizeof(req));
	if (err)
		return err;
	if (!attr->max_wr || attr->max_wr > dev->ibdev.attrs.max_srq_wr)
		return -EINVAL;
	if (req.reserved || !is_power_of_2(req.depth) || req.depth < attr->max_wr ||
	    req.depth > VRDMA_MAX_QUEUE_DEPTH)
		return -EINVAL;
	arg.depth = cpu_to_le32(req.depth);
	if (mask & IB_SRQ_LIMIT) {
		arg.flags = cpu_to_le32(VRDMA_RESIZE_SRQ_LIMIT);
		arg.limit = cpu_to_le32(attr->srq_limit);
	}

	mutex_lock(&srq->resize_lock);
	err = vrdma_srq_replace(dev, srq, &arg, &req, udata);
	mutex_unlock(&srq->resize_lock);
	return err;
}

int vrdma_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		     struct ib_udata *udata)
{
	int err;

	if (mask & ~(IB_SRQ_MAX_WR | IB_SRQ_LIMIT))
		return -EOPNOTSUPP;
	if (mask & IB_SRQ_MAX_WR)
		return vrdma_resize_srq(ibsrq, attr, mask, udata);
	err = vrdma_udata_none(udata);
	if (err)
		return err;
	if (!mask)
		return 0;
	return vrdma_cmd_modify_srq(to_vrdma_dev(ibsrq->device), to_vrdma_srq(ibsrq)->srqn,
				    attr->srq_limit);
}

int vrdma_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct vrdma_srq *srq = to_vrdma_srq(ibsrq);

	attr->max_wr = srq->max_wr;
	attr->max_sge = srq->max_sge;
	return vrdma_cmd_query_srq(to_vrdma_dev(ibsrq->device), srq->srqn, &attr->srq_limit);
}

int vrdma_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibsrq->device);
	struct vrdma_srq *srq = to_vrdma_srq(ibsrq);
	int err;

	err = vrdma_cmd_destroy(dev, VRDMA_ADMIN_DESTROY_SRQ, srq->srqn);
	if (err)
		return err;
	vrdma_event_target_remove(&dev->srqs, srq->srqn, &srq->target);
	vrdma_srq_ring_cleanup(srq);
	vrdma_queue_memory_cleanup(dev, &srq->memory);
	return 0;
}
