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

struct vrdma_completion_queue {
	pthread_spinlock_t lock;
	uint32_t consumer; /* CQEs taken, free-running */
	uint32_t depth;    /* a power of two */
	uint32_t arm;      /* as last written to the control line */
	struct vrdma_cqe *ring;
	struct vrdma_cq_control *control;
	struct vrdma_queue_pair *last_qp; /* the last one found in the table */
	uint32_t links;
	uint32_t buckets; /* a power of two */
	struct vrdma_cq_link **table;
};

static inline uint64_t vrdma_cq_buffer_size(uint32_t depth)
{
	return VRDMA_QUEUE_CONTROL_SIZE + (uint64_t)depth * sizeof(struct vrdma_cqe);
}

/* buffer is zeroed, page-aligned and of vrdma_cq_buffer_size() bytes. Errors are an errno. */
int vrdma_completion_queue_init(struct vrdma_completion_queue *cq, void *buffer, uint32_t depth);
void vrdma_completion_queue_destroy(struct vrdma_completion_queue *cq);

/*
 * Attach before the QP can complete anything. Detach when the device will not complete anything any
 * more: it strikes out the CQEs of the QP that were not polled, too, and WQEs of an SRQ that they
 * tell of become free.
 */
void vrdma_cq_attach(struct vrdma_completion_queue *cq, struct vrdma_cq_link *link,
		     struct vrdma_queue_pair *qp);
void vrdma_cq_detach(struct vrdma_completion_queue *cq, struct vrdma_cq_link *link);
void vrdma_cq_strike_out(struct vrdma_completion_queue *cq, const struct vrdma_queue_pair *qp);

/* Returns how many entries of wc were filled. */
int vrdma_queue_poll(struct vrdma_completion_queue *cq, int num_entries, struct ibv_wc *wc);
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
