// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared receive queues. Processes post in their own memory (queue.h).
 */
#include <rdma/uverbs_ioctl.h>

#include "vrdma_ib.h"

static int vrdma_srq_check(struct vrdma_dev *dev, const struct ib_srq_init_attr *init,
			   const struct vrdma_uverbs_create_srq *req)
{
	const struct ib_device_attr *limits = &dev->ibdev.attrs;
	const struct ib_srq_attr *attr = &init->attr;
	size_t wqe_size = VRDMA_RQ_PAYLOAD_OFFSET + attr->max_sge * sizeof(struct vrdma_sge);

	if (init->srq_type != IB_SRQT_BASIC)
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

/* Tells the device; the page list is needed for no longer than that. */
static int vrdma_srq_make(struct vrdma_dev *dev, struct vrdma_srq *srq,
			  struct vrdma_cmd_create_srq *arg,
			  const struct vrdma_uverbs_create_srq *req)
{
	u64 size = vrdma_srq_buffer_size(req->depth, req->stride_shift);
	struct vrdma_pages pages;
	int err;

	srq->umem = vrdma_pin_queue(dev, &pages, req->buffer, size);
	if (IS_ERR(srq->umem))
		return PTR_ERR(srq->umem);
	arg->pages = pages.list;
	arg->first_offset = cpu_to_le32(pages.first_offset);
	err = vrdma_cmd_create_srq(dev, arg, &srq->srqn);
	vrdma_pages_cleanup(dev, &pages);
	if (err)
		ib_umem_release(srq->umem);
	return err;
}

static int vrdma_srq_unmake(struct vrdma_dev *dev, struct vrdma_srq *srq)
{
	int err;

	err = vrdma_cmd_destroy(dev, VRDMA_ADMIN_DESTROY_SRQ, srq->srqn);
	if (err)
		return err;
	ib_umem_release(srq->umem);
	return 0;
}

int vrdma_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init, struct ib_udata *udata)
{
	struct vrdma_ucontext *ucontext =
		rdma_udata_to_drv_context(udata, struct vrdma_ucontext, ibucontext);
	struct vrdma_dev *dev = to_vrdma_dev(ibsrq->device);
	struct vrdma_srq *srq = to_vrdma_srq(ibsrq);
	struct vrdma_uverbs_create_srq req;
	struct vrdma_cmd_create_srq arg = {
		.ucontext = cpu_to_le32(ucontext->handle),
		.pd = cpu_to_le32(to_vrdma_pd(ibsrq->pd)->handle),
	};
	int err;

	err = vrdma_udata_in(udata, &req, sizeof(req));
	if (err)
		return err;
	err = vrdma_srq_check(dev, init, &req);
	if (err)
		return err;

	arg.depth = cpu_to_le32(req.depth);
	arg.stride_shift = req.stride_shift;
	arg.max_sge = cpu_to_le16(init->attr.max_sge);
	err = vrdma_srq_make(dev, srq, &arg, &req);
	if (err)
		return err;

	err = vrdma_event_target_add(&dev->srqs, srq->srqn, &srq->target);
	if (err) {
		vrdma_srq_unmake(dev, srq);
		return err;
	}
	init->attr.max_wr = req.depth;
	srq->max_wr = init->attr.max_wr;
	srq->max_sge = init->attr.max_sge;
	return 0;
}

/* The size is for good: the device does not have IB_DEVICE_SRQ_RESIZE. */
int vrdma_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		     struct ib_udata *udata)
{
	int err;

	err = vrdma_udata_none(udata);
	if (err)
		return err;
	if (mask & ~IB_SRQ_LIMIT)
		return -EOPNOTSUPP;
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

	err = vrdma_srq_unmake(dev, srq);
	if (err)
		return err;
	vrdma_event_target_remove(&dev->srqs, srq->srqn, &srq->target);
	return 0;
}
