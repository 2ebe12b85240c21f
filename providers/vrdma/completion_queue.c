/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "completion_queue.h"

#include <stdlib.h>
#include <string.h>

#include "shared_receive_queue.h"

static struct vrdma_cqe *ring_of(void *buffer)
{
	return (struct vrdma_cqe *)((uint8_t *)buffer + VRDMA_QUEUE_CONTROL_SIZE);
}

static void set_ring(struct vrdma_completion_queue *cq, void *buffer, uint32_t depth)
{
	cq->control = buffer;
	cq->ring = ring_of(buffer);
	cq->depth = depth;
}

static void init_locks(struct vrdma_completion_queue *cq)
{
	vrdma_lock_init(&cq->lock);
	vrdma_lock_init(&cq->arm_lock);
	pthread_mutex_init(&cq->move, NULL);
	cq->moving = false;
}

int vrdma_completion_queue_init(struct vrdma_completion_queue *cq, void *buffer, uint32_t depth)
{
	memset(cq, 0, sizeof(*cq));
	set_ring(cq, buffer, depth);
	cq->buckets = VRDMA_CQ_MIN_BUCKETS;
	cq->table = calloc(cq->buckets, sizeof(*cq->table));
	if (!cq->table)
		return ENOMEM;
	init_locks(cq);
	return 0;
}

void vrdma_completion_queue_destroy(struct vrdma_completion_queue *cq)
{
	pthread_mutex_destroy(&cq->move);
	vrdma_lock_destroy(&cq->arm_lock);
	vrdma_lock_destroy(&cq->lock);
	free(cq->table);
}

void vrdma_completion_queue_single(struct vrdma_completion_queue *cq)
{
	cq->lock.needed = false;
	cq->arm_lock.needed = false;
}

void vrdma_completion_queue_forked(struct vrdma_completion_queue *cq)
{
	const bool needed = cq->lock.needed;

	init_locks(cq);
	if (!needed)
		vrdma_completion_queue_single(cq);
}

static void set_moving(struct vrdma_completion_queue *cq, bool moving)
{
	vrdma_lock_take(&cq->lock);
	vrdma_lock_take(&cq->arm_lock);
	cq->moving = moving;
	vrdma_lock_drop(&cq->arm_lock);
	vrdma_lock_drop(&cq->lock);
}

void vrdma_completion_queue_begin_move(struct vrdma_completion_queue *cq)
{
	pthread_mutex_lock(&cq->move);
	set_moving(cq, true);
}

void vrdma_completion_queue_end_move(struct vrdma_completion_queue *cq)
{
	set_moving(cq, false);
	pthread_mutex_unlock(&cq->move);
}

void vrdma_cq_await_move(struct vrdma_completion_queue *cq, struct vrdma_lock *held)
{
	do {
		vrdma_lock_drop(held);
		pthread_mutex_lock(&cq->move);
		pthread_mutex_unlock(&cq->move);
		vrdma_lock_take(held);
	} while (cq->moving);
}

void vrdma_completion_queue_prepare(const struct vrdma_completion_queue *cq, void *buffer,
				    uint32_t depth)
{
	struct vrdma_cq_control *control = buffer;
	struct vrdma_cqe *ring = ring_of(buffer);

	control->consumer = htole32(cq->consumer);
	control->arm = htole32(cq->arm);
	control->fired = cq->control->fired;
	for (uint32_t i = cq->consumer; i != cq->consumer + depth; i++)
		ring[vrdma_ring_slot(i, depth)].ctrl = htole32(
			vrdma_ring_phase(i, depth, VRDMA_CQE_PHASE) ^ VRDMA_CQE_PHASE);
}

void vrdma_completion_queue_adopt(struct vrdma_completion_queue *cq, void *buffer, uint32_t depth)
{
	struct vrdma_cqe *ring = ring_of(buffer);

	for (uint32_t i = cq->consumer; i != cq->consumer + cq->depth; i++) {
		const struct vrdma_cqe *from = vrdma_cqe_at(cq, i);
		struct vrdma_cqe *to = &ring[vrdma_ring_slot(i, depth)];
		uint32_t ctrl = vrdma_load_acquire(&from->ctrl);

		if (!vrdma_cqe_valid(cq, i, ctrl))
			break;
		*to = *from;
		to->ctrl = htole32((ctrl & ~VRDMA_CQE_PHASE) |
				   vrdma_ring_phase(i, depth, VRDMA_CQE_PHASE));
	}
	set_ring(cq, buffer, depth);
}

static void insert(struct vrdma_completion_queue *cq, struct vrdma_cq_link *link)
{
	struct vrdma_cq_link **bucket = &cq->table[link->qp->qpn & (cq->buckets - 1)];

	link->next = *bucket;
	*bucket = link;
}

static void remove_link(struct vrdma_completion_queue *cq, struct vrdma_cq_link *link)
{
	struct vrdma_cq_link **at = &cq->table[link->qp->qpn & (cq->buckets - 1)];

	while (*at != link)
		at = &(*at)->next;
	*at = link->next;
	if (cq->last_qp == link->qp)
		cq->last_qp = NULL;
	link->qp = NULL;
	cq->links--;
}

