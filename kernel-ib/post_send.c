// SPDX-License-Identifier: GPL-2.0-only
/* Send requests of the kernel. The device checks the contents of a WQE. */
#include "vrdma_ib.h"

/* A WQE and its work request have the same opcode. */
static_assert(VRDMA_SQ_RDMA_WRITE == (int)IB_WR_RDMA_WRITE);
static_assert(VRDMA_SQ_RDMA_WRITE_WITH_IMM == (int)IB_WR_RDMA_WRITE_WITH_IMM);
static_assert(VRDMA_SQ_SEND == (int)IB_WR_SEND);
static_assert(VRDMA_SQ_SEND_WITH_IMM == (int)IB_WR_SEND_WITH_IMM);
static_assert(VRDMA_SQ_RDMA_READ == (int)IB_WR_RDMA_READ);
static_assert(VRDMA_SQ_ATOMIC_CMP_AND_SWP == (int)IB_WR_ATOMIC_CMP_AND_SWP);
static_assert(VRDMA_SQ_ATOMIC_FETCH_AND_ADD == (int)IB_WR_ATOMIC_FETCH_AND_ADD);
static_assert(VRDMA_SQ_LOCAL_INV == (int)IB_WR_LOCAL_INV);
static_assert(VRDMA_SQ_SEND_WITH_INV == (int)IB_WR_SEND_WITH_INV);
static_assert(VRDMA_SQ_REG_MR == (int)IB_WR_REG_MR);

#define VRDMA_SEND_FLAGS (IB_SEND_FENCE | IB_SEND_SIGNALED | IB_SEND_SOLICITED | IB_SEND_INLINE)

static u32 vrdma_ctrl(const struct vrdma_qp *qp, const struct ib_send_wr *wr)
{
	u32 ctrl = VRDMA_SET(VRDMA_SQ_OPCODE, wr->opcode);

	if (wr->send_flags & IB_SEND_SIGNALED || qp->sq_sig_type == IB_SIGNAL_ALL_WR)
		ctrl |= VRDMA_SQ_SIGNALED;
	if (wr->send_flags & IB_SEND_SOLICITED)
		ctrl |= VRDMA_SQ_SOLICITED;
	if (wr->send_flags & IB_SEND_FENCE)
		ctrl |= VRDMA_SQ_FENCE;
	return ctrl;
}

static int vrdma_write_inline(const struct vrdma_qp *qp, struct vrdma_sq_wqe *wqe, void *payload,
			      const struct ib_send_wr *wr)
{
	u32 length = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		const struct ib_sge *sge = &wr->sg_list[i];

		if (sge->length > qp->cap.max_inline_data - length)
			return -EINVAL;
		memcpy(payload + length, (void *)(uintptr_t)sge->addr, sge->length);
		length += sge->length;
	}
	wqe->length = cpu_to_le32(length);
	return 0;
}

/* Writes the data of most requests: a list of buffers, or their contents. */
static int vrdma_write_data(const struct vrdma_qp *qp, struct vrdma_sq_wqe *wqe, void *payload,
			    const struct ib_send_wr *wr, u32 *ctrl)
{
	if (wr->send_flags & IB_SEND_INLINE) {
		*ctrl |= VRDMA_SQ_INLINE;
		return vrdma_write_inline(qp, wqe, payload, wr);
	}
	if (wr->num_sge > qp->sq.max_sge)
		return -EINVAL;
	*ctrl |= VRDMA_SET(VRDMA_WQE_NUM_SGE, (u32)wr->num_sge);
	vrdma_write_sges(payload, wr->sg_list, wr->num_sge);
	return 0;
}

static int vrdma_write_datagram(const struct vrdma_qp *qp, struct vrdma_sq_wqe *wqe, void *payload,
				const struct ib_send_wr *wr, u32 *ctrl)
{
	const struct ib_ud_wr *ud = ud_wr(wr);

	/* A datagram has its QP's P_Key. For QP1 the MAD layer must have chosen the same one. */
	if (!ud->ah || (qp->ibqp.qp_type == IB_QPT_GSI &&
			ud->pkey_index != to_vrdma_dev(qp->ibqp.device)->pkeys.of_managers))
		return -EINVAL;
	if (wr->opcode == IB_WR_SEND_WITH_IMM)
		wqe->imm = wr->ex.imm_data;
	wqe->qkey = cpu_to_le32(ud->remote_qkey);
	wqe->ud.dest_qpn = cpu_to_le32(ud->remote_qpn);
	*ctrl |= VRDMA_SQ_AV;
	memcpy(payload, &to_vrdma_ah(ud->ah)->av, sizeof(struct vrdma_av));
	return vrdma_write_data(qp, wqe, payload + sizeof(struct vrdma_av), wr, ctrl);
}

