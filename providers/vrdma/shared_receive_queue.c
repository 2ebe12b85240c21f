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
	for (uint32_t i = 0; i < srq->depth; i++)
		srq->cookies[i].next_free = i + 1;
	srq->free_count = srq->depth;
	pthread_spin_init(&srq->lock, PTHREAD_PROCESS_PRIVATE);
	return 0;
}

void vrdma_shared_receive_queue_destroy(struct vrdma_shared_receive_queue *srq)
{
	pthread_spin_destroy(&srq->lock);
	free(srq->cookies);
}

static int post_one(struct vrdma_shared_receive_queue *srq, const struct ibv_recv_wr *wr)
{
	uint32_t slot = vrdma_ring_slot(srq->head, srq->depth);
	uint8_t *entry = srq->ring + ((size_t)slot << srq->stride_shift);
	struct vrdma_rq_wqe *wqe = (struct vrdma_rq_wqe *)entry;
	uint32_t cookie = srq->first_free;

	if (srq->closed || (uint32_t)wr->num_sge > srq->max_sge)
		return EINVAL;
	if (!srq->free_count)
		return ENOMEM;
	srq->free_count--;
	srq->first_free = srq->cookies[cookie].next_free;
	srq->cookies[cookie].wr_id = wr->wr_id;

	wqe->cookie = htole32(cookie);
	vrdma_write_sges((struct vrdma_sge *)(entry + VRDMA_RQ_PAYLOAD_OFFSET), wr->sg_list,
			 wr->num_sge);
	vrdma_store_release(&wqe->ctrl,
			    VRDMA_SET(VRDMA_WQE_NUM_SGE, (uint32_t)wr->num_sge) |
				    vrdma_ring_phase(srq->head, srq->depth, VRDMA_WQE_PHASE));
	srq->head++;
	return 0;
}

int vrdma_shared_receive(struct vrdma_shared_receive_queue *srq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad_wr)
{
	int ret = 0;

	pthread_spin_lock(&srq->lock);
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

	cookie &= srq->depth - 1;
	pthread_spin_lock(&srq->lock);
	wr_id = srq->cookies[cookie].wr_id;
	srq->cookies[cookie].next_free = srq->first_free;
	srq->first_free = cookie;
	srq->free_count++;
	pthread_spin_unlock(&srq->lock);
	return wr_id;
}
