/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * ibv_wr_*(): each function call writes one part of a work request in place.
 *
 * A WQE is first written with the phase that its place already has, so that the device does not see
 * it as valid. ibv_wr_complete() toggles the phases of the WQEs in order. ibv_wr_abort() resets
 * head. The WQEs that it leaves behind still have the old phase, so the device ignores them.
 */
#include "send_wqe.h"
#include "vrdma.h"

#define OPCODE(name) VRDMA_BIT(VRDMA_SQ_##name)
#define INLINE_OPCODES                                                                             \
	(OPCODE(SEND) | OPCODE(SEND_WITH_IMM) | OPCODE(SEND_WITH_INV) | OPCODE(RDMA_WRITE) |       \
	 OPCODE(RDMA_WRITE_WITH_IMM))
#define ATOMIC_OPCODES (OPCODE(ATOMIC_CMP_AND_SWP) | OPCODE(ATOMIC_FETCH_AND_ADD))
#define SGE_OPCODES (INLINE_OPCODES | OPCODE(RDMA_READ) | ATOMIC_OPCODES)

/* Flags of enum ibv_qp_create_send_ops_flags are opcode bits, except that of ATOMIC_WRITE. */
#define SAME_FLAGS VRDMA_MASK(9, 0)
static_assert(IBV_QP_EX_WITH_RDMA_WRITE == OPCODE(RDMA_WRITE), "RDMA_WRITE");
static_assert(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD == OPCODE(ATOMIC_FETCH_AND_ADD), "FETCH_ADD");
static_assert(IBV_QP_EX_WITH_SEND_WITH_INV == OPCODE(SEND_WITH_INV), "SEND_WITH_INV");

static struct vrdma_queue_pair *queues_of(struct ibv_qp_ex *base)
{
	return &to_vrdma_qp(&base->qp_base)->queues;
}

static void fail(struct vrdma_send_batch *batch, int error)
{
	if (!batch->error)
		batch->error = error;
	batch->wqe = NULL;
}

/* Starts a WQE without data. Returns NULL after an error: the batch then writes no more WQEs. */
static struct vrdma_sq_wqe *begin(struct ibv_qp_ex *base, uint32_t opcode)
{
	struct vrdma_queue_pair *qp = queues_of(base);
	struct vrdma_send_batch *batch = &qp->batch;
	struct vrdma_work_queue *sq = &qp->sq;
	int ret = batch->error ? batch->error : vrdma_wq_check_room(sq);
	struct vrdma_sq_wqe *wqe;

	if (!ret &&
	    (!vrdma_opcode_legal(batch->opcodes, opcode) || base->wr_flags & ~VRDMA_SEND_FLAGS))
		ret = EINVAL;
	if (ret) {
		fail(batch, ret);
		return NULL;
	}
	wqe = vrdma_wqe_at(sq, sq->head);
	wqe->ctrl = htole32(opcode | vrdma_sq_ctrl_flags(base->wr_flags) | qp->sq_ctrl |
			    (vrdma_wqe_phase(sq) ^ VRDMA_WQE_PHASE));
	wqe->length = 0;
	wqe->imm = 0;
	vrdma_sq_set_remote(wqe, 0, 0);
	if (vrdma_is_xrc(qp))
		vrdma_sq_set_srqn(wqe, 0);
	vrdma_wq_set_wr_id(sq, base->wr_id);
	sq->head++;
	batch->wqe = wqe;
	return wqe;
}

static void begin_remote(struct ibv_qp_ex *base, uint32_t opcode, uint32_t rkey, uint64_t address,
			 __be32 imm)
{
	struct vrdma_sq_wqe *wqe = begin(base, opcode);

	if (!wqe)
		return;
	wqe->imm = imm;
	vrdma_sq_set_remote(wqe, rkey, address);
}

