/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <string.h>

#include "work_queue.h"

#define LEGAL_FLAGS (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE)

static bool has_immediate(uint32_t opcode)
{
	return opcode == VRDMA_SQ_SEND_WITH_IMM || opcode == VRDMA_SQ_RDMA_WRITE_WITH_IMM;
}

static bool is_send(uint32_t opcode)
{
	return opcode == VRDMA_SQ_SEND || opcode == VRDMA_SQ_SEND_WITH_IMM;
}

static bool is_atomic(uint32_t opcode)
{
	return opcode == VRDMA_SQ_ATOMIC_CMP_AND_SWP || opcode == VRDMA_SQ_ATOMIC_FETCH_AND_ADD;
}

static uint32_t ctrl_flags(unsigned int send_flags)
{
	return (send_flags & IBV_SEND_SIGNALED ? VRDMA_SQ_SIGNALED : 0) |
	       (send_flags & IBV_SEND_SOLICITED ? VRDMA_SQ_SOLICITED : 0) |
	       (send_flags & IBV_SEND_FENCE ? VRDMA_SQ_FENCE : 0);
}

/* Whom the WQE is for; what an opcode does not use is zero. */
static void write_target(const struct vrdma_queue_pair *qp, struct vrdma_sq_wqe *wqe,
			 const struct ibv_send_wr *wr)
{
	if (qp->datagram) {
		wqe->qkey = htole32(wr->wr.ud.remote_qkey);
		wqe->ud.ah = htole32(((const struct vrdma_ah *)wr->wr.ud.ah)->id);
		wqe->ud.dest_qpn = htole32(wr->wr.ud.remote_qpn);
	} else if (is_send(wr->opcode)) {
		wqe->rkey = 0;
		wqe->raddr = 0;
	} else if (is_atomic(wr->opcode)) {
		wqe->rkey = htole32(wr->wr.atomic.rkey);
		wqe->raddr = htole64(wr->wr.atomic.remote_addr);
	} else {
		wqe->rkey = htole32(wr->wr.rdma.rkey);
		wqe->raddr = htole64(wr->wr.rdma.remote_addr);
	}
}

static int write_inline(const struct vrdma_queue_pair *qp, struct vrdma_sq_wqe *wqe,
			const struct ibv_send_wr *wr)
{
	uint8_t *payload = (uint8_t *)wqe + VRDMA_SQ_PAYLOAD_OFFSET;
	uint32_t length = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (sge->length > qp->max_inline - length)
			return EINVAL;
		memcpy(payload + length, (const void *)(uintptr_t)sge->addr, sge->length);
		length += sge->length;
	}
	wqe->length = htole32(length);
	return 0;
}

static int write_atomic(struct vrdma_sq_wqe *wqe, const struct ibv_send_wr *wr)
{
	uint8_t *payload = (uint8_t *)wqe + VRDMA_SQ_PAYLOAD_OFFSET;
	struct vrdma_sq_atomic *operands = (struct vrdma_sq_atomic *)payload;

	if (wr->num_sge != 1)
		return EINVAL;
	operands->compare_add = htole64(wr->wr.atomic.compare_add);
	operands->swap = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? htole64(wr->wr.atomic.swap) : 0;
	vrdma_write_sges((struct vrdma_sge *)(operands + 1), wr->sg_list, 1);
	return 0;
}

/* Writes the WQE at head, all of it but its first word, which is left in *ctrl. */
static int write_wqe(const struct vrdma_queue_pair *qp, struct vrdma_sq_wqe *wqe,
		     const struct ibv_send_wr *wr, uint32_t *ctrl)
{
	uint32_t opcode = wr->opcode;
	bool in_line = wr->send_flags & IBV_SEND_INLINE;
	uint8_t *payload = (uint8_t *)wqe + VRDMA_SQ_PAYLOAD_OFFSET;

	if (opcode > 31 || !(qp->legal_opcodes >> opcode & 1) || wr->send_flags & ~LEGAL_FLAGS)
		return EINVAL;
	if (qp->datagram && !wr->wr.ud.ah)
		return EINVAL;

	*ctrl = opcode | ctrl_flags(wr->send_flags) | qp->sq_ctrl;
	wqe->length = 0;
	wqe->imm = has_immediate(opcode) ? wr->imm_data : 0;
	write_target(qp, wqe, wr);

	if (in_line) {
		if (opcode == VRDMA_SQ_RDMA_READ || is_atomic(opcode))
			return EINVAL;
		*ctrl |= VRDMA_SQ_INLINE;
		return write_inline(qp, wqe, wr);
	}
	if ((uint32_t)wr->num_sge > qp->sq.max_sge)
		return EINVAL;
	*ctrl |= VRDMA_SET(VRDMA_WQE_NUM_SGE, (uint32_t)wr->num_sge);
	if (is_atomic(opcode))
		return write_atomic(wqe, wr);
	vrdma_write_sges((struct vrdma_sge *)payload, wr->sg_list, wr->num_sge);
	return 0;
}

static int post_one(struct vrdma_queue_pair *qp, const struct ibv_send_wr *wr)
{
	struct vrdma_work_queue *sq = &qp->sq;
	struct vrdma_sq_wqe *wqe = vrdma_wqe_at(sq, sq->head);
	uint32_t ctrl;
	int ret;

	ret = vrdma_wq_check_room(sq);
	if (ret)
		return ret;
	ret = write_wqe(qp, wqe, wr, &ctrl);
	if (ret)
		return ret;
	vrdma_wq_publish(sq, &wqe->ctrl, ctrl, wr->wr_id);
	return 0;
}

int vrdma_queue_send(struct vrdma_queue_pair *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad_wr)
{
	struct vrdma_work_queue *sq = &qp->sq;
	uint32_t first;
	int ret = 0;

	pthread_spin_lock(&sq->lock);
	first = sq->head;
	for (; wr; wr = wr->next) {
		ret = post_one(qp, wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
	}
	if (sq->head != first)
		vrdma_announce_sends(qp->control, &qp->doorbell);
	pthread_spin_unlock(&sq->lock);
	return ret;
}
