/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "work_queue.h"

#include <stdlib.h>
#include <string.h>

#define OPCODE(name) VRDMA_BIT(VRDMA_SQ_##name)
#define SEND_OPCODES (OPCODE(SEND) | OPCODE(SEND_WITH_IMM))
#define WRITE_OPCODES (OPCODE(RDMA_WRITE) | OPCODE(RDMA_WRITE_WITH_IMM))
#define READ_OPCODES (OPCODE(RDMA_READ) | OPCODE(ATOMIC_CMP_AND_SWP) | OPCODE(ATOMIC_FETCH_AND_ADD))
#define KEY_OPCODES (OPCODE(LOCAL_INV) | OPCODE(BIND_MW))
#define RELIABLE_OPCODES (READ_OPCODES | OPCODE(SEND_WITH_INV) | OPCODE(ATOMIC_WRITE))

/* WQEs and work requests have the same opcodes. */
#define CHECK_OPCODE(name) static_assert((int)VRDMA_SQ_##name == (int)IBV_WR_##name, #name)
CHECK_OPCODE(RDMA_WRITE);
CHECK_OPCODE(RDMA_WRITE_WITH_IMM);
CHECK_OPCODE(SEND);
CHECK_OPCODE(SEND_WITH_IMM);
CHECK_OPCODE(RDMA_READ);
CHECK_OPCODE(ATOMIC_CMP_AND_SWP);
CHECK_OPCODE(ATOMIC_FETCH_AND_ADD);
CHECK_OPCODE(LOCAL_INV);
CHECK_OPCODE(BIND_MW);
CHECK_OPCODE(SEND_WITH_INV);
CHECK_OPCODE(ATOMIC_WRITE);

static uint32_t legal_opcodes(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
		return SEND_OPCODES | WRITE_OPCODES | KEY_OPCODES | RELIABLE_OPCODES;
	case IBV_QPT_UC:
		return SEND_OPCODES | WRITE_OPCODES | KEY_OPCODES;
	case IBV_QPT_UD:
		return SEND_OPCODES;
	default:
		return 0;
	}
}

/* log2 of value, rounded up, but at least `least`. */
static uint8_t log2_up(uint64_t value, uint8_t least)
{
	uint8_t shift = least;

	while (((uint64_t)1 << shift) < value)
		shift++;
	return shift;
}

uint32_t vrdma_ring_depth(uint32_t wqes)
{
	return wqes ? 1u << log2_up(wqes, 0) : 0;
}

