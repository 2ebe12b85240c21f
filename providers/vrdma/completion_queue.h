/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Completion queues. As work_queue.h: nothing here knows libibverbs' private interface.
 *
 * A CQE names its QP by number. Each CQ keeps the QPs that complete to it in a hash table of its
 * own, so that its lock covers the table too. QP numbers are random, so their low bits are the
 * hash.
 */
#ifndef VRDMA_COMPLETION_QUEUE_H
#define VRDMA_COMPLETION_QUEUE_H

#include "work_queue.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VRDMA_CQ_MIN_BUCKETS 8

/* A CQE that the consumer has taken, with what is known without it. */
struct vrdma_taken_cqe {
	const struct vrdma_cqe *cqe;
	uint32_t ctrl;
	enum ibv_wc_opcode opcode;
	uint64_t wr_id;
};

/*
 * Two locks. `lock` is held from the start of a poll to its end, between which a program may arm:
 * so arming has one of its own, which is taken after the other. Whoever gives the CQ another ring
 * holds neither meanwhile, as the device is asked for it: `moving` is set under both, and who finds
 * it so waits for `move`.
 */
struct vrdma_completion_queue {
	struct vrdma_lock lock;
	uint32_t consumer; /* CQEs taken, free-running */
	uint32_t depth;    /* a power of two */
	uint32_t arm;      /* as last written to the control line */
	bool moving;
	struct vrdma_cqe *ring;
	struct vrdma_cq_control *control;
	struct vrdma_queue_pair *last_qp; /* the last one found in the table */
	struct vrdma_taken_cqe current;   /* while it is polled by vrdma_queue_next() */
	uint32_t links;
	uint32_t buckets; /* a power of two */
	struct vrdma_cq_link **table;
	struct vrdma_shared_receive_queue *xrc_srqs; /* the one found last is the first */
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

/* All is for one thread. */
void vrdma_completion_queue_single(struct vrdma_completion_queue *cq);

/* In the child of a fork(): what threads of the parent had locked is not. */
void vrdma_completion_queue_forked(struct vrdma_completion_queue *cq);

/*
 * Moving to another ring (struct vrdma_cmd_resize_cq), during which nobody else takes CQEs or arms:
 * a buffer as above is prepared before the device gets it, and adopted, with the CQEs that were not
 * taken, after.
 */
void vrdma_completion_queue_begin_move(struct vrdma_completion_queue *cq);
void vrdma_completion_queue_prepare(const struct vrdma_completion_queue *cq, void *buffer,
				    uint32_t depth);
void vrdma_completion_queue_adopt(struct vrdma_completion_queue *cq, void *buffer, uint32_t depth);
void vrdma_completion_queue_end_move(struct vrdma_completion_queue *cq);

/* Takes `lock` or `arm_lock` anew when nothing moves. */
void vrdma_cq_await_move(struct vrdma_completion_queue *cq, struct vrdma_lock *held);

static inline void vrdma_cq_take(struct vrdma_completion_queue *cq, struct vrdma_lock *lock)
{
	vrdma_lock_take(lock);
	if (__builtin_expect(cq->moving, false))
		vrdma_cq_await_move(cq, lock);
}

/*
 * Attach before the QP can complete anything. Detach when the device will not complete anything any
 * more: it strikes out the CQEs of the QP that were not polled, too, and WQEs of an SRQ that they
 * tell of become free.
 */
void vrdma_cq_attach(struct vrdma_completion_queue *cq, struct vrdma_cq_link *link,
		     struct vrdma_queue_pair *qp);
void vrdma_cq_detach(struct vrdma_completion_queue *cq, struct vrdma_cq_link *link);
void vrdma_cq_strike_out(struct vrdma_completion_queue *cq, const struct vrdma_queue_pair *qp);

/* SRQs of an XRC domain, likewise: their CQEs name them, as the QP may be another process's. */
void vrdma_cq_attach_srq(struct vrdma_completion_queue *cq, struct vrdma_shared_receive_queue *srq);
void vrdma_cq_detach_srq(struct vrdma_completion_queue *cq, struct vrdma_shared_receive_queue *srq);

/* Returns how many entries of wc were filled. */
int vrdma_queue_poll(struct vrdma_completion_queue *cq, int num_entries, struct ibv_wc *wc);

/*
 * One by one (ibv_start_poll(3)), under the lock, which is the caller's to take. The next CQE is in
 * `current` until the one after it or the end; its place is the device's again at the end.
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

/* Immediate data as on the wire, or the key that was invalidated as programs know it. */
static inline __be32 vrdma_cqe_imm(const struct vrdma_cqe *cqe, uint32_t ctrl)
{
	return ctrl & VRDMA_CQE_WITH_INV ? (__be32)le32toh((__le32)cqe->imm) : cqe->imm;
}

/* The SRQ of that number, under the lock, or NULL. */
struct vrdma_shared_receive_queue *vrdma_cq_find_srq(struct vrdma_completion_queue *cq,
						     uint32_t srqn);

/* The link of the QP of that number, under the lock, or NULL. */
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
