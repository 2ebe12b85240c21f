// SPDX-License-Identifier: GPL-2.0-only
/*
 * Completions of the kernel's requests.
 *
 * A CQE names its QP by number. The QP stays in the device's table until its CQEs have been struck
 * out, and the device does not reuse its number before that. A CQE is accepted only if its WQE is
 * outstanding here, because a wr_id is usually a pointer.
 */
#include "vrdma_ib.h"

/* The completion's opcode for a send WQE; a CQE with an error does not contain it. */
static enum ib_wc_opcode vrdma_send_wc_opcode(const struct vrdma_posted *posted)
{
	switch (VRDMA_GET(VRDMA_SQ_OPCODE, posted->ctrl)) {
	case VRDMA_SQ_RDMA_WRITE:
	case VRDMA_SQ_RDMA_WRITE_WITH_IMM:
		return IB_WC_RDMA_WRITE;
	case VRDMA_SQ_RDMA_READ:
		return IB_WC_RDMA_READ;
	case VRDMA_SQ_ATOMIC_CMP_AND_SWP:
		return IB_WC_COMP_SWAP;
	case VRDMA_SQ_ATOMIC_FETCH_AND_ADD:
		return IB_WC_FETCH_ADD;
	case VRDMA_SQ_LOCAL_INV:
		return IB_WC_LOCAL_INV;
	case VRDMA_SQ_REG_MR:
		return IB_WC_REG_MR;
	default:
		return IB_WC_SEND;
	}
}

/* The posted WQE with that number, or NULL if it was not posted or has completed. */
static const struct vrdma_posted *vrdma_outstanding(struct vrdma_work_queue *wq, u32 index)
{
	/* The head is moved before the device sees the WQE. */
	u32 head = smp_load_acquire(&wq->head);

	if (index - wq->tail >= head - wq->tail)
		return NULL;
	return &wq->posted[vrdma_ring_slot(index, wq->depth)];
}

/* Releases the WQE and the unsignaled WQEs before it. */
static void vrdma_release_wqe(struct vrdma_work_queue *wq, u32 index)
{
	/* A poster may reuse the place only after the shadow entry has been read. */
	smp_store_release(&wq->tail, index + 1);
}

static bool vrdma_send_wc(struct vrdma_qp *qp, u32 index, struct ib_wc *wc)
{
	const struct vrdma_posted *posted = vrdma_outstanding(&qp->sq, index);

	if (!posted)
		return false;
	wc->qp = &qp->ibqp;
	wc->port_num = VRDMA_PORT;
	wc->opcode = vrdma_send_wc_opcode(posted);
	wc->wr_id = posted->wr_id;
	vrdma_release_wqe(&qp->sq, index);
	return true;
}

static bool vrdma_recv_wc(struct vrdma_qp *qp, u32 index, struct ib_wc *wc)
{
	const struct vrdma_posted *posted;

	wc->qp = &qp->ibqp;
	wc->port_num = VRDMA_PORT;
	wc->opcode = IB_WC_RECV;
	if (qp->ibqp.srq)
		return vrdma_srq_complete(to_vrdma_srq(qp->ibqp.srq), index, &wc->wr_id);
	posted = vrdma_outstanding(&qp->rq, index);
	if (!posted)
		return false;
	wc->wr_id = posted->wr_id;
	vrdma_release_wqe(&qp->rq, index);
	return true;
}

static u8 vrdma_network_type(u8 header)
{
	switch (header) {
	case VRDMA_CQE_HEADER_IPV4:
		return RDMA_NETWORK_IPV4;
	case VRDMA_CQE_HEADER_IPV6:
		return RDMA_NETWORK_IPV6;
	default:
		return RDMA_NETWORK_ROCE_V1;
	}
}

static void vrdma_fill_received(const struct vrdma_cqe *cqe, u32 ctrl, struct ib_wc *wc)
{
	if (VRDMA_GET(VRDMA_CQE_OPCODE, ctrl) == IB_WC_RECV_RDMA_WITH_IMM)
		wc->opcode = IB_WC_RECV_RDMA_WITH_IMM;
	if (ctrl & VRDMA_CQE_WITH_IMM) {
		wc->wc_flags |= IB_WC_WITH_IMM;
		wc->ex.imm_data = cqe->imm;
	}
	if (ctrl & VRDMA_CQE_WITH_INV) {
		wc->wc_flags |= IB_WC_WITH_INVALIDATE;
		wc->ex.invalidate_rkey = le32_to_cpu((__force __le32)cqe->imm);
	}
	if (ctrl & VRDMA_CQE_GRH) {
		wc->wc_flags |= IB_WC_GRH | IB_WC_WITH_NETWORK_HDR_TYPE;
		wc->network_hdr_type = vrdma_network_type(cqe->header);
	}
	if (cqe->vlan) { /* ib_core uses it to find the GID that was addressed */
		wc->wc_flags |= IB_WC_WITH_VLAN;
		wc->vlan_id = le16_to_cpu(cqe->vlan);
	}
	wc->src_qp = le32_to_cpu(cqe->src_qpn);
	wc->pkey_index = le16_to_cpu(cqe->pkey_index);
}

