// SPDX-License-Identifier: GPL-2.0-only
/* Event queues, and the tables by which an event finds its object. */
#include <linux/dma-mapping.h>
#include <linux/interrupt.h>

#include "vrdma_ib.h"

/*
 * The table may still have the number when the device gives it out anew: an object leaves the table
 * after the device has forgotten it. The newer object replaces it.
 */
int vrdma_event_target_add(struct xarray *table, u32 id, struct vrdma_event_target *target)
{
	refcount_set(&target->refs, 1);
	init_completion(&target->idle);
	return xa_err(xa_store_irq(table, id, target, GFP_KERNEL));
}

void vrdma_event_target_put(struct vrdma_event_target *target)
{
	if (refcount_dec_and_test(&target->refs))
		complete(&target->idle);
}

struct vrdma_event_target *vrdma_event_target_get(struct xarray *table, u32 id)
{
	struct vrdma_event_target *target;
	unsigned long flags;

	xa_lock_irqsave(table, flags);
	target = xa_load(table, id);
	if (target)
		refcount_inc(&target->refs);
	xa_unlock_irqrestore(table, flags);
	return target;
}

/* Returns when no event can reach the target any more. */
void vrdma_event_target_remove(struct xarray *table, u32 id, struct vrdma_event_target *target)
{
	xa_cmpxchg_irq(table, id, target, NULL, 0);
	vrdma_event_target_put(target);
	wait_for_completion(&target->idle);
}

static void vrdma_completion_event(struct vrdma_dev *dev, u32 cqn)
{
	struct vrdma_event_target *target = vrdma_event_target_get(&dev->cqs, cqn);
	struct ib_cq *ibcq;

	if (!target)
		return; /* being created or destroyed */
	ibcq = &container_of(target, struct vrdma_cq, target)->ibcq;
	if (ibcq->comp_handler)
		ibcq->comp_handler(ibcq, ibcq->cq_context);
	vrdma_event_target_put(target);
}

/*
 * Has the kernel's CQs polled that have QPs. An owner of a CQ without QPs may be about to free it.
 */
void vrdma_wake_kernel_cqs(struct vrdma_dev *dev)
{
	struct vrdma_event_target *target;
	unsigned long cqn;

	xa_for_each(&dev->cqs, cqn, target) {
		target = vrdma_event_target_get(&dev->cqs, cqn);
		if (!target)
			continue;
		if (vrdma_cq_has_kernel_qps(container_of(target, struct vrdma_cq, target)))
			vrdma_completion_event(dev, cqn);
		vrdma_event_target_put(target);
	}
}

static void vrdma_cq_event(struct vrdma_dev *dev, u32 cqn, enum ib_event_type type)
{
	struct vrdma_event_target *target = vrdma_event_target_get(&dev->cqs, cqn);
	struct ib_event event = { .device = &dev->ibdev, .event = type };

	if (!target)
		return;
	event.element.cq = &container_of(target, struct vrdma_cq, target)->ibcq;
	if (event.element.cq->event_handler)
		event.element.cq->event_handler(&event, event.element.cq->cq_context);
	vrdma_event_target_put(target);
}

static void vrdma_qp_event(struct vrdma_dev *dev, u32 qpn, enum ib_event_type type)
{
	struct vrdma_event_target *target = vrdma_event_target_get(&dev->qps, qpn);
	struct ib_event event = { .device = &dev->ibdev, .event = type };

	if (!target)
		return;
	event.element.qp = &container_of(target, struct vrdma_qp, target)->ibqp;
	if (event.element.qp->event_handler)
		event.element.qp->event_handler(&event, event.element.qp->qp_context);
	vrdma_event_target_put(target);
}

static void vrdma_srq_event(struct vrdma_dev *dev, u32 srqn, enum ib_event_type type)
{
	struct vrdma_event_target *target = vrdma_event_target_get(&dev->srqs, srqn);
	struct ib_event event = { .device = &dev->ibdev, .event = type };

	if (!target)
		return;
	event.element.srq = &container_of(target, struct vrdma_srq, target)->ibsrq;
	if (event.element.srq->event_handler)
		event.element.srq->event_handler(&event, event.element.srq->srq_context);
	vrdma_event_target_put(target);
}

