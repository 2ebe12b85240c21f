// SPDX-License-Identifier: GPL-2.0-only
/*
 * Completion queues. Processes poll and arm them in their own memory (queue.h), and the kernel does
 * so with its own CQs (poll_cq.c).
 */
#include <linux/log2.h>

#include "vrdma_ib.h"

static int vrdma_cq_check(struct vrdma_dev *dev, const struct ib_cq_init_attr *attr,
			  const struct vrdma_uverbs_create_cq *req)
{
	if (attr->flags &
	    ~(IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION | IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN))
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > dev->ibdev.attrs.max_cqe)
		return -EINVAL;
	if (req->reserved || !is_power_of_2(req->depth) || req->depth < attr->cqe ||
	    req->depth > VRDMA_MAX_CQ_DEPTH)
		return -EINVAL;
	return 0;
}

static u32 vrdma_cq_flags(u32 flags)
{
	return (flags & IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION ? VRDMA_CQ_TIMESTAMP : 0) |
	       (flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN ? VRDMA_CQ_IGNORE_OVERRUN : 0);
}

/* Creates the CQ in the device, which needs the page list only during the command. */
static int vrdma_cq_make(struct vrdma_dev *dev, struct vrdma_cq *cq, u32 eq, u32 flags,
			 const struct vrdma_uverbs_create_cq *req, struct ib_udata *udata)
{
	u64 size = VRDMA_QUEUE_CONTROL_SIZE + ((u64)req->depth << VRDMA_CQE_SHIFT);
	struct vrdma_cmd_create_cq arg = {
		.depth = cpu_to_le32(req->depth),
		.eq = cpu_to_le32(eq),
		.ucontext = cpu_to_le32(vrdma_udata_owner(udata)),
		.flags = cpu_to_le32(flags),
	};
	struct vrdma_pages pages;
	int err;

	err = vrdma_queue_memory_init(dev, &cq->memory, &pages, udata, req->buffer, size);
	if (err)
		return err;
	if (!udata)
		vrdma_cq_ring_init(cq, req->depth);
	arg.pages = pages.list;
	arg.first_offset = cpu_to_le32(pages.first_offset);
	err = vrdma_cmd_create_cq(dev, &arg, &cq->cqn);
	vrdma_pages_cleanup(dev, &pages);
	if (err)
		vrdma_queue_memory_cleanup(dev, &cq->memory);
	return err;
}

int vrdma_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr, struct ib_udata *udata)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibcq->device);
	struct vrdma_uverbs_create_cq_resp resp = {};
	struct vrdma_cq *cq = to_vrdma_cq(ibcq);
	struct vrdma_uverbs_create_cq req = {};
	int err = 0;

	if (udata)
		err = vrdma_udata_in(udata, &req, sizeof(req));
	else
		req.depth = roundup_pow_of_two(max(attr->cqe, 1u));
	if (err)
		return err;
	err = vrdma_cq_check(dev, attr, &req);
	if (err)
		return err;

	mutex_init(&cq->resize_lock);
	err = vrdma_cq_make(dev, cq, dev->comp_eqs[attr->comp_vector].handle,
			    vrdma_cq_flags(attr->flags), &req, udata);
	if (err)
		return err;

	err = vrdma_event_target_add(&dev->cqs, cq->cqn, &cq->target);
	if (err)
		goto err_destroy;

	ibcq->cqe = req.depth;
	resp.cqn = cq->cqn;
	err = vrdma_udata_out(udata, &resp, sizeof(resp));
	if (err)
		goto err_target;
	return 0;

err_target:
	vrdma_event_target_remove(&dev->cqs, cq->cqn, &cq->target);
err_destroy:
	if (!vrdma_cmd_destroy(dev, VRDMA_ADMIN_DESTROY_CQ, cq->cqn))
		vrdma_queue_memory_cleanup(dev, &cq->memory);
	return err;
}

/* Releases the old ring's memory when the device has the new ring. */
static int vrdma_cq_replace(struct vrdma_dev *dev, struct vrdma_cq *cq,
			    const struct vrdma_uverbs_resize_cq *req, struct ib_udata *udata)
{
	u64 size = VRDMA_QUEUE_CONTROL_SIZE + ((u64)req->depth << VRDMA_CQE_SHIFT);
	struct vrdma_cmd_resize_cq arg = {
		.depth = cpu_to_le32(req->depth),
		.cqn = cpu_to_le32(cq->cqn),
	};
	struct vrdma_queue_memory memory = {};
	struct vrdma_pages pages;
	int err;

	err = vrdma_queue_memory_init(dev, &memory, &pages, udata, req->buffer, size);
	if (err)
		return err;
	arg.pages = pages.list;
	arg.first_offset = cpu_to_le32(pages.first_offset);
	err = vrdma_cmd_resize_cq(dev, &arg);
	vrdma_pages_cleanup(dev, &pages);
	if (!err) {
		swap(cq->memory, memory);
		cq->ibcq.cqe = req->depth;
	}
	vrdma_queue_memory_cleanup(dev, &memory);
	return err;
}

int vrdma_resize_cq(struct ib_cq *ibcq, int cqe, struct ib_udata *udata)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibcq->device);
	struct vrdma_cq *cq = to_vrdma_cq(ibcq);
	struct vrdma_uverbs_resize_cq req;
	int err;

	if (!udata)
		return -EOPNOTSUPP;
	err = vrdma_udata_in(udata, &req, sizeof(req));
	if (err)
		return err;
	if (cqe < 1 || cqe > dev->ibdev.attrs.max_cqe)
		return -EINVAL;
	if (req.reserved || !is_power_of_2(req.depth) || req.depth < cqe ||
	    req.depth > VRDMA_MAX_CQ_DEPTH)
		return -EINVAL;

	mutex_lock(&cq->resize_lock);
	err = vrdma_cq_replace(dev, cq, &req, udata);
	mutex_unlock(&cq->resize_lock);
	return err;
}

int vrdma_modify_cq(struct ib_cq *ibcq, u16 count, u16 period)
{
	return vrdma_cmd_modify_cq(to_vrdma_dev(ibcq->device), to_vrdma_cq(ibcq)->cqn, count,
				   period);
}

/*
 * After an event that came before the device forgot the CQ, its owner may still poll the CQ. So the
 * memory is released last.
 */
int vrdma_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibcq->device);
	struct vrdma_cq *cq = to_vrdma_cq(ibcq);
	int err;

	err = vrdma_cmd_destroy(dev, VRDMA_ADMIN_DESTROY_CQ, cq->cqn);
	if (err)
		return err;
	vrdma_event_target_remove(&dev->cqs, cq->cqn, &cq->target);
	vrdma_queue_memory_cleanup(dev, &cq->memory);
	return 0;
}