/* If there is no memory for a larger table, the hash chains grow instead. */
static void double_table(struct vrdma_completion_queue *cq)
{
	uint32_t old_buckets = cq->buckets;
	struct vrdma_cq_link **old_table = cq->table;
	struct vrdma_cq_link **table = calloc((size_t)old_buckets * 2, sizeof(*table));

	if (!table)
		return;
	cq->table = table;
	cq->buckets = old_buckets * 2;
	for (uint32_t i = 0; i < old_buckets; i++) {
		struct vrdma_cq_link *link = old_table[i];

		while (link) {
			struct vrdma_cq_link *next = link->next;

			insert(cq, link);
			link = next;
		}
	}
	free(old_table);
}

static void strike_out(struct vrdma_completion_queue *cq, const struct vrdma_queue_pair *qp)
{
	for (uint32_t i = cq->consumer; i - cq->consumer < cq->depth; i++) {
		struct vrdma_cqe *cqe = vrdma_cqe_at(cq, i);
		uint32_t ctrl = vrdma_load_acquire(&cqe->ctrl);

		if (!vrdma_cqe_valid(cq, i, ctrl))
			break;
		if (le32toh(cqe->qpn) != qp->qpn || ctrl & VRDMA_CQE_XRC)
			continue;
		cqe->qpn = 0;
		if (qp->srq && ctrl & VRDMA_CQE_RECV)
			vrdma_shared_receive_complete(qp->srq, le32toh(cqe->wqe_index));
	}
}

static void detach(struct vrdma_completion_queue *cq, struct vrdma_cq_link *link)
{
	strike_out(cq, link->qp);
	remove_link(cq, link);
}

void vrdma_cq_attach(struct vrdma_completion_queue *cq, struct vrdma_cq_link *link,
		     struct vrdma_queue_pair *qp)
{
	struct vrdma_cq_link *stale;

	vrdma_cq_take(cq, &cq->lock);
	/* The device reused the number of a destroyed QP that its thread has not detached yet. */
	stale = vrdma_cq_find(cq, qp->qpn);
	if (stale)
		detach(cq, stale);
	if (cq->links == cq->buckets)
		double_table(cq);
	link->qp = qp;
	insert(cq, link);
	cq->links++;
	vrdma_lock_drop(&cq->lock);
}

void vrdma_cq_detach(struct vrdma_completion_queue *cq, struct vrdma_cq_link *link)
{
	vrdma_cq_take(cq, &cq->lock);
	if (link->qp)
		detach(cq, link);
	vrdma_lock_drop(&cq->lock);
}

void vrdma_cq_strike_out(struct vrdma_completion_queue *cq, const struct vrdma_queue_pair *qp)
{
	vrdma_cq_take(cq, &cq->lock);
	strike_out(cq, qp);
	vrdma_lock_drop(&cq->lock);
}

struct vrdma_shared_receive_queue *vrdma_cq_find_srq(struct vrdma_completion_queue *cq,
						     uint32_t srqn)
{
	struct vrdma_shared_receive_queue **at = &cq->xrc_srqs;
	struct vrdma_shared_receive_queue *srq;

	while (*at && (*at)->srqn != srqn)
		at = &(*at)->next;
	srq = *at;
	if (srq && at != &cq->xrc_srqs) {
		*at = srq->next;
		srq->next = cq->xrc_srqs;
		cq->xrc_srqs = srq;
	}
	return srq;
}

void vrdma_cq_attach_srq(struct vrdma_completion_queue *cq, struct vrdma_shared_receive_queue *srq)
{
	vrdma_cq_take(cq, &cq->lock);
	srq->next = cq->xrc_srqs;
	cq->xrc_srqs = srq;
	vrdma_lock_drop(&cq->lock);
}

static void strike_out_srq(struct vrdma_completion_queue *cq, uint32_t srqn)
{
	for (uint32_t i = cq->consumer; i - cq->consumer < cq->depth; i++) {
		struct vrdma_cqe *cqe = vrdma_cqe_at(cq, i);
		uint32_t ctrl = vrdma_load_acquire(&cqe->ctrl);

		if (!vrdma_cqe_valid(cq, i, ctrl))
			break;
		if (ctrl & VRDMA_CQE_XRC && le32toh(cqe->srqn) == srqn)
			cqe->qpn = 0;
	}
}

void vrdma_cq_detach_srq(struct vrdma_completion_queue *cq, struct vrdma_shared_receive_queue *srq)
{
	struct vrdma_shared_receive_queue **at = &cq->xrc_srqs;

	vrdma_cq_take(cq, &cq->lock);
	strike_out_srq(cq, srq->srqn);
	while (*at != srq)
		at = &(*at)->next;
	*at = srq->next;
	vrdma_lock_drop(&cq->lock);
}