static bool vrdma_eqe_dispatch(void *context, u32 type, u32 id, u64 detail)
{
	struct vrdma_dev *dev = context;

	switch (type) {
	case VRDMA_EQE_COMPLETION:
		vrdma_completion_event(dev, id);
		break;
	case IB_EVENT_CQ_ERR:
		vrdma_cq_event(dev, id, type);
		break;
	case IB_EVENT_QP_FATAL:
	case IB_EVENT_QP_REQ_ERR:
	case IB_EVENT_QP_ACCESS_ERR:
	case IB_EVENT_COMM_EST:
	case IB_EVENT_SQ_DRAINED:
	case IB_EVENT_QP_LAST_WQE_REACHED:
		vrdma_qp_event(dev, id, type);
		break;
	case IB_EVENT_SRQ_LIMIT_REACHED:
		vrdma_srq_event(dev, id, type);
		break;
	case VRDMA_EQE_PAGE_FAULT:
		vrdma_odp_event(dev, id, detail);
		break;
	case IB_EVENT_PORT_ACTIVE:
	case IB_EVENT_PORT_ERR:
		vrdma_dev_set_uplink_up(dev, type == IB_EVENT_PORT_ACTIVE);
		break;
	case IB_EVENT_DEVICE_FATAL:
		vrdma_dev_fail(dev, "the device raised DEVICE_FATAL");
		break;
	default:
		ibdev_warn_ratelimited(&dev->ibdev, "unknown event type %u, object %#x\n", type,
				       id);
	}
	return true;
}

static irqreturn_t vrdma_eq_interrupt(int irq, void *data)
{
	struct vrdma_eq *eq = data;

	vrdma_take_events(eq->buffer, &eq->consumer, NULL, vrdma_eqe_dispatch, eq->dev);
	return IRQ_HANDLED;
}

static int vrdma_eq_init(struct vrdma_dev *dev, struct vrdma_eq *eq, unsigned int vector,
			 const char *name)
{
	struct pci_dev *pdev = dev->fn->pdev;
	struct vrdma_cmd_create_eq arg = {
		.depth = cpu_to_le32(VRDMA_EQ_DEPTH),
		.vector = cpu_to_le32(vector),
	};
	int err;

	eq->dev = dev;
	eq->buffer = dma_alloc_coherent(&pdev->dev, VRDMA_EQ_SIZE, &eq->dma, GFP_KERNEL);
	if (!eq->buffer)
		return -ENOMEM;

	snprintf(eq->irq_name, sizeof(eq->irq_name), "vrdma-%s@%s", name, pci_name(pdev));
	eq->irq = pci_irq_vector(pdev, vector);
	err = request_irq(eq->irq, vrdma_eq_interrupt, IRQF_SHARED, eq->irq_name, eq);
	if (err)
		goto err_free;

	arg.pages = vrdma_contiguous_pages(eq->dma, VRDMA_EQ_SIZE);
	err = vrdma_cmd_create_eq(dev, &arg, &eq->handle);
	if (err)
		goto err_irq;
	return 0;

err_irq:
	free_irq(eq->irq, eq);
err_free:
	dma_free_coherent(&pdev->dev, VRDMA_EQ_SIZE, eq->buffer, eq->dma);
	return err;
}

static void vrdma_eq_cleanup(struct vrdma_eq *eq)
{
	free_irq(eq->irq, eq);
	dma_free_coherent(&eq->dev->fn->pdev->dev, VRDMA_EQ_SIZE, eq->buffer, eq->dma);
}

/* The first event queue that is created in the device is the one for async events. */
int vrdma_eqs_init(struct vrdma_dev *dev)
{
	u32 vectors = dev->fn->id.num_vectors;
	char name[12];
	unsigned int num, i;
	int err;

	num = vrdma_num_comp_eqs(vrdma_num_comp_vectors(vectors), le32_to_cpu(dev->caps.max_eq));
	if (!num)
		return -EIO;
	dev->comp_eqs = kcalloc(num, sizeof(*dev->comp_eqs), GFP_KERNEL);
	if (!dev->comp_eqs)
		return -ENOMEM;

	err = vrdma_eq_init(dev, &dev->async_eq, 0, "async");
	if (err)
		goto err_free;
	for (i = 0; i < num; i++) {
		snprintf(name, sizeof(name), "comp%u", i);
		err = vrdma_eq_init(dev, &dev->comp_eqs[i], vrdma_comp_vector(vectors, i), name);
		if (err)
			goto err_cleanup;
	}
	dev->ibdev.num_comp_vectors = num;
	return 0;

err_cleanup:
	vrdma_dev_quiesce(dev);
	while (i--)
		vrdma_eq_cleanup(&dev->comp_eqs[i]);
	vrdma_eq_cleanup(&dev->async_eq);
err_free:
	kfree(dev->comp_eqs);
	return err;
}

/* The caller has reset the device. Nothing else makes it release the event queues. */
void vrdma_eqs_cleanup(struct vrdma_dev *dev)
{
	unsigned int i = dev->ibdev.num_comp_vectors;

	while (i--)
		vrdma_eq_cleanup(&dev->comp_eqs[i]);
	vrdma_eq_cleanup(&dev->async_eq);
	kfree(dev->comp_eqs);
}
