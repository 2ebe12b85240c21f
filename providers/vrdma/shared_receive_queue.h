/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Shared receive queues. Like work_queue.h, this does not use libibverbs' private interface.
 *
 * WQEs complete in any order. Each WQE therefore has a cookie, which its CQE returns. At most as
 * many cookies are in use as the ring has places, and the device empties places in order. A thread
 * that gets a cookie thus also has a free place. Cookies keep their values when the ring is
 * replaced. Their table has as many entries as the largest ring so far, and never shrinks.
 *
 * Locking: the lock is the innermost one. Threads that post take it, and so do threads that poll,
 * while they hold the lock of a CQ. A resize does not hold it while the device executes the
 * command. `gate` is VRDMA_SRQ_MOVING during that time, and threads that post wait for the mutex
 * `move`. Threads that poll do not wait.
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

/* The wr_id that a cookie stands for, or the free cookie after a free one. */
union vrdma_cookie {
	uint64_t wr_id;
	uint32_t next_free;
};

/* Whether WQEs may be posted. */
enum vrdma_srq_gate {
	VRDMA_SRQ_OPEN,
	VRDMA_SRQ_MOVING, /* not until the move ends */
	VRDMA_SRQ_CLOSED, /* never again */
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

	/* For an SRQ of an XRC domain: its number, and the link of its CQ's list. */
	uint32_t srqn;
	struct vrdma_shared_receive_queue *next;
};

/* The shape of an SRQ's buffer, decided before the buffer is allocated. */
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

/* In the child of a fork(): unlocks what threads of the parent held, and refuses all posts. */
void vrdma_shared_receive_queue_forked(struct vrdma_shared_receive_queue *srq);

/*
 * Moves the SRQ to another ring (struct vrdma_cmd_resize_srq). Threads cannot post between
 * begin_move and end_move. The caller prepares a buffer (as for init, and of the same stride),
 * gives it to the device, and then adopts it. Preparing fails with EINVAL if the ring is too small
 * for the outstanding WQEs, whether or not the device has taken them. If the device refuses the
 * buffer, the caller does not adopt it.
 */
struct vrdma_srq_move {
	uint8_t *ring;
	uint32_t depth;
	union vrdma_cookie *cookies; /* the larger table, or NULL; after adopting, the old table */
};

/* EINVAL if the queue is closed. */
int vrdma_shared_receive_queue_begin_move(struct vrdma_shared_receive_queue *srq);
int vrdma_shared_receive_queue_prepare(struct vrdma_shared_receive_queue *srq,
				       struct vrdma_srq_move *move, void *buffer, uint32_t depth);
void vrdma_shared_receive_queue_adopt(struct vrdma_shared_receive_queue *srq,
				      struct vrdma_srq_move *move);
void vrdma_shared_receive_queue_end_move(struct vrdma_shared_receive_queue *srq,
					 struct vrdma_srq_move *move);

/* Returns the current depth. */
uint32_t vrdma_shared_receive_queue_depth(struct vrdma_shared_receive_queue *srq);

int vrdma_shared_receive(struct vrdma_shared_receive_queue *srq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad_wr);

/* Frees the cookie of a WQE that has completed. Returns the WQE's wr_id. */
uint64_t vrdma_shared_receive_complete(struct vrdma_shared_receive_queue *srq, uint32_t cookie);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_SHARED_RECEIVE_QUEUE_H */
