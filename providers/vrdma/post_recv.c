/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "work_queue.h"

static int post_one(struct vrdma_work_queue *rq, const struct ibv_recv_wr *wr)
{
	struct vrdma_rq_wqe *wqe = vrdma_wqe_at(rq, rq->head);
	uint8_t *payload = (uint8_t *)wqe + VRDMA_RQ_PAYLOAD_OFFSET;
	int ret;

	ret = vrdma_wq_check_room(rq);
	if (ret)
		return ret;
	if ((uint32_t)wr->num_sge > rq->max_sge)
		return EINVAL;
	vrdma_write_sges((struct vrdma_sge *)payload, wr->sg_list, wr->num_sge);
	vrdma_wq_publish(rq, &wqe->ctrl, VRDMA_SET(VRDMA_WQE_NUM_SGE, (uint32_t)wr->num_sge),
			 wr->wr_id);
	return 0;
}

int vrdma_queue_receive(struct vrdma_queue_pair *qp, struct ibv_recv_wr *wr,
			struct ibv_recv_wr **bad_wr)
{
	struct vrdma_work_queue *rq = &qp->rq;
	uint32_t first;
	int ret = 0;

	vrdma_lock_take(&rq->lock);
	first = rq->head;
	for (; wr; wr = wr->next) {
		ret = post_one(rq, wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
	}
	if (rq->head != first)
		vrdma_announce_receives(qp->control, &qp->doorbell);
	vrdma_lock_drop(&rq->lock);
	return ret;
}
