/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Shared receive queues. As work_queue.h: nothing here knows libibverbs' private interface.
 *
 * WQEs complete in any order, so each has a cookie, which its CQE brings back. As many may be used
 * as there are places in the ring, and the device empties places in order: who may have a cookie
 * has a free place. A cookie stays what it is when the ring is replaced; so their table has as many
 * as the largest ring that there was, and no fewer again.
 *
 * Locking: the lock is taken last, by who posts and, under the lock of a CQ, by who polls. Whoever
 * gives the SRQ another ring does not hold it while the device is asked: `gate` is VRDMA_SRQ_MOVING
 * then, and who posts waits for `move`. Who polls does not wait.
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

/* Whether WQEs may be posted. */
enum vrdma_srq_gate {
	VRDMA_SRQ_OPEN,
	VRDMA_SRQ_MOVING, /* not now */
	VRDMA_SRQ_CLOSED, /* not any more */
};

struct vrdma_shared_receive_queue {
	pthread_spinlock_t lock;
	enum vrdma_srq_gate gate;
	uint32_t head;  /* WQEs posted, free-running */
	uint32_t depth; /* a power of two */
	uint32_t stride_shift;
	uint32_t max_sge;
	uint32_t free_count; /* WQEs that may be posted */
	uint32_t first_free; /* cookie, while free_count is not 0 */
	uint8_t *ring;
	union vrdma_cookie *cookies;
	uint32_t num_cookies; /* a power of two, depth or more */
	pthread_mutex_t move;

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

/* In the child of a fork(): what threads of the parent had locked is not, and nothing can be
 * posted. */
void vrdma_shared_receive_queue_forked(struct vrdma_shared_receive_queue *srq);

/*
 * Moving to another ring (struct vrdma_cmd_resize_srq), during which nobody posts: a buffer as
 * above, of the same stride, is prepared before the device gets it, and adopted after. Preparing
 * fails with EINVAL where the ring is too small for what is outstanding, whether or not the device
 * has taken it. What is prepared is adopted, or dropped.
 */
struct vrdma_srq_move {
	uint8_t *ring;
	uint32_t depth;
	union vrdma_cookie
		*cookies; /* where there have to be more; or, after it, what was before */
};

/* EINVAL if the queue is closed. */
int vrdma_shared_receive_queue_begin_move(struct vrdma_shared_receive_queue *srq);
int vrdma_shared_receive_queue_prepare(struct vrdma_shared_receive_queue *srq,
				       struct vrdma_srq_move *move, void *buffer, uint32_t depth);
void vrdma_shared_receive_queue_adopt(struct vrdma_shared_receive_queue *srq,
				      struct vrdma_srq_move *move);
void vrdma_shared_receive_queue_end_move(struct vrdma_shared_receive_queue *srq,
					 struct vrdma_srq_move *move);

/* As it is at the moment. */
uint32_t vrdma_shared_receive_queue_depth(struct vrdma_shared_receive_queue *srq);

int vrdma_shared_receive(struct vrdma_shared_receive_queue *srq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad_wr);

/* The WQE has completed. Returns its wr_id. */
uint64_t vrdma_shared_receive_complete(struct vrdma_shared_receive_queue *srq, uint32_t cookie);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_SHARED_RECEIVE_QUEUE_H */