/*
 * The QP that a CQE names, if it completes to this CQ. The QP is not freed before it has left the
 * table, and stays attached while the caller holds the CQ's lock.
 */
static struct vrdma_qp *vrdma_cqe_qp(struct vrdma_cq *cq, u32 qpn, bool recv)
{
	struct vrdma_dev *dev = to_vrdma_dev(cq->ibcq.device);
	struct vrdma_event_target *target;
	struct vrdma_qp *qp = NULL;

	lockdep_assert_held(&cq->lock);
	if (!qpn)
		return NULL; /* struck out */
	xa_lock(&dev->qps);
	target = xa_load(&dev->qps, qpn);
	if (target)
		qp = container_of(target, struct vrdma_qp, target);
	if (qp &&
	    (!READ_ONCE(qp->attached) || (recv ? qp->ibqp.recv_cq : qp->ibqp.send_cq) != &cq->ibcq))
		qp = NULL;
	xa_unlock(&dev->qps);
	return qp;
}

/* The device may change the CQE at any time. */
static bool vrdma_take_cqe(struct vrdma_cq *cq, const struct vrdma_cqe *cqe, u32 ctrl,
			   struct ib_wc *wc)
{
	u32 index = vrdma_load(&cqe->wqe_index);
	bool recv = ctrl & VRDMA_CQE_RECV;
	struct vrdma_qp *qp = vrdma_cqe_qp(cq, vrdma_load(&cqe->qpn), recv);

	if (!qp)
		return false;
	memset(wc, 0, sizeof(*wc));
	if (recv ? !vrdma_recv_wc(qp, index, wc) : !vrdma_send_wc(qp, index, wc)) {
		vrdma_dev_fail(to_vrdma_dev(cq->ibcq.device),
			       "a CQE names a WQE that was not posted");
		return false;
	}
	wc->status = VRDMA_GET(VRDMA_CQE_STATUS, ctrl);
	wc->vendor_err = le32_to_cpu(cqe->vendor_err);
	wc->byte_len = le32_to_cpu(cqe->byte_len);
	if (recv)
		vrdma_fill_received(cqe, ctrl, wc);
	return true;
}

static struct vrdma_cqe *vrdma_cqe_at(const struct vrdma_cq *cq, u32 index)
{
	size_t slot = vrdma_ring_slot(index, cq->depth);

	return vrdma_queue_at(&cq->memory, VRDMA_QUEUE_CONTROL_SIZE + (slot << VRDMA_CQE_SHIFT));
}

/* The CQE with that number, and its first word; NULL if it has not been written. */
static struct vrdma_cqe *vrdma_written_cqe(const struct vrdma_cq *cq, u32 index, u32 *ctrl)
{
	struct vrdma_cqe *cqe = vrdma_cqe_at(cq, index);

	/* The rest of the CQE is written before its phase. */
	*ctrl = vrdma_load_acquire(&cqe->ctrl);
	return vrdma_ring_valid(*ctrl, index, cq->depth, VRDMA_CQE_PHASE) ? cqe : NULL;
}

static int vrdma_take_cqes(struct vrdma_cq *cq, int num_entries, struct ib_wc *wc)
{
	struct vrdma_cq_control *control = vrdma_queue_at(&cq->memory, 0);
	u32 consumer = cq->consumer;
	struct vrdma_cqe *cqe;
	int taken = 0;
	u32 ctrl;

	while (taken < num_entries) {
		cqe = vrdma_written_cqe(cq, consumer, &ctrl);
		if (!cqe)
			break;
		consumer++;
		if (vrdma_take_cqe(cq, cqe, ctrl, &wc[taken]))
			taken++;
	}
	if (consumer != cq->consumer) {
		cq->consumer = consumer;
		/* The device may reuse the places only after the CQEs have been read. */
		vrdma_store_release(&control->consumer, consumer);
	}
	return taken;
}