static int vrdma_write_atomic(struct vrdma_sq_wqe *wqe, void *payload, const struct ib_send_wr *wr,
			      u32 *ctrl)
{
	const struct ib_atomic_wr *atomic = atomic_wr(wr);
	struct vrdma_sq_atomic *operands = payload;

	if (wr->num_sge != 1)
		return -EINVAL;
	*ctrl |= VRDMA_SET(VRDMA_WQE_NUM_SGE, 1);
	wqe->rkey = cpu_to_le32(atomic->rkey);
	wqe->raddr = cpu_to_le64(atomic->remote_addr);
	operands->compare_add = cpu_to_le64(atomic->compare_add);
	operands->swap = 0;
	if (wr->opcode == IB_WR_ATOMIC_CMP_AND_SWP)
		operands->swap = cpu_to_le64(atomic->swap);
	vrdma_write_sges((struct vrdma_sge *)(operands + 1), wr->sg_list, 1);
	return 0;
}

static int vrdma_write_reg(struct vrdma_sq_wqe *wqe, void *payload, const struct ib_send_wr *wr)
{
	const struct ib_reg_wr *reg = reg_wr(wr);

	wqe->rkey = cpu_to_le32(reg->key);
	vrdma_fast_fill(to_vrdma_mr(reg->mr), reg->access, payload);
	return 0;
}

static int vrdma_write_connected(const struct vrdma_qp *qp, struct vrdma_sq_wqe *wqe, void *payload,
				 const struct ib_send_wr *wr, u32 *ctrl)
{
	switch (wr->opcode) {
	case IB_WR_RDMA_WRITE_WITH_IMM:
		wqe->imm = wr->ex.imm_data;
		fallthrough;
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_READ:
		wqe->rkey = cpu_to_le32(rdma_wr(wr)->rkey);
		wqe->raddr = cpu_to_le64(rdma_wr(wr)->remote_addr);
		return vrdma_write_data(qp, wqe, payload, wr, ctrl);
	case IB_WR_SEND_WITH_IMM:
		wqe->imm = wr->ex.imm_data;
		return vrdma_write_data(qp, wqe, payload, wr, ctrl);
	case IB_WR_SEND_WITH_INV:
		wqe->rkey = cpu_to_le32(wr->ex.invalidate_rkey);
		fallthrough;
	case IB_WR_SEND:
		return vrdma_write_data(qp, wqe, payload, wr, ctrl);
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return vrdma_write_atomic(wqe, payload, wr, ctrl);
	case IB_WR_LOCAL_INV:
		wqe->rkey = cpu_to_le32(wr->ex.invalidate_rkey);
		return 0;
	case IB_WR_REG_MR:
		return vrdma_write_reg(wqe, payload, wr);
	default:
		return -EINVAL;
	}
}

static int vrdma_post_one_send(struct vrdma_qp *qp, const struct ib_send_wr *wr)
{
	struct vrdma_work_queue *sq = &qp->sq;
	struct vrdma_sq_wqe *wqe;
	void *payload;
	u32 ctrl;
	int err;

	if (vrdma_work_queue_full(sq))
		return -ENOMEM;
	if (wr->send_flags & ~VRDMA_SEND_FLAGS)
		return -EINVAL;
	wqe = vrdma_wqe_at(sq, sq->head);
	payload = (void *)wqe + VRDMA_SQ_PAYLOAD_OFFSET;
	ctrl = vrdma_ctrl(qp, wr);
	memset_after(wqe, 0, ctrl);
	if (qp->ibqp.qp_type == IB_QPT_UD || qp->ibqp.qp_type == IB_QPT_GSI)
		err = vrdma_write_datagram(qp, wqe, payload, wr, &ctrl);
	else
		err = vrdma_write_connected(qp, wqe, payload, wr, &ctrl);
	if (err)
		return err;
	vrdma_work_queue_publish(sq, &wqe->ctrl, ctrl, wr->wr_id);
	return 0;
}

int vrdma_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		    const struct ib_send_wr **bad_wr)
{
	struct vrdma_qp *qp = to_vrdma_qp(ibqp);
	struct vrdma_work_queue *sq = &qp->sq;
	unsigned long flags;
	u32 first;
	int err = 0;

	spin_lock_irqsave(&sq->lock, flags);
	first = sq->head;
	for (; wr; wr = wr->next) {
		err = vrdma_post_one_send(qp, wr);
		if (err) {
			*bad_wr = wr;
			break;
		}
	}
	if (sq->head != first)
		vrdma_announce_sends(to_vrdma_dev(ibqp->device), qp);
	spin_unlock_irqrestore(&sq->lock, flags);
	return err;
}
