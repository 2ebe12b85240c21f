/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "completion_queue.h"
#include "shared_receive_queue.h"

/* Completion opcodes of send WQEs. A CQE with an error does not contain its opcode. */
static const enum ibv_wc_opcode wc_opcodes[] = {
	[VRDMA_SQ_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
	[VRDMA_SQ_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
	[VRDMA_SQ_SEND] = IBV_WC_SEND,
	[VRDMA_SQ_SEND_WITH_IMM] = IBV_WC_SEND,
	[VRDMA_SQ_RDMA_READ] = IBV_WC_RDMA_READ,
	[VRDMA_SQ_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
	[VRDMA_SQ_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
	[VRDMA_SQ_LOCAL_INV] = IBV_WC_LOCAL_INV,
	[VRDMA_SQ_BIND_MW] = IBV_WC_BIND_MW,
	[VRDMA_SQ_SEND_WITH_INV] = IBV_WC_SEND,
	[VRDMA_SQ_ATOMIC_WRITE] = IBV_WC_ATOMIC_WRITE,
};
static_assert(sizeof(wc_opcodes) / sizeof(wc_opcodes[0]) == 16, "opcodes of four bits");

static struct vrdma_queue_pair *find_qp(struct vrdma_completion_queue *cq, uint32_t qpn)
{
	struct vrdma_cq_link *link;

	if (cq->last_qp && cq->last_qp->qpn == qpn)
		return cq->last_qp;
	link = vrdma_cq_find(cq, qpn);
	if (!link)
		return NULL;
	cq->last_qp = link->qp;
	return link->qp;
}

static enum ibv_wc_opcode opcode_of(const struct vrdma_queue_pair *qp, const struct vrdma_cqe *cqe,
				    uint32_t ctrl)
{
	const struct vrdma_sq_wqe *wqe;

	if (!(ctrl & VRDMA_CQE_STATUS))
		return (enum ibv_wc_opcode)VRDMA_GET(VRDMA_CQE_OPCODE, ctrl);
	if (ctrl & VRDMA_CQE_RECV)
		return IBV_WC_RECV;
	wqe = vrdma_wqe_at(&qp->sq, le32toh(cqe->wqe_index));
	return wc_opcodes[le32toh(wqe->ctrl) & 15];
}

/* A CQE also completes the unsignaled WQEs before its own. */
static uint64_t complete_wqe(struct vrdma_work_queue *wq, uint32_t index)
{
	uint64_t wr_id = vrdma_wq_wr_id(wq, index);

	__atomic_store_n(&wq->tail, index + 1, __ATOMIC_RELEASE);
	return wr_id;
}

static uint64_t complete(struct vrdma_queue_pair *qp, uint32_t ctrl, uint32_t index)
{
	if (!(ctrl & VRDMA_CQE_RECV))
		return complete_wqe(&qp->sq, index);
	if (qp->srq)
		return vrdma_shared_receive_complete(qp->srq, index);
	return complete_wqe(&qp->rq, index);
}

/* Returns false if the CQE's SRQ is not attached to this CQ. */
static bool take_xrc(struct vrdma_completion_queue *cq, const struct vrdma_cqe *cqe, uint32_t ctrl,
		     struct vrdma_taken_cqe *taken)
{
	struct vrdma_shared_receive_queue *srq = vrdma_cq_find_srq(cq, le32toh(cqe->srqn));

	if (!srq)
		return false;
	taken->cqe = cqe;
	taken->ctrl = ctrl;
	taken->opcode = ctrl & VRDMA_CQE_STATUS
				? IBV_WC_RECV
				: (enum ibv_wc_opcode)VRDMA_GET(VRDMA_CQE_OPCODE, ctrl);
	taken->wr_id = vrdma_shared_receive_complete(srq, le32toh(cqe->wqe_index));
	return true;
}

/* Returns false if the CQE was struck out, or if its QP is not attached to this CQ. */
static inline bool take(struct vrdma_completion_queue *cq, const struct vrdma_cqe *cqe,
			uint32_t ctrl, struct vrdma_taken_cqe *taken)
{
	uint32_t qpn = le32toh(cqe->qpn);
	struct vrdma_queue_pair *qp;

	if (qpn && ctrl & VRDMA_CQE_XRC)
		return take_xrc(cq, cqe, ctrl, taken);
	qp = qpn ? find_qp(cq, qpn) : NULL;
	if (!qp)
		return false;
	taken->cqe = cqe;
	taken->ctrl = ctrl;
	taken->opcode = opcode_of(qp, cqe, ctrl);
	taken->wr_id = complete(qp, ctrl, le32toh(cqe->wqe_index));
	return true;
}

static inline bool take_wc(struct vrdma_completion_queue *cq, const struct vrdma_cqe *cqe,
			   uint32_t ctrl, struct ibv_wc *wc)
{
	struct vrdma_taken_cqe taken;

	if (!take(cq, cqe, ctrl, &taken))
		return false;
	wc->opcode = taken.opcode;
	wc->wr_id = taken.wr_id;
	wc->status = (enum ibv_wc_status)VRDMA_GET(VRDMA_CQE_STATUS, ctrl);
	wc->vendor_err = le32toh(cqe->vendor_err);
	wc->byte_len = le32toh(cqe->byte_len);
	wc->imm_data = vrdma_cqe_imm(cqe, ctrl);
	wc->qp_num = le32toh(cqe->qpn);
	wc->src_qp = le32toh(cqe->src_qpn);
	wc->wc_flags = vrdma_cqe_wc_flags(ctrl);
	wc->pkey_index = le16toh(cqe->pkey_index);
	wc->slid = 0;
	wc->sl = cqe->header;
	wc->dlid_path_bits = 0;
	return true;
}

int vrdma_queue_poll(struct vrdma_completion_queue *cq, int num_entries, struct ibv_wc *wc)
{
	uint32_t consumer;
	int taken = 0;

	vrdma_cq_take(cq, &cq->lock);
	consumer = cq->consumer;
	while (taken < num_entries) {
		const struct vrdma_cqe *cqe = vrdma_cqe_at(cq, consumer);
		uint32_t ctrl = vrdma_load_acquire(&cqe->ctrl);

		if (!vrdma_cqe_valid(cq, consumer, ctrl))
			break;
		consumer++;
		if (take_wc(cq, cqe, ctrl, &wc[taken]))
			taken++;
	}
	if (consumer != cq->consumer) {
		cq->consumer = consumer;
		vrdma_store_release(&cq->control->consumer, consumer);
	}
	vrdma_lock_drop(&cq->lock);
	return taken;
}

bool vrdma_queue_next(struct vrdma_completion_queue *cq)
{
	for (;;) {
		const struct vrdma_cqe *cqe = vrdma_cqe_at(cq, cq->consumer);
		uint32_t ctrl = vrdma_load_acquire(&cqe->ctrl);

		if (!vrdma_cqe_valid(cq, cq->consumer, ctrl))
			return false;
		cq->consumer++;
		if (take(cq, cqe, ctrl, &cq->current))
			return true;
	}
}

void vrdma_queue_end(struct vrdma_completion_queue *cq)
{
	cq->current.cqe = NULL;
	vrdma_store_release(&cq->control->consumer, cq->consumer);
}

void vrdma_queue_arm(struct vrdma_completion_queue *cq, bool solicited_only)
{
	vrdma_cq_take(cq, &cq->arm_lock);
	cq->arm = vrdma_cq_next_arm(cq->arm, vrdma_load(&cq->control->fired), solicited_only);
	vrdma_store_release(&cq->control->arm, cq->arm);
	vrdma_full_fence();
	vrdma_lock_drop(&cq->arm_lock);
}