/* If a WQE is outstanding, completes the first one as flushed, and returns true. */
static bool vrdma_flush_one(struct vrdma_qp *qp, struct vrdma_work_queue *wq, struct ib_wc *wc)
{
	/* A poster writes the WQE before it moves the head. */
	if (wq->tail == smp_load_acquire(&wq->head))
		return false;
	memset(wc, 0, sizeof(*wc));
	wc->status = IB_WC_WR_FLUSH_ERR;
	return wq == &qp->sq ? vrdma_send_wc(qp, wq->tail, wc) : vrdma_recv_wc(qp, wq->tail, wc);
}

/* Flushes the WQEs that a reset device has not completed. An SRQ's WQEs are never flushed. */
static int vrdma_flush(struct vrdma_cq *cq, int num_entries, struct ib_wc *wc)
{
	struct vrdma_qp *qp;
	int taken = 0;

	list_for_each_entry(qp, &cq->senders, send_link)
		while (taken < num_entries && vrdma_flush_one(qp, &qp->sq, &wc[taken]))
			taken++;
	list_for_each_entry(qp, &cq->receivers, recv_link)
		while (taken < num_entries && vrdma_flush_one(qp, &qp->rq, &wc[taken]))
			taken++;
	return taken;
}

int vrdma_poll_cq(struct ib_cq *ibcq, int num_entries, struct ib_wc *wc)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibcq->device);
	struct vrdma_cq *cq = to_vrdma_cq(ibcq);
	unsigned long flags;
	int taken;

	spin_lock_irqsave(&cq->lock, flags);
	taken = vrdma_take_cqes(cq, num_entries, wc);
	if (taken < num_entries && READ_ONCE(dev->quiesced))
		taken += vrdma_flush(cq, num_entries - taken, wc + taken);
	spin_unlock_irqrestore(&cq->lock, flags);
	return taken;
}

/* Returns 1 if a CQE came before the request, and the caller asked for that report. */
int vrdma_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags notify)
{
	bool solicited = (notify & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED;
	struct vrdma_cq *cq = to_vrdma_cq(ibcq);
	struct vrdma_cq_control *control = vrdma_queue_at(&cq->memory, 0);
	unsigned long flags;
	bool missed;
	u32 ctrl;

	spin_lock_irqsave(&cq->lock, flags);
	cq->arm = vrdma_cq_next_arm(cq->arm, vrdma_load(&control->fired), solicited);
	WRITE_ONCE(control->arm, cpu_to_le32(cq->arm));
	vrdma_full_fence(); /* armed before the check for earlier CQEs */
	missed = notify & IB_CQ_REPORT_MISSED_EVENTS && vrdma_written_cqe(cq, cq->consumer, &ctrl);
	spin_unlock_irqrestore(&cq->lock, flags);
	return missed;
}

void vrdma_cq_ring_init(struct vrdma_cq *cq, u32 depth)
{
	spin_lock_init(&cq->lock);
	INIT_LIST_HEAD(&cq->senders);
	INIT_LIST_HEAD(&cq->receivers);
	cq->depth = depth;
}

bool vrdma_cq_has_kernel_qps(struct vrdma_cq *cq)
{
	bool empty;

	if (!cq->memory.pages)
		return false;
	spin_lock_irq(&cq->lock);
	empty = list_empty(&cq->senders) && list_empty(&cq->receivers);
	spin_unlock_irq(&cq->lock);
	return !empty;
}

/* Strikes the QP's CQEs out of the CQ. The QP must not complete anything any more. */
void vrdma_cq_strike_out(struct vrdma_cq *cq, struct vrdma_qp *qp)
{
	struct vrdma_cqe *cqe;
	u32 index, ctrl;
	u64 wr_id;

	spin_lock_irq(&cq->lock);
	for (index = cq->consumer; index - cq->consumer < cq->depth; index++) {
		cqe = vrdma_written_cqe(cq, index, &ctrl);
		if (!cqe)
			break;
		if (le32_to_cpu(cqe->qpn) != qp->ibqp.qp_num)
			continue;
		cqe->qpn = 0;
		if (qp->ibqp.srq && ctrl & VRDMA_CQE_RECV)
			vrdma_srq_complete(to_vrdma_srq(qp->ibqp.srq), le32_to_cpu(cqe->wqe_index),
					   &wr_id);
	}
	spin_unlock_irq(&cq->lock);
}
