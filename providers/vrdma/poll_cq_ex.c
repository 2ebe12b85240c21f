/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Polls an extended CQ (ibv_create_cq_ex(3)). The lock is held and the CQEs stay in the ring from
 * the start of a poll to its end. Values are therefore read directly from the ring.
 */
#include "vrdma.h"

static struct vrdma_cq *cq_of(struct ibv_cq_ex *base)
{
	return to_vrdma_cq(ibv_cq_ex_to_cq(base));
}

static const struct vrdma_taken_cqe *current_of(struct ibv_cq_ex *base)
{
	return &cq_of(base)->queue.current;
}

static int next_poll(struct ibv_cq_ex *base)
{
	const struct vrdma_taken_cqe *current = current_of(base);

	if (!vrdma_queue_next(&cq_of(base)->queue))
		return ENOENT;
	base->wr_id = current->wr_id;
	base->status = (enum ibv_wc_status)VRDMA_GET(VRDMA_CQE_STATUS, current->ctrl);
	return 0;
}

static void end_poll(struct ibv_cq_ex *base)
{
	struct vrdma_completion_queue *queue = &cq_of(base)->queue;

	vrdma_queue_end(queue);
	vrdma_lock_drop(&queue->lock);
}

static int start_poll(struct ibv_cq_ex *base, struct ibv_poll_cq_attr *attr)
{
	struct vrdma_completion_queue *queue = &cq_of(base)->queue;
	int ret;

	if (attr->comp_mask)
		return EINVAL;
	vrdma_cq_take(queue, &queue->lock);
	ret = next_poll(base);
	if (ret)
		end_poll(base);
	return ret;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *base)
{
	return current_of(base)->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *base)
{
	return le32toh(current_of(base)->cqe->vendor_err);
}

static uint32_t read_byte_len(struct ibv_cq_ex *base)
{
	return le32toh(current_of(base)->cqe->byte_len);
}

static __be32 read_imm_data(struct ibv_cq_ex *base)
{
	const struct vrdma_taken_cqe *current = current_of(base);

	return vrdma_cqe_imm(current->cqe, current->ctrl);
}

static uint32_t read_qp_num(struct ibv_cq_ex *base)
{
	return le32toh(current_of(base)->cqe->qpn);
}

static uint32_t read_src_qp(struct ibv_cq_ex *base)
{
	return le32toh(current_of(base)->cqe->src_qpn);
}

static unsigned int read_wc_flags(struct ibv_cq_ex *base)
{
	return vrdma_cqe_wc_flags(current_of(base)->ctrl);
}

/* RoCE has no LIDs. */
static uint32_t read_slid(struct ibv_cq_ex *base)
{
	(void)base;
	return 0;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *base)
{
	(void)base;
	return 0;
}

static uint8_t read_sl(struct ibv_cq_ex *base)
{
	return current_of(base)->cqe->header;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *base)
{
	return le64toh(current_of(base)->cqe->timestamp);
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *base)
{
	return read_completion_ts(base) + cq_of(base)->wallclock_offset;
}

void vrdma_cq_set_readers(struct vrdma_cq *cq)
{
	struct ibv_cq_ex *base = &cq->base.cq_ex;

	base->start_poll = start_poll;
	base->next_poll = next_poll;
	base->end_poll = end_poll;
	base->read_opcode = read_opcode;
	base->read_vendor_err = read_vendor_err;
	base->read_byte_len = read_byte_len;
	base->read_imm_data = read_imm_data;
	base->read_qp_num = read_qp_num;
	base->read_src_qp = read_src_qp;
	base->read_wc_flags = read_wc_flags;
	base->read_slid = read_slid;
	base->read_sl = read_sl;
	base->read_dlid_path_bits = read_dlid_path_bits;
	base->read_completion_ts = read_completion_ts;
	base->read_completion_wallclock_ns = read_completion_wallclock_ns;
}
