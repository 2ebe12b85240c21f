// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tells the device's poller about new WQEs of the kernel: the producer's side of the protocol in
 * queue.h.
 */
#include "vrdma_ib.h"

static void vrdma_ring_doorbell(struct vrdma_dev *dev, u32 slot)
{
	const struct vrdma_status_page *status = page_address(dev->status_page);
	void __iomem *page = dev->fn->doorbells;

	writeb(1, page + slot);
	writeb(1, page + (slot >> VRDMA_DOORBELL_LINE_SHIFT));
	vrdma_full_fence(); /* the doorbell is rung before need_kick is read */
	if (vrdma_load(&status->need_kick))
		writel(1, dev->fn->regs + VRDMA_BAR0_KICK_OFFSET);
}

static void vrdma_announce(struct vrdma_dev *dev, struct vrdma_qp *qp, bool polled)
{
	/* The device was reset, so only this completes what is posted to it. */
	if (READ_ONCE(dev->quiesced))
		schedule_work(&dev->flush);
	else if (!polled)
		vrdma_ring_doorbell(dev, qp->doorbell_slot);
}

/* Called after WQEs of the SQ became valid. */
void vrdma_announce_sends(struct vrdma_dev *dev, struct vrdma_qp *qp)
{
	const struct vrdma_qp_control *control = vrdma_queue_at(&qp->memory, 0);

	vrdma_full_fence(); /* the WQEs are valid before sq_polled is read */
	vrdma_announce(dev, qp, vrdma_load(&control->sq_polled));
}

/* Called after WQEs of the RQ became valid. */
void vrdma_announce_receives(struct vrdma_dev *dev, struct vrdma_qp *qp)
{
	const struct vrdma_qp_control *control = vrdma_queue_at(&qp->memory, 0);

	vrdma_full_fence(); /* the WQEs are valid before rq_wanted is read */
	vrdma_announce(dev, qp, !vrdma_load(&control->rq_wanted));
}