static void wr_rdma_write(struct ibv_qp_ex *base, uint32_t rkey, uint64_t address)
{
	begin_remote(base, VRDMA_SQ_RDMA_WRITE, rkey, address, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *base, uint32_t rkey, uint64_t address, __be32 imm)
{
	begin_remote(base, VRDMA_SQ_RDMA_WRITE_WITH_IMM, rkey, address, imm);
}

static void wr_rdma_read(struct ibv_qp_ex *base, uint32_t rkey, uint64_t address)
{
	begin_remote(base, VRDMA_SQ_RDMA_READ, rkey, address, 0);
}

static void wr_send(struct ibv_qp_ex *base)
{
	begin(base, VRDMA_SQ_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *base, __be32 imm)
{
	begin_remote(base, VRDMA_SQ_SEND_WITH_IMM, 0, 0, imm);
}

static void wr_send_inv(struct ibv_qp_ex *base, uint32_t rkey)
{
	begin_remote(base, VRDMA_SQ_SEND_WITH_INV, rkey, 0, 0);
}

static void wr_local_inv(struct ibv_qp_ex *base, uint32_t rkey)
{
	begin_remote(base, VRDMA_SQ_LOCAL_INV, rkey, 0, 0);
}

static void begin_atomic(struct ibv_qp_ex *base, uint32_t opcode, uint32_t rkey, uint64_t address,
			 uint64_t compare_add, uint64_t swap)
{
	struct vrdma_sq_wqe *wqe = begin(base, opcode);

	if (!wqe)
		return;
	vrdma_sq_set_remote(wqe, rkey, address);
	vrdma_sq_set_operands(vrdma_sq_payload(queues_of(base), wqe), compare_add, swap);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *base, uint32_t rkey, uint64_t address,
			      uint64_t compare, uint64_t swap)
{
	begin_atomic(base, VRDMA_SQ_ATOMIC_CMP_AND_SWP, rkey, address, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *base, uint32_t rkey, uint64_t address,
				uint64_t add)
{
	begin_atomic(base, VRDMA_SQ_ATOMIC_FETCH_AND_ADD, rkey, address, add, 0);
}

/* The eight bytes are always inline, also if the QP's max_inline is less: they fit into any WQE. */
static void wr_atomic_write(struct ibv_qp_ex *base, uint32_t rkey, uint64_t address,
			    const void *value)
{
	struct vrdma_sq_wqe *wqe = begin(base, VRDMA_SQ_ATOMIC_WRITE);
	const uint32_t size = sizeof(uint64_t);

	if (!wqe)
		return;
	vrdma_sq_set_remote(wqe, rkey, address);
	memcpy(vrdma_sq_payload(queues_of(base), wqe), value, size);
	wqe->length = htole32(size);
	wqe->ctrl |= htole32(VRDMA_SQ_INLINE);
}

static void wr_bind_mw(struct ibv_qp_ex *base, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct vrdma_sq_wqe *wqe = begin(base, VRDMA_SQ_BIND_MW);

	if (!wqe)
		return;
	/* The program chooses only the low byte of the key, and only for a window of type 2. */
	if (!mw || mw->type != IBV_MW_TYPE_2 || (mw->rkey ^ rkey) & ~VRDMA_KEY_TAG) {
		fail(&queues_of(base)->batch, EINVAL);
		return;
	}
	vrdma_sq_set_remote(wqe, rkey, 0);
	vrdma_sq_set_bind(vrdma_sq_payload(queues_of(base), wqe), info);
}

static void wr_set_ud_addr(struct ibv_qp_ex *base, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct vrdma_queue_pair *qp = queues_of(base);

	if (!ah || !qp->datagram)
		fail(&qp->batch, EINVAL);
	if (qp->batch.wqe)
		vrdma_sq_set_datagram(qp->batch.wqe, ah, qpn, qkey);
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *base, uint32_t srqn)
{
	struct vrdma_queue_pair *qp = queues_of(base);

	if (!vrdma_is_xrc(qp))
		fail(&qp->batch, EINVAL);
	if (qp->batch.wqe)
		vrdma_sq_set_srqn(qp->batch.wqe, srqn);
}

/* Returns the last WQE. If its opcode is none of `opcodes`, fails the batch and returns NULL. */
static struct vrdma_sq_wqe *takes_data(struct vrdma_queue_pair *qp, uint32_t opcodes)
{
	struct vrdma_sq_wqe *wqe = qp->batch.wqe;

	if (wqe && !vrdma_opcode_legal(opcodes, le32toh(wqe->ctrl) & VRDMA_SQ_OPCODE))
		fail(&qp->batch, EINVAL);
	return qp->batch.wqe;
}

static void set_data(struct vrdma_sq_wqe *wqe, uint32_t length, uint32_t ctrl)
{
	wqe->length = htole32(length);
	wqe->ctrl = (wqe->ctrl & ~htole32(VRDMA_SQ_INLINE | VRDMA_WQE_NUM_SGE)) | htole32(ctrl);
}

static void wr_set_sge_list(struct ibv_qp_ex *base, size_t count, const struct ibv_sge *list)
{
	struct vrdma_queue_pair *qp = queues_of(base);
	struct vrdma_sq_wqe *wqe = takes_data(qp, SGE_OPCODES);
	uint8_t *sges;
	bool atomic;

	if (!wqe)
		return;
	atomic = vrdma_opcode_legal(ATOMIC_OPCODES, le32toh(wqe->ctrl) & VRDMA_SQ_OPCODE);
	if (count > qp->sq.max_sge || (atomic && count != 1)) {
		fail(&qp->batch, EINVAL);
		return;
	}
	sges = vrdma_sq_payload(qp, wqe);
	if (atomic)
		sges += sizeof(struct vrdma_sq_atomic);
	vrdma_write_sges((struct vrdma_sge *)sges, list, (int)count);
	set_data(wqe, 0, VRDMA_SET(VRDMA_WQE_NUM_SGE, (uint32_t)count));
}

static void wr_set_sge(struct ibv_qp_ex *base, uint32_t lkey, uint64_t address, uint32_t length)
{
	const struct ibv_sge sge = {.addr = address, .length = length, .lkey = lkey};

	wr_set_sge_list(base, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *base, size_t count,
				    const struct ibv_data_buf *list)
{
	struct vrdma_queue_pair *qp = queues_of(base);
	struct vrdma_sq_wqe *wqe = takes_data(qp, INLINE_OPCODES);
	uint32_t length = 0;

	if (!wqe)
		return;
	for (size_t i = 0; i < count; i++) {
		int ret = vrdma_sq_append(vrdma_sq_payload(qp, wqe), qp->max_inline, &length,
					  list[i].addr, list[i].length);

		if (ret) {
			fail(&qp->batch, ret);
			return;
		}
	}
	set_data(wqe, length, VRDMA_SQ_INLINE);
}

static void wr_set_inline_data(struct ibv_qp_ex *base, void *data, size_t length)
{
	const struct ibv_data_buf buffer = {.addr = data, .length = length};

	wr_set_inline_data_list(base, 1, &buffer);
}

static void wr_start(struct ibv_qp_ex *base)
{
	struct vrdma_queue_pair *qp = queues_of(base);

	vrdma_lock_take(&qp->sq.lock);
	qp->batch.first = qp->sq.head;
	qp->batch.error = 0;
	qp->batch.wqe = NULL;
}

static void wr_abort(struct ibv_qp_ex *base)
{
	struct vrdma_queue_pair *qp = queues_of(base);

	qp->sq.head = qp->batch.first;
	vrdma_lock_drop(&qp->sq.lock);
}

static int wr_complete(struct ibv_qp_ex *base)
{
	struct vrdma_queue_pair *qp = queues_of(base);
	struct vrdma_work_queue *sq = &qp->sq;
	int error = qp->batch.error;

	if (error) {
		wr_abort(base);
		return error;
	}
	for (uint32_t i = qp->batch.first; i != sq->head; i++) {
		struct vrdma_sq_wqe *wqe = vrdma_wqe_at(sq, i);

		vrdma_store_release(&wqe->ctrl, le32toh(wqe->ctrl) ^ VRDMA_WQE_PHASE);
	}
	if (sq->head != qp->batch.first)
		vrdma_announce_sends(qp->control, &qp->doorbell);
	vrdma_lock_drop(&sq->lock);
	return 0;
}

int vrdma_qp_set_send_ops(struct vrdma_qp *qp, uint64_t flags)
{
	struct ibv_qp_ex *base = &qp->base.qp_ex;
	uint32_t opcodes = (uint32_t)(flags & SAME_FLAGS);

	if (flags & ~(uint64_t)(SAME_FLAGS | IBV_QP_EX_WITH_ATOMIC_WRITE))
		return EOPNOTSUPP;
	if (flags & IBV_QP_EX_WITH_ATOMIC_WRITE)
		opcodes |= OPCODE(ATOMIC_WRITE);
	if (opcodes & ~qp->queues.legal_opcodes)
		return EOPNOTSUPP;
	qp->queues.batch.opcodes = opcodes;

	base->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	base->wr_atomic_fetch_add = wr_atomic_fetch_add;
	base->wr_atomic_write = wr_atomic_write;
	base->wr_bind_mw = wr_bind_mw;
	base->wr_local_inv = wr_local_inv;
	base->wr_rdma_read = wr_rdma_read;
	base->wr_rdma_write = wr_rdma_write;
	base->wr_rdma_write_imm = wr_rdma_write_imm;
	base->wr_send = wr_send;
	base->wr_send_imm = wr_send_imm;
	base->wr_send_inv = wr_send_inv;
	base->wr_set_ud_addr = wr_set_ud_addr;
	base->wr_set_xrc_srqn = wr_set_xrc_srqn;
	base->wr_set_inline_data = wr_set_inline_data;
	base->wr_set_inline_data_list = wr_set_inline_data_list;
	base->wr_set_sge = wr_set_sge;
	base->wr_set_sge_list = wr_set_sge_list;
	base->wr_start = wr_start;
	base->wr_complete = wr_complete;
	base->wr_abort = wr_abort;
	return 0;
}
