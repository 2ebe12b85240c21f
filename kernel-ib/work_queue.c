// SPDX-License-Identifier: GPL-2.0-only
/* Work queues of the kernel's QPs: their layout, and the driver's state of them. */
#include <linux/log2.h>
#include <linux/slab.h>

#include "vrdma_ib.h"

static u8 vrdma_stride_shift(size_t wqe_size, u8 least)
{
	return max_t(u8, ilog2(roundup_pow_of_two(wqe_size)), least);
}

u8 vrdma_receive_stride_shift(u32 max_sge)
{
	return vrdma_stride_shift(VRDMA_RQ_PAYLOAD_OFFSET + max_sge * sizeof(struct vrdma_sge),
				  VRDMA_RQ_MIN_STRIDE_SHIFT);
}

/* Each send WQE has room for an address vector or any other data that an opcode needs. */
void vrdma_qp_kernel_layout(struct vrdma_uverbs_create_qp *layout, struct ib_qp_init_attr *attr)
{
	struct ib_qp_cap *cap = &attr->cap;
	size_t sges = cap->max_send_sge * sizeof(struct vrdma_sge);
	size_t payload = max_t(size_t, sges, cap->max_inline_data) + sizeof(struct vrdma_av);

	/* A QP with an SRQ has no receive queue, whatever its user asks for. */
	if (attr->srq) {
		cap->max_recv_wr = 0;
		cap->max_recv_sge = 0;
	}
	payload = max(payload, sizeof(struct vrdma_sq_reg));
	layout->sq_depth = cap->max_send_wr ? roundup_pow_of_two(cap->max_send_wr) : 0;
	layout->rq_depth = cap->max_recv_wr ? roundup_pow_of_two(cap->max_recv_wr) : 0;
	layout->sq_stride_shift =
		vrdma_stride_shift(VRDMA_SQ_PAYLOAD_OFFSET + payload, VRDMA_SQ_MIN_STRIDE_SHIFT);
	layout->rq_stride_shift = vrdma_receive_stride_shift(cap->max_recv_sge);
}

static int vrdma_work_queue_init(struct vrdma_work_queue *wq,
				 const struct vrdma_queue_memory *memory, size_t offset, u32 depth,
				 u8 stride_shift, u32 max_sge)
{
	spin_lock_init(&wq->lock);
	wq->memory = memory;
	wq->offset = offset;
	wq->depth = depth;
	wq->stride_shift = stride_shift;
	wq->max_sge = max_sge;
	if (!depth)
		return 0;
	wq->posted = kvcalloc(depth, sizeof(*wq->posted), GFP_KERNEL);
	return wq->posted ? 0 : -ENOMEM;
}

int vrdma_work_queues_init(struct vrdma_qp *qp, const struct vrdma_uverbs_create_qp *layout)
{
	u64 sq = vrdma_sq_offset(layout->sq_stride_shift);
	u64 rq =
		vrdma_rq_offset(layout->sq_depth, layout->sq_stride_shift, layout->rq_stride_shift);
	int err;

	err = vrdma_work_queue_init(&qp->sq, &qp->memory, sq, layout->sq_depth,
				    layout->sq_stride_shift, qp->cap.max_send_sge);
	if (err)
		return err;
	err = vrdma_work_queue_init(&qp->rq, &qp->memory, rq, layout->rq_depth,
				    layout->rq_stride_shift, qp->cap.max_recv_sge);
	if (err)
		kvfree(qp->sq.posted);
	return err;
}

/* QPs of processes have no shadow entries. */
void vrdma_work_queues_cleanup(struct vrdma_qp *qp)
{
	kvfree(qp->rq.posted);
	kvfree(qp->sq.posted);
}

/* Called before the QP can complete anything. */
void vrdma_work_queues_attach(struct vrdma_qp *qp)
{
	struct vrdma_cq *send_cq = to_vrdma_cq(qp->ibqp.send_cq);
	struct vrdma_cq *recv_cq = to_vrdma_cq(qp->ibqp.recv_cq);

	spin_lock_irq(&send_cq->lock);
	list_add_tail(&qp->send_link, &send_cq->senders);
	spin_unlock_irq(&send_cq->lock);
	spin_lock_irq(&recv_cq->lock);
	list_add_tail(&qp->recv_link, &recv_cq->receivers);
	spin_unlock_irq(&recv_cq->lock);
	WRITE_ONCE(qp->attached, true); /* read under the lock of one of the CQs */
}

static void vrdma_work_queues_strike_out(struct vrdma_qp *qp)
{
	vrdma_cq_strike_out(to_vrdma_cq(qp->ibqp.send_cq), qp);
	if (qp->ibqp.recv_cq != qp->ibqp.send_cq)
		vrdma_cq_strike_out(to_vrdma_cq(qp->ibqp.recv_cq), qp);
}

/* Called when the device does not complete anything any more. Afterwards no CQ knows the QP. */
void vrdma_work_queues_detach(struct vrdma_qp *qp)
{
	struct vrdma_cq *send_cq = to_vrdma_cq(qp->ibqp.send_cq);
	struct vrdma_cq *recv_cq = to_vrdma_cq(qp->ibqp.recv_cq);

	vrdma_work_queues_strike_out(qp);
	/* A thread that has seen it set holds the lock of one of the CQs, which are taken next. */
	WRITE_ONCE(qp->attached, false);
	spin_lock_irq(&send_cq->lock);
	list_del(&qp->send_link);
	spin_unlock_irq(&send_cq->lock);
	spin_lock_irq(&recv_cq->lock);
	list_del(&qp->recv_link);
	spin_unlock_irq(&recv_cq->lock);
}

/* If the device was reset meanwhile, a thread that polls the CQ may be flushing the WQEs. */
static void vrdma_work_queue_reset(struct vrdma_work_queue *wq, struct vrdma_cq *cq)
{
	u32 i;

	spin_lock_irq(&cq->lock);
	spin_lock(&wq->lock);
	for (i = 0; i < wq->depth; i++)
		memset(vrdma_wqe_at(wq, i), 0, BIT(wq->stride_shift));
	wq->head = 0;
	wq->tail = 0;
	spin_unlock(&wq->lock);
	spin_unlock_irq(&cq->lock);
}

/* The QP is in RESET: its queues become as they were when it was created. */
void vrdma_work_queues_reset(struct vrdma_qp *qp)
{
	vrdma_work_queues_strike_out(qp);
	vrdma_work_queue_reset(&qp->sq, to_vrdma_cq(qp->ibqp.send_cq));
	vrdma_work_queue_reset(&qp->rq, to_vrdma_cq(qp->ibqp.recv_cq));
}
