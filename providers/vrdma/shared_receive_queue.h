/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Shared receive queues. As work_queue.h: nothing here knows libibverbs' private interface.
 *
 * WQEs complete in any order, so each has a cookie, which its CQE brings back. As many cookies are
 * there as places in the ring, and the device empties places in order: who has a free cookie has a
 * free place.
 *
 * Locking: the lock is taken last, by who posts and, under the lock of a CQ, by who polls.
 */
#ifndef VRDMA_SHARED_RECEIVE_QUEUE_H
#define VRDMA_SHARED_RECEIVE_QUEUE_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <vrdma/queue.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a cookie stands for; or, of a free one, the next that is free. */
union vrdma_cookie {
	uint64_t wr_id;
	uint32_t next_free;
};

struct vrdma_shared_receive_queue {
	pthread_spinlock_t lock;
	bool closed;    /* refuses posts */
	uint32_t head;  /* WQEs posted, free-running */
	uint32_t depth; /* a power of two */
	uint32_t stride_shift;
	uint32_t max_sge;
	uint32_t free_count;
	uint32_t first_free; /* cookie, while free_count is not 0 */
	uint8_t *ring;
	union vrdma_cookie *cookies;

	/* Of an XRC domain: its number, and its place in its CQ's list. */
	uint32_t srqn;
	struct vrdma_shared_receive_queue *next;
};

/* The shape of an SRQ's buffer, decided before there is one. */
struct vrdma_srq_layout {
	uint32_t depth;
	uint8_t stride_shift;
};

/* Fits the layout to attr, and raises attr to what the layout holds. Errors are an errno. */
int vrdma_srq_layout_init(struct vrdma_srq_layout *layout, struct ibv_srq_attr *attr);

/* buffer is zeroed, page-aligned and of vrdma_srq_buffer_size() bytes. Errors are an errno. */
int vrdma_shared_receive_queue_init(struct vrdma_shared_receive_queue *srq, void *buffer,
				    const struct vrdma_srq_layout *layout, uint32_t max_sge);
void vrdma_shared_receive_queue_destroy(struct vrdma_shared_receive_queue *srq);

int vrdma_shared_receive(struct vrdma_shared_receive_queue *srq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad_wr);

/* The WQE has completed. Returns its wr_id. */
uint64_t vrdma_shared_receive_complete(struct vrdma_shared_receive_queue *srq, uint32_t cookie);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_SHARED_RECEIVE_QUEUE_H */
