/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "shared_receive_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "work_queue.h"

int vrdma_srq_layout_init(struct vrdma_srq_layout *layout, struct ibv_srq_attr *attr)
{
	if (!attr->max_wr || attr->max_wr > VRDMA_MAX_QUEUE_DEPTH || attr->max_sge > VRDMA_MAX_SGE)
		return EINVAL;
	layout->depth = vrdma_ring_depth(attr->max_wr);
	layout->stride_shift = vrdma_receive_stride_shift(attr->max_sge);
	attr->max_wr = layout->depth;
	return 0;
}

static void init_locks(struct vrdma_shared_receive_queue *srq)
{
	pthread_spin_init(&srq->lock, PTHREAD_PROCESS_PRIVATE);
	pthread_mutex_init(&srq->move, NULL);
}

/* Links each cookie to its successor in the table. */
static void chain_cookies(union vrdma_cookie *cookies, uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end; i++)
		cookies[i].next_free = i + 1;
}

static struct vrdma_rq_wqe *wqe_at(uint8_t *ring, uint32_t index, uint32_t depth,
				   uint32_t stride_shift)
{
	size_t slot = vrdma_ring_slot(index, depth);

	return (struct vrdma_rq_wqe *)(ring + (slot << stride_shift));
}

int vrdma_shared_receive_queue_init(struct vrdma_shared_receive_queue *srq, void *buffer,
				    const struct vrdma_srq_layout *layout, uint32_t max_sge)
{
	memset(srq, 0, sizeof(*srq));
	srq->ring = buffer;
	srq->depth = layout->depth;
	srq->stride_shift = layout->stride_shift;
	srq->max_sge = max_sge;
	srq->cookies = calloc(srq->depth, sizeof(*srq->cookies));
	if (!srq->cookies)
		return ENOMEM;
	srq->num_cookies = srq->depth;
	chain_cookies(srq->cookies, 0, srq->depth);
	srq->free_count = srq->depth;
	init_locks(srq);
	return 0;
}

void vrdma_shared_receive_queue_destroy(struct vrdma_shared_receive_queue *srq)
{
	pthread_mutex_destroy(&srq->move);
	pthread_spin_destroy(&srq->lock);
	free(srq->cookies);
}

void vrdma_shared_receive_queue_forked(struct vrdma_shared_receive_queue *srq)
{
	init_locks(srq);
	srq->gate = VRDMA_SRQ_CLOSED;
}

uint32_t vrdma_shared_receive_queue_depth(struct vrdma_shared_receive_queue *srq)
{
	uint32_t depth;

	pthread_spin_lock(&srq->lock);
	depth = srq->depth;
	pthread_spin_unlock(&srq->lock);
	return depth;
}

/* Takes the lock, or returns an errno. */
static int begin_post(struct vrdma_shared_receive_queue *srq)
{
	pthread_spin_lock(&srq->lock);
	while (__builtin_expect(srq->gate != VRDMA_SRQ_OPEN, false)) {
		bool closed = srq->gate == VRDMA_SRQ_CLOSED;

		pthread_spin_unlock(&srq->lock);
		if (closed)
			return EINVAL;
		pthread_mutex_lock(&srq->move);
		pthread_mutex_unlock(&srq->move);
		pthread_spin_lock(&srq->lock);
	}
	return 0;
}

static int post_one(struct vrdma_shared_receive_queue *srq, const struct ibv_recv_wr *wr)
{
	struct vrdma_rq_wqe *wqe = wqe_at(srq->ring, srq->head, srq->depth, srq->stride_shift);
	uint32_t cookie = srq->first_free;

	if ((uint32_t)wr->num_sge > srq->max_sge)
		return EINVAL;
	if (!srq->free_count)
		return ENOMEM;
	srq->free_count--;
	srq->first_free = srq->cookies[cookie].next_free;
	srq->cookies[cookie].wr_id = wr->wr_id;

	wqe->cookie = htole32(cookie);
	vrdma_write_sges((struct vrdma_sge *)((uint8_t *)wqe + VRDMA_RQ_PAYLOAD_OFFSET),
			 wr->sg_list, wr->num_sge);
	vrdma_store_release(&wqe->ctrl,
			    VRDMA_SET(VRDMA_WQE_NUM_SGE, (uint32_t)wr->num_sge) |
				    vrdma_ring_phase(srq->head, srq->depth, VRDMA_WQE_PHASE));
	srq->head++;
	return 0;
}

