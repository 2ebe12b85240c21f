/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "completion_queue.h"
#include "shared_receive_queue.h"

/* What a send WQE completes as; a CQE with an error does not say it. */
static const enum ibv_wc_opcode wc_opcodes[] = {
	[VRDMA_SQ_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
	[VRDMA_SQ_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
	[VRDMA_SQ_SEND] = IBV_WC_SEND,
	[VRDMA_SQ_SEND_WITH_IMM] = IBV_WC_SEND,
	[VRDMA_SQ_RDMA_READ] = IBV_WC_RDMA_READ,
	[VRDMA_SQ_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
	[VRDMA_SQ_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
};

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
	return wc_opcodes[le32toh(wqe->ctrl) & 7];
}

/* A CQE also completes the unsignaled WQEs before its own. */
static uint64_t complete_wqe(struct vrdma_work_queue *wq, uint32_t index)
{
	uint64_t wr_id = wq->wr_id[index & wq->mask];

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

static bool take_cqe(struct vrdma_completion_queue *cq, const struct vrdma_cqe *cqe, uint32_t ctrl,
		     struct ibv_wc *wc)
{
	uint32_t qpn = le32toh(cqe->qpn);
	struct vrdma_queue_pair *qp = qpn ? find_qp(cq, qpn) : NULL;

	if (!qp)
		return false;
	wc->opcode = opcode_of(qp, cqe, ctrl);
	wc->wr_id = complete(qp, ctrl, le32toh(cqe->wqe_index));
	wc->status = (enum ibv_wc_status)VRDMA_GET(VRDMA_CQE_STATUS, ctrl);
	wc->vendor_err = le32toh(cqe->vendor_err);
	wc->byte_len = le32toh(cqe->byte_len);
	wc->imm_data = cqe->imm;
	wc->qp_num = qpn;
	wc->src_qp = le32toh(cqe->src_qpn);
	wc->wc_flags = (ctrl & VRDMA_CQE_GRH ? IBV_WC_GRH : 0) |
		       (ctrl & VRDMA_CQE_WITH_IMM ? IBV_WC_WITH_IMM : 0);
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

	pthread_spin_lock(&cq->lock);
	consumer = cq->consumer;
	while (taken < num_entries) {
		const struct vrdma_cqe *cqe = vrdma_cqe_at(cq, consumer);
		uint32_t ctrl = vrdma_load_acquire(&cqe->ctrl);

		if (!vrdma_cqe_valid(cq, consumer, ctrl))
			break;
		consumer++;
		if (take_cqe(cq, cqe, ctrl, &wc[taken]))
			taken++;
	}
	if (consumer != cq->consumer) {
		cq->consumer = consumer;
		vrdma_store_release(&cq->control->consumer, consumer);
	}
	pthread_spin_unlock(&cq->lock);
	return taken;
}

/*
 * Each request has a number of its own: with the last one's, an event that is on its way to the
 * program could count as the answer to a request made after it. A request for solicited CQEs does
 * not weaken a pending one for any (IBA 11.4.2.2).
 */
void vrdma_queue_arm(struct vrdma_completion_queue *cq, bool solicited_only)
{
	bool pending_any;
	uint32_t sequence;

	pthread_spin_lock(&cq->lock);
	pending_any = !(cq->arm & VRDMA_CQ_ARM_SOLICITED) &&
		      (cq->arm & VRDMA_CQ_ARM_SEQUENCE) !=
			      (vrdma_load(&cq->control->fired) & VRDMA_CQ_ARM_SEQUENCE);
	sequence = (cq->arm & VRDMA_CQ_ARM_SEQUENCE) + VRDMA_SET(VRDMA_CQ_ARM_SEQUENCE, 1);
	cq->arm = sequence | (solicited_only && !pending_any ? VRDMA_CQ_ARM_SOLICITED : 0);
	vrdma_store_release(&cq->control->arm, cq->arm);
	vrdma_full_fence();
	pthread_spin_unlock(&cq->lock);
}
