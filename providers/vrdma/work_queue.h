/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Work queues: the rings of a QP in memory shared with the device, and the state that only the
 * guest has. This code uses neither libibverbs' private interface nor the kernel, so that tests can
 * run it on plain memory.
 *
 * Locking: a thread that posts holds the work queue's lock and reads its tail. A thread that polls
 * holds the lock of the CQ and moves the tail.
 */
#ifndef VRDMA_WORK_QUEUE_H
#define VRDMA_WORK_QUEUE_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <vrdma/queue.h>
#include <vrdma/ring.h>

#include "doorbell.h"
#include "lock.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vrdma_work_queue {
	struct vrdma_lock lock;
	uint32_t head;  /* WQEs posted, free-running */
	uint32_t tail;  /* WQEs completed, free-running */
	uint32_t limit; /* WQEs that may be outstanding: depth, or 0 in states that refuse posts */
	uint32_t depth; /* a power of two, or 0 */
	uint32_t mask;
	uint32_t stride_shift;
	uint32_t max_sge;
	uint8_t *ring;
	uint64_t *wr_id; /* by WQE index */
};

struct vrdma_queue_pair;
struct vrdma_shared_receive_queue;

/* A QP's place in a CQ (completion_queue.h); qp is NULL while it is in none. */
struct vrdma_cq_link {
	struct vrdma_cq_link *next;
	struct vrdma_queue_pair *qp;
};

/* WQEs that ibv_wr_*() have written and that ibv_wr_complete() will show to the device. */
struct vrdma_send_batch {
	uint32_t opcodes; /* bit n: enum vrdma_sq_opcode n */
	uint32_t first;   /* head when the batch began */
	int error;
	struct vrdma_sq_wqe *wqe; /* the last WQE, or NULL after an error */
};

struct vrdma_queue_pair {
	struct vrdma_work_queue sq;
	struct vrdma_work_queue rq;
	struct vrdma_shared_receive_queue *srq; /* used instead of rq, or NULL */
	struct vrdma_qp_control *control;
	struct vrdma_doorbell doorbell;
	uint32_t qpn;
	uint32_t legal_opcodes; /* bit n: enum ibv_wr_opcode n */
	uint32_t sq_ctrl;       /* flags of every send WQE */
	uint32_t max_inline;
	uint8_t payload_offset; /* of a send WQE */
	bool datagram;
	struct vrdma_cq_link send_link;
	struct vrdma_cq_link recv_link; /* unused if both CQs are the same */
	struct vrdma_send_batch batch;
};

struct vrdma_ah {
	struct ibv_ah base;
	uint32_t id; /* number of the AH in WQEs */
};

/* The shape of a QP's buffer, decided before the buffer is allocated. */
struct vrdma_qp_layout {
	uint32_t sq_depth;
	uint32_t rq_depth;
	uint8_t sq_stride_shift;
	uint8_t rq_stride_shift;
};

/* Depth of a ring for this many WQEs; stride of a ring of receive WQEs. */
uint32_t vrdma_ring_depth(uint32_t wqes);
uint8_t vrdma_receive_stride_shift(uint32_t max_sge);

/* Fits the layout to cap, and raises cap to what the layout holds; max_inline is the device's. */
int vrdma_qp_layout_init(struct vrdma_qp_layout *layout, struct ibv_qp_cap *cap,
			 enum ibv_qp_type type, uint32_t max_inline);

/* buffer is zeroed, page-aligned and of vrdma_qp_buffer_size() bytes. Errors are an errno. */
int vrdma_queue_pair_init(struct vrdma_queue_pair *qp, void *buffer,
			  const struct vrdma_qp_layout *layout,
			  const struct ibv_qp_init_attr_ex *init_attr);
void vrdma_queue_pair_destroy(struct vrdma_queue_pair *qp);

/* Allows or refuses posts according to the QP's state (IBA 10.3.1). */
void vrdma_queue_pair_set_state(struct vrdma_queue_pair *qp, enum ibv_qp_state state);

/* Resets the QP to its initial state. No CQ may hold CQEs of the QP any more. */
void vrdma_queue_pair_reset(struct vrdma_queue_pair *qp);

int vrdma_queue_send(struct vrdma_queue_pair *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad_wr);
/* Binds a type 1 window and gives it this key. */
int vrdma_queue_bind(struct vrdma_queue_pair *qp, uint32_t rkey, const struct ibv_mw_bind *bind);
int vrdma_queue_receive(struct vrdma_queue_pair *qp, struct ibv_recv_wr *wr,
			struct ibv_recv_wr **bad_wr);

/*
 * Returns 0 if one more WQE may be posted. The acquire load pairs with the release store of tail:
 * the polling thread has read the wr_id of a place before it frees the place.
 */
static inline int vrdma_wq_check_room(const struct vrdma_work_queue *wq)
{
	if (wq->head - __atomic_load_n(&wq->tail, __ATOMIC_ACQUIRE) < wq->limit)
		return 0;
	return wq->limit ? ENOMEM : EINVAL;
}

static inline void *vrdma_wqe_at(const struct vrdma_work_queue *wq, uint32_t index)
{
	return wq->ring + ((size_t)(index & wq->mask) << wq->stride_shift);
}

static inline uint32_t vrdma_wqe_phase(const struct vrdma_work_queue *wq)
{
	return vrdma_ring_phase(wq->head, wq->depth, VRDMA_WQE_PHASE);
}

/*
 * The thread that posts writes the wr_id, and the thread that polls reads it. The device orders the
 * two accesses. Thread checkers do not know of that order, so the accesses are atomic.
 */
static inline void vrdma_wq_set_wr_id(struct vrdma_work_queue *wq, uint64_t wr_id)
{
	__atomic_store_n(&wq->wr_id[wq->head & wq->mask], wr_id, __ATOMIC_RELAXED);
}

static inline uint64_t vrdma_wq_wr_id(const struct vrdma_work_queue *wq, uint32_t index)
{
	return __atomic_load_n(&wq->wr_id[index & wq->mask], __ATOMIC_RELAXED);
}

/* Hands the WQE at head over to the device. */
static inline void vrdma_wq_publish(struct vrdma_work_queue *wq, __le32 *ctrl, uint32_t value,
				    uint64_t wr_id)
{
	vrdma_wq_set_wr_id(wq, wr_id);
	vrdma_store_release(ctrl, value | vrdma_wqe_phase(wq));
	wq->head++;
}

static inline void vrdma_write_sges(struct vrdma_sge *to, const struct ibv_sge *from, int count)
{
	for (int i = 0; i < count; i++) {
		to[i].addr = htole64(from[i].addr);
		to[i].length = htole32(from[i].length);
		to[i].lkey = htole32(from[i].lkey);
	}
}

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_WORK_QUEUE_H */
