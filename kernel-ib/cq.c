// SPDX-License-Identifier: GPL-2.0-only
/*
 * Completion queues. Processes poll and arm them in their own memory (queue.h).
 */
#include <linux/log2.h>
#include <rdma/uverbs_ioctl.h>

#include "vrdma_ib.h"

static int vrdma_cq_check(struct vrdma_dev *dev, const struct ib_cq_init_attr *attr,
			  const struct vrdma_uverbs_create_cq *req)
{
	if (attr->flags)
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > dev->ibdev.attrs.max_cqe)
		return -EINVAL;
	if (req->reserved || !is_power_of_2(req->depth) || req->depth < attr->cqe ||
	    req->depth > VRDMA_MAX_CQ_DEPTH)
		return -EINVAL;
	return 0;
}

/* Tells the device; the page list is needed for no longer than that. */
static int vrdma_cq_make(struct vrdma_dev *dev, struct vrdma_cq *cq, u32 ucontext, u32 eq,
			 const struct vrdma_uverbs_create_cq *req)
{
	u64 size = VRDMA_QUEUE_CONTROL_SIZE + ((u64)req->depth << VRDMA_CQE_SHIFT);
	struct vrdma_cmd_create_cq arg = {
		.depth = cpu_to_le32(req->depth),
		.eq = cpu_to_le32(eq),
		.ucontext = cpu_to_le32(ucontext),
	};
	struct vrdma_pages pages;
	int err;

	cq->umem = vrdma_pin_queue(dev, &pages, req->buffer, size);
	if (IS_ERR(cq->umem))
		return PTR_ERR(cq->umem);
	arg.pages = pages.list;
	arg.first_offset = cpu_to_le32(pages.first_offset);
	err = vrdma_cmd_create_cq(dev, &arg, &cq->cqn);
	vrdma_pages_cleanup(dev, &pages);
	if (err)
		ib_umem_release(cq->umem);
	return err;
}

static int vrdma_cq_unmake(struct vrdma_dev *dev, struct vrdma_cq *cq)
{
	int err;

	err = vrdma_cmd_destroy(dev, VRDMA_ADMIN_DESTROY_CQ, cq->cqn);
	if (err)
		return err;
	ib_umem_release(cq->umem);
	return 0;
}

int vrdma_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr, struct ib_udata *udata)
{
	struct vrdma_ucontext *ucontext =
		rdma_udata_to_drv_context(udata, struct vrdma_ucontext, ibucontext);
	struct vrdma_dev *dev = to_vrdma_dev(ibcq->device);
	struct vrdma_uverbs_create_cq_resp resp = {};
	struct vrdma_cq *cq = to_vrdma_cq(ibcq);
	struct vrdma_uverbs_create_cq req;
	int err;

	err = vrdma_udata_in(udata, &req, sizeof(req));
	if (err)
		return err;
	err = vrdma_cq_check(dev, attr, &req);
	if (err)
		return err;

	err = vrdma_cq_make(dev, cq, ucontext->handle, dev->comp_eqs[attr->comp_vector].handle,
			    &req);
	if (err)
		return err;

	err = vrdma_event_target_add(&dev->cqs, cq->cqn, &cq->target);
	if (err)
		goto err_unmake;

	ibcq->cqe = req.depth;
	resp.cqn = cq->cqn;
	err = vrdma_udata_out(udata, &resp, sizeof(resp));
	if (err)
		goto err_target;
	return 0;

err_target:
	vrdma_event_target_remove(&dev->cqs, cq->cqn, &cq->target);
err_unmake:
	vrdma_cq_unmake(dev, cq);
	return err;
}

int vrdma_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibcq->device);
	struct vrdma_cq *cq = to_vrdma_cq(ibcq);
	int err;

	err = vrdma_cq_unmake(dev, cq);
	if (err)
		return err;
	vrdma_event_target_remove(&dev->cqs, cq->cqn, &cq->target);
	return 0;
}