uint8_t vrdma_receive_stride_shift(uint32_t max_sge)
{
	return log2_up(VRDMA_RQ_PAYLOAD_OFFSET + max_sge * sizeof(struct vrdma_sge),
		       VRDMA_RQ_MIN_STRIDE_SHIFT);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static uint8_t payload_offset(enum ibv_qp_type type)
{
	return VRDMA_SQ_PAYLOAD_OFFSET +
	       (type == IBV_QPT_XRC_SEND ? sizeof(struct vrdma_sq_xrc) : 0);
}

int vrdma_qp_layout_init(struct vrdma_qp_layout *layout, struct ibv_qp_cap *cap,
			 enum ibv_qp_type type, uint32_t max_inline)
{
	uint32_t payload;
	uint32_t room;

	if (cap->max_send_wr > VRDMA_MAX_QUEUE_DEPTH || cap->max_recv_wr > VRDMA_MAX_QUEUE_DEPTH ||
	    cap->max_send_sge > VRDMA_MAX_SGE || cap->max_recv_sge > VRDMA_MAX_SGE ||
	    cap->max_inline_data > max_inline)
		return EINVAL;

	payload = larger(cap->max_send_sge * (uint32_t)sizeof(struct vrdma_sge),
			 cap->max_inline_data);
	layout->sq_stride_shift = log2_up((uint64_t)payload_offset(type) + payload,
					  VRDMA_SQ_MIN_STRIDE_SHIFT);
	layout->rq_stride_shift = vrdma_receive_stride_shift(cap->max_recv_sge);
	if (layout->sq_stride_shift > VRDMA_MAX_STRIDE_SHIFT)
		return EINVAL;
	layout->sq_depth = vrdma_ring_depth(cap->max_send_wr);
	layout->rq_depth = vrdma_ring_depth(cap->max_recv_wr);

	room = (1u << layout->sq_stride_shift) - payload_offset(type);
	cap->max_inline_data = room < max_inline ? room : max_inline;
	cap->max_send_wr = layout->sq_depth;
	cap->max_recv_wr = layout->rq_depth;
	return 0;
}

static int work_queue_init(struct vrdma_work_queue *wq, void *ring, uint32_t depth,
			   uint32_t stride_shift, uint32_t max_sge)
{
	wq->ring = ring;
	wq->depth = depth;
	wq->mask = depth ? depth - 1 : 0;
	wq->stride_shift = stride_shift;
	wq->max_sge = max_sge;
	wq->wr_id = calloc(wq->mask + 1, sizeof(*wq->wr_id));
	if (!wq->wr_id)
		return ENOMEM;
	vrdma_lock_init(&wq->lock);
	return 0;
}

static void work_queue_destroy(struct vrdma_work_queue *wq)
{
	vrdma_lock_destroy(&wq->lock);
	free(wq->wr_id);
}

int vrdma_queue_pair_init(struct vrdma_queue_pair *qp, void *buffer,
			  const struct vrdma_qp_layout *layout,
			  const struct ibv_qp_init_attr_ex *init_attr)
{
	uint8_t *bytes = buffer;
	uint64_t sq_offset = vrdma_sq_offset(layout->sq_stride_shift);
	uint64_t rq_offset = vrdma_rq_offset(layout->sq_depth, layout->sq_stride_shift,
					     layout->rq_stride_shift);
	int ret;

	memset(qp, 0, sizeof(*qp));
	qp->control = buffer;
	qp->legal_opcodes = legal_opcodes(init_attr->qp_type);
	qp->sq_ctrl = init_attr->sq_sig_all ? VRDMA_SQ_SIGNALED : 0;
	qp->max_inline = init_attr->cap.max_inline_data;
	qp->datagram = init_attr->qp_type == IBV_QPT_UD;
	qp->payload_offset = payload_offset(init_attr->qp_type);

	ret = work_queue_init(&qp->sq, bytes + sq_offset, layout->sq_depth, layout->sq_stride_shift,
			      init_attr->cap.max_send_sge);
	if (ret)
		return ret;
	ret = work_queue_init(&qp->rq, bytes + rq_offset, layout->rq_depth, layout->rq_stride_shift,
			      init_attr->cap.max_recv_sge);
	if (ret)
		work_queue_destroy(&qp->sq);
	return ret;
}

void vrdma_queue_pair_destroy(struct vrdma_queue_pair *qp)
{
	work_queue_destroy(&qp->rq);
	work_queue_destroy(&qp->sq);
}

static void set_limit(struct vrdma_work_queue *wq, bool posts_allowed)
{
	vrdma_lock_take(&wq->lock);
	wq->limit = posts_allowed ? wq->depth : 0;
	vrdma_lock_drop(&wq->lock);
}

void vrdma_queue_pair_set_state(struct vrdma_queue_pair *qp, enum ibv_qp_state state)
{
	set_limit(&qp->sq, state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_SQE ||
				   state == IBV_QPS_ERR);
	set_limit(&qp->rq, state != IBV_QPS_RESET);
}

static void reset_work_queue(struct vrdma_work_queue *wq)
{
	vrdma_lock_take(&wq->lock);
	memset(wq->ring, 0, (size_t)wq->depth << wq->stride_shift);
	wq->head = 0;
	wq->tail = 0;
	wq->limit = 0;
	vrdma_lock_drop(&wq->lock);
}

void vrdma_queue_pair_reset(struct vrdma_queue_pair *qp)
{
	reset_work_queue(&qp->sq);
	reset_work_queue(&qp->rq);
}
