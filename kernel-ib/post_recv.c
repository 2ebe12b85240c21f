// SPDX-License-Identifier: GPL-2.0-only
/* Receive requests of the kernel, to QPs and SRQs. */
#include <linux/slab.h>

#include "vrdma_ib.h"

static int vrdma_post_one_recv(struct vrdma_work_queue *rq, const struct ib_recv_wr *wr)
{
	struct vrdma_rq_wqe *wqe;

	if (vrdma_work_queue_full(rq))
		return -ENOMEM;
	if (wr->num_sge > rq->max_sge)
		return -EINVAL;
	wqe = vrdma_wqe_at(rq, rq->head);
	vrdma_write_sges((void *)wqe + VRDMA_RQ_PAYLOAD_OFFSET, wr->sg_list, wr->num_sge);
	vrdma_work_queue_publish(rq, &wqe->ctrl, VRDMA_SET(VRDMA_WQE_NUM_SGE, (u32)wr->num_sge),
				 wr->wr_id);
	return 0;
}

int vrdma_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		    const struct ib_recv_wr **bad_wr)
{
	struct vrdma_qp *qp = to_vrdma_qp(ibqp);
	struct vrdma_work_queue *rq = &qp->rq;
	unsigned long flags;
	u32 first;
	int err = 0;

	spin_lock_irqsave(&rq->lock, flags);
	first = rq->head;
	for (; wr; wr = wr->next) {
		err = vrdma_post_one_recv(rq, wr);
		if (err) {
			*bad_wr = wr;
			break;
		}
	}
	if (rq->head != first)
		vrdma_announce_receives(to_vrdma_dev(ibqp->device), qp);
	spin_unlock_irqrestore(&rq->lock, flags);
	return err;
}

int vrdma_srq_ring_init(struct vrdma_srq *srq)
{
	u32 i;

	spin_lock_init(&srq->lock);
	srq->cookies = kvcalloc(srq->max_wr, sizeof(*srq->cookies), GFP_KERNEL);
	if (!srq->cookies)
		return -ENOMEM;
	for (i = 0; i < srq->max_wr; i++)
		srq->cookies[i].next_free = i + 1;
	srq->free_count = srq->max_wr;
	return 0;
}

/* SRQs of processes have no cookies. */
void vrdma_srq_ring_cleanup(struct vrdma_srq *srq)
{
	kvfree(srq->cookies);
}

/* If there is a free cookie, there is a free place in the ring: see queue.h. */
static int vrdma_post_one_srq_recv(struct vrdma_srq *srq, const struct ib_recv_wr *wr)
{
	size_t slot = vrdma_ring_slot(srq->head, srq->max_wr);
	struct vrdma_rq_wqe *wqe = vrdma_queue_at(&srq->memory, slot << srq->stride_shift);
	u32 cookie = srq->first_free;
	u32 ctrl;

	if (!srq->free_count)
		return -ENOMEM;
	if (wr->num_sge > srq->max_sge)
		return -EINVAL;
	srq->free_count--;
	srq->first_free = srq->cookies[cookie].next_free;
	srq->cookies[cookie].next_free = VRDMA_COOKIE_POSTED;
	srq->cookies[cookie].wr_id = wr->wr_id;

	wqe->cookie = cpu_to_le32(cookie);
	vrdma_write_sges((void *)wqe + VRDMA_RQ_PAYLOAD_OFFSET, wr->sg_list, wr->num_sge);
	ctrl = VRDMA_SET(VRDMA_WQE_NUM_SGE, (u32)wr->num_sge) |
	       vrdma_ring_phase(srq->head, srq->max_wr, VRDMA_WQE_PHASE);
	/* The rest of the WQE is written before its phase. */
	vrdma_store_release(&wqe->ctrl, ctrl);
	srq->head++;
	return 0;
}

int vrdma_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
			const struct ib_recv_wr **bad_wr)
{
	struct vrdma_srq *srq = to_vrdma_srq(ibsrq);
	unsigned long flags;
	int err = 0;

	spin_lock_irqsave(&srq->lock, flags);
	for (; wr; wr = wr->next) {
		err = vrdma_post_one_srq_recv(srq, wr);
		if (err) {
			*bad_wr = wr;
			break;
		}
	}
	spin_unlock_irqrestore(&srq->lock, flags);
	return err;
}

/*
 * Frees the cookie of a WQE that the device says has completed. False if no WQE was posted with it.
 */
bool vrdma_srq_complete(struct vrdma_srq *srq, u32 cookie, u64 *wr_id)
{
	unsigned long flags;
	bool posted;

	if (cookie >= srq->max_wr)
		return false;
	spin_lock_irqsave(&srq->lock, flags);
	posted = srq->cookies[cookie].next_free == VRDMA_COOKIE_POSTED;
	if (posted) {
		*wr_id = srq->cookies[cookie].wr_id;
		srq->cookies[cookie].next_free = srq->first_free;
		srq->first_free = cookie;
		srq->free_count++;
	}
	spin_unlock_irqrestore(&srq->lock, flags);
	return posted;
}