int vrdma_shared_receive(struct vrdma_shared_receive_queue *srq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad_wr)
{
	int ret = begin_post(srq);

	if (ret) {
		*bad_wr = wr;
		return ret;
	}
	for (; wr; wr = wr->next) {
		ret = post_one(srq, wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
	}
	pthread_spin_unlock(&srq->lock);
	return ret;
}

uint64_t vrdma_shared_receive_complete(struct vrdma_shared_receive_queue *srq, uint32_t cookie)
{
	uint64_t wr_id;

	/*
	 * A relaxed load suffices. A cookie of a larger table is posted only after num_cookies was
	 * stored, and it reaches this thread through the device.
	 */
	cookie &= __atomic_load_n(&srq->num_cookies, __ATOMIC_RELAXED) - 1;
	pthread_spin_lock(&srq->lock);
	wr_id = srq->cookies[cookie].wr_id;
	srq->cookies[cookie].next_free = srq->first_free;
	srq->first_free = cookie;
	srq->free_count++;
	pthread_spin_unlock(&srq->lock);
	return wr_id;
}

/* The number of WQEs that were posted and not polled. The caller holds the lock. */
static uint32_t outstanding(const struct vrdma_shared_receive_queue *srq)
{
	return srq->depth - srq->free_count;
}

int vrdma_shared_receive_queue_begin_move(struct vrdma_shared_receive_queue *srq)
{
	bool closed;

	pthread_mutex_lock(&srq->move);
	pthread_spin_lock(&srq->lock);
	closed = srq->gate == VRDMA_SRQ_CLOSED;
	if (!closed)
		srq->gate = VRDMA_SRQ_MOVING;
	pthread_spin_unlock(&srq->lock);
	if (closed)
		pthread_mutex_unlock(&srq->move);
	return closed ? EINVAL : 0;
}

/*
 * Copies the last `wanted` WQEs: these are all that the device may not have taken yet. The other
 * places get the phase of a WQE that the device has already taken.
 */
static void copy_wqes(const struct vrdma_shared_receive_queue *srq,
		      const struct vrdma_srq_move *move, uint32_t wanted)
{
	for (uint32_t i = srq->head - move->depth; i != srq->head; i++) {
		struct vrdma_rq_wqe *to = wqe_at(move->ring, i, move->depth, srq->stride_shift);

		if (srq->head - i <= wanted)
			memcpy(to, wqe_at(srq->ring, i, srq->depth, srq->stride_shift),
			       (size_t)1 << srq->stride_shift);
		to->ctrl = htole32((le32toh(to->ctrl) & ~VRDMA_WQE_PHASE) |
				   vrdma_ring_phase(i, move->depth, VRDMA_WQE_PHASE));
	}
}

int vrdma_shared_receive_queue_prepare(struct vrdma_shared_receive_queue *srq,
				       struct vrdma_srq_move *move, void *buffer, uint32_t depth)
{
	uint32_t wanted;

	*move = (struct vrdma_srq_move){.ring = buffer, .depth = depth};
	pthread_spin_lock(&srq->lock);
	wanted = outstanding(srq);
	pthread_spin_unlock(&srq->lock);
	if (wanted > depth)
		return EINVAL;
	if (depth > srq->num_cookies) {
		move->cookies = calloc(depth, sizeof(*move->cookies));
		if (!move->cookies)
			return ENOMEM;
	}
	copy_wqes(srq, move, wanted);
	return 0;
}

/* Puts the new cookies at the front of the list of free cookies. */
static void add_cookies(struct vrdma_shared_receive_queue *srq, struct vrdma_srq_move *move)
{
	union vrdma_cookie *old = srq->cookies;

	memcpy(move->cookies, old, srq->num_cookies * sizeof(*old));
	chain_cookies(move->cookies, srq->num_cookies, move->depth);
	move->cookies[move->depth - 1].next_free = srq->first_free;
	srq->first_free = srq->num_cookies;
	srq->cookies = move->cookies;
	move->cookies = old;
	__atomic_store_n(&srq->num_cookies, move->depth, __ATOMIC_RELAXED);
}

void vrdma_shared_receive_queue_adopt(struct vrdma_shared_receive_queue *srq,
				      struct vrdma_srq_move *move)
{
	pthread_spin_lock(&srq->lock);
	if (move->cookies)
		add_cookies(srq, move);
	srq->free_count = move->depth - outstanding(srq);
	srq->depth = move->depth;
	srq->ring = move->ring;
	pthread_spin_unlock(&srq->lock);
}

void vrdma_shared_receive_queue_end_move(struct vrdma_shared_receive_queue *srq,
					 struct vrdma_srq_move *move)
{
	pthread_spin_lock(&srq->lock);
	srq->gate = VRDMA_SRQ_OPEN;
	pthread_spin_unlock(&srq->lock);
	pthread_mutex_unlock(&srq->move);
	free(move->cookies);
}
