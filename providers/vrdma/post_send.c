/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "send_wqe.h"

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

/* These opcodes change a key and move no data. */
static bool is_local(uint32_t opcode)
{
	return opcode == VRDMA_SQ_LOCAL_INV || opcode == VRDMA_SQ_BIND_MW;
}

static bool is_type_2(const struct ibv_mw *mw)
{
	return mw && mw->type == IBV_MW_TYPE_2;
}

/* The key's upper bytes name the window. The program chooses the low byte. */
static uint32_t new_key(const struct ibv_send_wr *wr)
{
	return (wr->bind_mw.mw->rkey & ~VRDMA_KEY_TAG) | (wr->bind_mw.rkey & VRDMA_KEY_TAG);
}

/* Writes the destination and the key of the WQE. Fields that an opcode does not use are zero. */
static void write_target(const struct vrdma_queue_pair *qp, struct vrdma_sq_wqe *wqe,
			 const struct ibv_send_wr *wr)
{
	if (qp->datagram)
		vrdma_sq_set_datagram(wqe, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
				      wr->wr.ud.remote_qkey);
	else if (is_send(wr->opcode))
		vrdma_sq_set_remote(wqe, 0, 0);
	else if (wr->opcode == IBV_WR_SEND_WITH_INV || wr->opcode == IBV_WR_LOCAL_INV)
		vrdma_sq_set_remote(wqe, wr->invalidate_rkey, 0);
	else if (wr->opcode == IBV_WR_BIND_MW)
		vrdma_sq_set_remote(wqe, new_key(wr), 0);
	else if (is_atomic(wr->opcode))
		vrdma_sq_set_remote(wqe, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr);
	else
		vrdma_sq_set_remote(wqe, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
}

static int write_inline(const struct vrdma_queue_pair *qp, struct vrdma_sq_wqe *wqe,
			const struct ibv_send_wr *wr)
{
	uint32_t length = 0;

	if (wr->num_sge < 0)
		return EINVAL;
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];
		int ret = vrdma_sq_append(vrdma_sq_payload(qp, wqe), qp->max_inline, &length,
					  (const void *)(uintptr_t)sge->addr, sge->length);

		if (ret)
			return ret;
	}
	wqe->length = htole32(length);
	return 0;
}

static int write_atomic(const struct vrdma_queue_pair *qp, struct vrdma_sq_wqe *wqe,
			const struct ibv_send_wr *wr)
{
	uint64_t swap = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? wr->wr.atomic.swap : 0;

	if (wr->num_sge != 1)
		return EINVAL;
	vrdma_write_sges(
		vrdma_sq_set_operands(vrdma_sq_payload(qp, wqe), wr->wr.atomic.compare_add, swap),
		wr->sg_list, 1);
	return 0;
}

static int write_local(const struct vrdma_queue_pair *qp, struct vrdma_sq_wqe *wqe,
		       const struct ibv_send_wr *wr)
{
	if (wr->send_flags & IBV_SEND_INLINE)
		return EINVAL;
	if (wr->opcode == IBV_WR_BIND_MW)
		vrdma_sq_set_bind(vrdma_sq_payload(qp, wqe), &wr->bind_mw.bind_info);
	return 0;
}

/* Writes the WQE at head except for its first word, which is returned in *ctrl. */
static int write_wqe(const struct vrdma_queue_pair *qp, struct vrdma_sq_wqe *wqe,
		     const struct ibv_send_wr *wr, uint32_t *ctrl)
{
	uint32_t opcode = wr->opcode;
	bool in_line = wr->send_flags & IBV_SEND_INLINE;

	if (!vrdma_opcode_legal(qp->legal_opcodes, opcode) || wr->send_flags & ~VRDMA_SEND_FLAGS)
		return EINVAL;
	if (qp->datagram && !wr->wr.ud.ah)
		return EINVAL;
	if (opcode == VRDMA_SQ_BIND_MW && !is_type_2(wr->bind_mw.mw))
		return EINVAL; /* windows of type 1 are bound by ibv_bind_mw() */

	*ctrl = opcode | vrdma_sq_ctrl_flags(wr->send_flags) | qp->sq_ctrl;
	wqe->length = 0;
	wqe->imm = has_immediate(opcode) ? wr->imm_data : 0;
	write_target(qp, wqe, wr);
	if (vrdma_is_xrc(qp))
		vrdma_sq_set_srqn(wqe, wr->qp_type.xrc.remote_srqn);

	if (is_local(opcode))
		return write_local(qp, wqe, wr);
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
		return write_atomic(qp, wqe, wr);
	vrdma_write_sges(vrdma_sq_payload(qp, wqe), wr->sg_list, wr->num_sge);
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

static int post_bind(struct vrdma_queue_pair *qp, uint32_t rkey, const struct ibv_mw_bind *bind)
{
	struct vrdma_work_queue *sq = &qp->sq;
	struct vrdma_sq_wqe *wqe = vrdma_wqe_at(sq, sq->head);
	int ret = vrdma_wq_check_room(sq);

	if (ret)
		return ret;
	if (!vrdma_opcode_legal(qp->legal_opcodes, VRDMA_SQ_BIND_MW) ||
	    bind->send_flags & ~(unsigned int)(VRDMA_SEND_FLAGS & ~IBV_SEND_INLINE))
		return EINVAL;
	wqe->length = 0;
	wqe->imm = 0;
	vrdma_sq_set_remote(wqe, rkey, 0);
	if (vrdma_is_xrc(qp))
		vrdma_sq_set_srqn(wqe, 0);
	vrdma_sq_set_bind(vrdma_sq_payload(qp, wqe), &bind->bind_info);
	vrdma_wq_publish(sq, &wqe->ctrl,
			 VRDMA_SQ_BIND_MW | vrdma_sq_ctrl_flags(bind->send_flags) | qp->sq_ctrl,
			 bind->wr_id);
	return 0;
}

int vrdma_queue_bind(struct vrdma_queue_pair *qp, uint32_t rkey, const struct ibv_mw_bind *bind)
{
	int ret;

	vrdma_lock_take(&qp->sq.lock);
	ret = post_bind(qp, rkey, bind);
	if (!ret)
		vrdma_announce_sends(qp->control, &qp->doorbell);
	vrdma_lock_drop(&qp->sq.lock);
	return ret;
}

int vrdma_queue_send(struct vrdma_queue_pair *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad_wr)
{
	struct vrdma_work_queue *sq = &qp->sq;
	uint32_t first;
	int ret = 0;

	vrdma_lock_take(&sq->lock);
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
	vrdma_lock_drop(&sq->lock);
	return ret;
}
