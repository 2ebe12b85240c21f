/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Completion queues. Like work_queue.h, this does not use libibverbs' private interface.
 *
 * A CQE names its QP by number. Each CQ has its own hash table of the QPs that complete to it, so
 * that the CQ's lock covers the table too. QP numbers are random, so their low bits serve as hash.
 */
#ifndef VRDMA_COMPLETION_QUEUE_H
#define VRDMA_COMPLETION_QUEUE_H

#include "work_queue.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VRDMA_CQ_MIN_BUCKETS 8

/* A CQE that the consumer has taken, and the values that the CQE itself does not contain. */
struct vrdma_taken_cqe {
	const struct vrdma_cqe *cqe;
	uint32_t ctrl;
	enum ibv_wc_opcode opcode;
	uint64_t wr_id;
};

/*
 * There are two locks. A poll holds `lock` from its start to its end. A program may arm the CQ
 * during a poll, so arming has a lock of its own, `arm_lock`, which is taken after `lock`. A resize
 * holds neither lock while the device executes the command. Instead it sets `moving` under both
 * locks, and other threads that find `moving` set wait for the mutex `move`.
 */
struct vrdma_completion_queue {
	struct vrdma_lock lock;
	uint32_t consumer; /* CQEs taken, free-running */
	uint32_t depth;    /* a power of two */
	uint32_t arm;      /* last value written to the control line */
	bool moving;
	struct vrdma_cqe *ring;
	struct vrdma_cq_control *control;
	struct vrdma_queue_pair *last_qp; /* the last one found in the table */
	struct vrdma_taken_cqe current;   /* the CQE that vrdma_queue_next() took */
	uint32_t links;
	uint32_t buckets; /* a power of two */
	struct vrdma_cq_link **table;
	struct vrdma_shared_receive_queue *xrc_srqs; /* most recently found first */
	struct vrdma_lock arm_lock;
	pthread_mutex_t move;
};

static inline uint64_t vrdma_cq_buffer_size(uint32_t depth)
{
	return VRDMA_QUEUE_CONTROL_SIZE + (uint64_t)depth * sizeof(struct vrdma_cqe);
}

/* buffer is zeroed, page-aligned and of vrdma_cq_buffer_size() bytes. Errors are an errno. */
int vrdma_completion_queue_init(struct vrdma_completion_queue *cq, void *buffer, uint32_t depth);
void vrdma_completion_queue_destroy(struct vrdma_completion_queue *cq);

/* The caller promises to use the CQ from one thread only: no lock is taken. */
void vrdma_completion_queue_single(struct vrdma_completion_queue *cq);

/* In the child of a fork(): unlocks the locks that threads of the parent held. */
void vrdma_completion_queue_forked(struct vrdma_completion_queue *cq);

/*
 * Moves the CQ to another ring (struct vrdma_cmd_resize_cq). No other thread takes CQEs or arms
 * between begin_move and end_move. The caller prepares a buffer (as for init), gives it to the
 * device, and then adopts it. Adopting also copies the CQEs that were not taken.
 */
void vrdma_completion_queue_begin_move(struct vrdma_completion_queue *cq);
void vrdma_completion_queue_prepare(const struct vrdma_completion_queue *cq, void *buffer,
				    uint32_t depth);
void vrdma_completion_queue_adopt(struct vrdma_completion_queue *cq, void *buffer, uint32_t depth);
void vrdma_completion_queue_end_move(struct vrdma_completion_queue *cq);

/* Drops the held `lock` or `arm_lock`, waits for the end of the move, and takes the lock again. */
void vrdma_cq_await_move(struct vrdma_completion_queue *cq, struct vrdma_lock *held);

static inline void vrdma_cq_take(struct vrdma_completion_queue *cq, struct vrdma_lock *lock)
{
	vrdma_lock_take(lock);
	if (__builtin_expect(cq->moving, false))
		vrdma_cq_await_move(cq, lock);
}

/*
 * Attach a QP before it can complete any WQE. Detach it when the device will not complete its WQEs
 * any more. Detaching also strikes out the QP's CQEs that were not polled, and frees the WQEs of an
 * SRQ that these CQEs report.
 */
void vrdma_cq_attach(struct vrdma_completion_queue *cq, struct vrdma_cq_link *link,
		     struct vrdma_queue_pair *qp);
void vrdma_cq_detach(struct vrdma_completion_queue *cq, struct vrdma_cq_link *link);
void vrdma_cq_strike_out(struct vrdma_completion_queue *cq, const struct vrdma_queue_pair *qp);

/* The same for SRQs of an XRC domain. A CQE names the SRQ: its QP may be of another process. */
void vrdma_cq_attach_srq(struct vrdma_completion_queue *cq, struct vrdma_shared_receive_queue *srq);
void vrdma_cq_detach_srq(struct vrdma_completion_queue *cq, struct vrdma_shared_receive_queue *srq);

/* Returns how many entries of wc were filled. */
int vrdma_queue_poll(struct vrdma_completion_queue *cq, int num_entries, struct ibv_wc *wc);

/*
 * Polls CQEs one by one (ibv_start_poll(3)). The caller holds `lock`. vrdma_queue_next() puts the
 * next CQE into `current`, where it stays until the next call or vrdma_queue_end(). Only
 * vrdma_queue_end() gives the places of the CQEs back to the device.
 */
bool vrdma_queue_next(struct vrdma_completion_queue *cq);
void vrdma_queue_end(struct vrdma_completion_queue *cq);

void vrdma_queue_arm(struct vrdma_completion_queue *cq, bool solicited_only);

/* Whether CQE number index has been written. */
static inline bool vrdma_cqe_valid(const struct vrdma_completion_queue *cq, uint32_t index,
				   uint32_t ctrl)
{
	return vrdma_ring_valid(ctrl, index, cq->depth, VRDMA_CQE_PHASE);
}

static inline struct vrdma_cqe *vrdma_cqe_at(const struct vrdma_completion_queue *cq,
					     uint32_t index)
{
	return &cq->ring[index & (cq->depth - 1)];
}

static inline unsigned int vrdma_cqe_wc_flags(uint32_t ctrl)
{
	return (ctrl & VRDMA_CQE_GRH ? IBV_WC_GRH : 0) |
	       (ctrl & VRDMA_CQE_WITH_IMM ? IBV_WC_WITH_IMM : 0) |
	       (ctrl & VRDMA_CQE_WITH_INV ? IBV_WC_WITH_INV : 0);
}

/* Immediate data in network byte order, or the invalidated key in host byte order. */
static inline __be32 vrdma_cqe_imm(const struct vrdma_cqe *cqe, uint32_t ctrl)
{
	return ctrl & VRDMA_CQE_WITH_INV ? (__be32)le32toh((__le32)cqe->imm) : cqe->imm;
}

/* Returns the SRQ with this number, or NULL. The caller holds `lock`. */
struct vrdma_shared_receive_queue *vrdma_cq_find_srq(struct vrdma_completion_queue *cq,
						     uint32_t srqn);

/* Returns the link of the QP with this number, or NULL. The caller holds `lock`. */
static inline struct vrdma_cq_link *vrdma_cq_find(const struct vrdma_completion_queue *cq,
						  uint32_t qpn)
{
	struct vrdma_cq_link *link = cq->table[qpn & (cq->buckets - 1)];

	while (link && link->qp->qpn != qpn)
		link = link->next;
	return link;
}

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_COMPLETION_QUEUE_H */
