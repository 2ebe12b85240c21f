/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "completion_queue.h"

#include <stdlib.h>
#include <string.h>

#include "shared_receive_queue.h"

int vrdma_completion_queue_init(struct vrdma_completion_queue *cq, void *buffer, uint32_t depth)
{
	memset(cq, 0, sizeof(*cq));
	cq->control = buffer;
	cq->ring = (struct vrdma_cqe *)((uint8_t *)buffer + VRDMA_QUEUE_CONTROL_SIZE);
	cq->depth = depth;
	cq->buckets = VRDMA_CQ_MIN_BUCKETS;
	cq->table = calloc(cq->buckets, sizeof(*cq->table));
	if (!cq->table)
		return ENOMEM;
	pthread_spin_init(&cq->lock, PTHREAD_PROCESS_PRIVATE);
	return 0;
}

void vrdma_completion_queue_destroy(struct vrdma_completion_queue *cq)
{
	pthread_spin_destroy(&cq->lock);
	free(cq->table);
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

/* Without memory for a larger table the chains grow instead. */
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
		if (le32toh(cqe->qpn) != qp->qpn)
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

	pthread_spin_lock(&cq->lock);
	/* The device gave out the number anew before its last owner's thread came to detach it. */
	stale = vrdma_cq_find(cq, qp->qpn);
	if (stale)
		detach(cq, stale);
	if (cq->links == cq->buckets)
		double_table(cq);
	link->qp = qp;
	insert(cq, link);
	cq->links++;
	pthread_spin_unlock(&cq->lock);
}

void vrdma_cq_detach(struct vrdma_completion_queue *cq, struct vrdma_cq_link *link)
{
	pthread_spin_lock(&cq->lock);
	if (link->qp)
		detach(cq, link);
	pthread_spin_unlock(&cq->lock);
}

void vrdma_cq_strike_out(struct vrdma_completion_queue *cq, const struct vrdma_queue_pair *qp)
{
	pthread_spin_lock(&cq->lock);
	strike_out(cq, qp);
	pthread_spin_unlock(&cq->lock);
}
