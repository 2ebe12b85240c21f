/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "gsi.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "../../send_wqe.h"

#define QPN 1
#define QKEY 0x80010000 /* IBA 10.2.5 */
#define DEPTH 512       /* of either queue; a power of two */
#define RECEIVED_SIZE (VRDMA_UD_GRH_SIZE + VRDMA_MAD_SIZE)
#define BUFFER_SIZE ((uint64_t)DEPTH * RECEIVED_SIZE)
#define DRAIN_MS 100
#define NEXT_HEADER_IBA 27 /* RoCE v1 */

static uint8_t *received_at(const struct vrdma_gsi *gsi, uint64_t index)
{
	return (uint8_t *)gsi->buffer.data + index * RECEIVED_SIZE;
}

static int post_receive(struct vrdma_gsi *gsi, uint64_t index)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)received_at(gsi, index),
		.length = RECEIVED_SIZE,
		.lkey = gsi->lkey,
	};
	struct ibv_recv_wr wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	return vrdma_post_recv(&gsi->qp->base.qp, &wr, &bad);
}

/* --- Creation and destruction --- */

static int alloc_buffer(struct vrdma_gsi *gsi)
{
	struct vrdma_dev *dev = gsi->context.dev;
	struct vrdma_cmd_reg_mr arg = {
		.length = htole64(BUFFER_SIZE),
		.pd = htole32(gsi->pd->handle),
		.access_flags = htole32(IBV_ACCESS_LOCAL_WRITE),
	};
	int ret = vrdma_memory_alloc(&dev->memory, &gsi->buffer, BUFFER_SIZE);

	if (ret)
		return ret;
	arg.start = htole64((uintptr_t)gsi->buffer.data);
	arg.pages = vrdma_contiguous_pages(gsi->buffer.address, BUFFER_SIZE);
	ret = -vrdma_cmd_reg_mr(dev, &arg, &gsi->lkey);
	if (ret)
		vrdma_memory_free(&dev->memory, &gsi->buffer);
	return ret;
}

static void free_buffer(struct vrdma_gsi *gsi)
{
	struct vrdma_dev *dev = gsi->context.dev;

	vrdma_cmd_destroy(dev, VRDMA_ADMIN_DEREG_MR, gsi->lkey);
	vrdma_memory_free(&dev->memory, &gsi->buffer);
}

static int modify(struct vrdma_gsi *gsi, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = {
		.qp_state = state,
		.pkey_index = gsi->context.dev->pkeys.of_managers,
		.port_num = VRDMA_PORT,
		.qkey = QKEY,
	};

	return vrdma_modify_qp(&gsi->qp->base.qp, &attr, IBV_QP_STATE | mask);
}

static int ready(struct vrdma_gsi *gsi)
{
	int ret = modify(gsi, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	for (uint64_t i = 0; i < DEPTH && !ret; i++)
		ret = post_receive(gsi, i);
	if (!ret)
		ret = modify(gsi, IBV_QPS_RTR, 0);
	if (!ret)
		ret = modify(gsi, IBV_QPS_RTS, IBV_QP_SQ_PSN);
	return ret;
}

static int make(struct vrdma_gsi *gsi)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = gsi->cq,
		.recv_cq = gsi->cq,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_recv_sge = 1,
			.max_inline_data = sizeof(struct vrdma_av) + VRDMA_MAD_SIZE},
		.qp_type = (enum ibv_qp_type)VRDMA_QPT_GSI,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = vrdma_create_qp(gsi->pd, &attr);
	int ret;

	if (!qp)
		return errno;
	gsi->qp = to_vrdma_qp(qp);
	ret = ready(gsi);
	if (ret)
		vrdma_destroy_qp(qp);
	return ret;
}

static int start(struct vrdma_gsi *gsi)
{
	int ret;

	gsi->cq = vrdma_create_cq(&gsi->context.base.context, 2 * DEPTH, NULL, 0);
	if (!gsi->cq)
		return errno;
	ret = alloc_buffer(gsi);
	if (ret)
		goto err_cq;
	ret = make(gsi);
	if (ret)
		goto err_buffer;
	vrdma_gsi_arm(gsi);
	return 0;

err_buffer:
	free_buffer(gsi);
err_cq:
	vrdma_destroy_cq(gsi->cq);
	return ret;
}

int vrdma_gsi_start(struct vrdma_gsi *gsi, struct vrdma_dev *dev)
{
	int ret;

	memset(gsi, 0, sizeof(*gsi));
	vrdma_direct_init_context(&gsi->context, dev);
	gsi->context.doorbell_page = &dev->fn.bus->doorbells[0];
	gsi->pd = vrdma_alloc_pd(&gsi->context.base.context);
	if (!gsi->pd)
		return errno;
	ret = start(gsi);
	if (ret)
		vrdma_dealloc_pd(gsi->pd);
	return ret;
}

/* --- Sending and receiving --- */

/* Polls the next successful completion of a receive. Returns false if there is none. */
static bool poll(struct vrdma_gsi *gsi, struct ibv_wc *wc)
{
	while (vrdma_poll_cq(gsi->cq, 1, wc) == 1)
		if (wc->opcode & IBV_WC_RECV && wc->status == IBV_WC_SUCCESS)
			return true;
	return false;
}

static void drain(struct vrdma_gsi *gsi)
{
	const struct vrdma_work_queue *sq = &gsi->qp->queues.sq;
	const struct timespec pause = {.tv_nsec = 1000000};
	struct ibv_wc wc;

	for (int i = 0; i < DRAIN_MS && !vrdma_dev_failed(gsi->context.dev); i++) {
		while (poll(gsi, &wc))
			post_receive(gsi, wc.wr_id);
		if (sq->tail == sq->head)
			break;
		nanosleep(&pause, NULL);
	}
}

void vrdma_gsi_stop(struct vrdma_gsi *gsi)
{
	drain(gsi);
	vrdma_destroy_qp(&gsi->qp->base.qp);
	free_buffer(gsi);
	vrdma_destroy_cq(gsi->cq);
	vrdma_dealloc_pd(gsi->pd);
}

/* The WQE contains the address, so an answer to an arbitrary sender needs no address handle. */
void vrdma_gsi_send(struct vrdma_gsi *gsi, const struct vrdma_av *to, const struct vrdma_mad *mad)
{
	struct vrdma_queue_pair *qp = &gsi->qp->queues;
	struct vrdma_work_queue *sq = &qp->sq;
	struct vrdma_sq_wqe *wqe = vrdma_wqe_at(sq, sq->head);
	uint8_t *payload = vrdma_sq_payload(qp, wqe);

	if (vrdma_wq_check_room(sq))
		return;
	wqe->length = htole32(sizeof(*mad));
	wqe->imm = 0;
	wqe->qkey = htole32(QKEY);
	wqe->ud.ah = 0;
	wqe->ud.dest_qpn = htole32(QPN);
	memcpy(payload, to, sizeof(*to));
	memcpy(payload + sizeof(*to), mad, sizeof(*mad));
	vrdma_wq_publish(
		sq, &wqe->ctrl,
		(uint32_t)VRDMA_SQ_SEND | VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE | VRDMA_SQ_AV, 0);
	vrdma_announce_sends(qp->control, &qp->doorbell);
}

void vrdma_gsi_arm(struct vrdma_gsi *gsi)
{
	vrdma_req_notify_cq(gsi->cq, 0);
}

/* In the GID table, entries of RoCE v1 and v2 alternate. */
static bool find_gid(const struct vrdma_gids *gids, const uint8_t *gid, bool v2, uint8_t *index)
{
	for (unsigned int i = v2; i < gids->count; i += 2) {
		if (memcmp(gids->entries[i].raw, gid, 16) == 0) {
			*index = (uint8_t)i;
			return true;
		}
	}
	return false;
}

/* An IPv4 header is the last 20 of the 40 bytes. */
bool vrdma_gsi_sender(const struct vrdma_gids *gids, const uint8_t *grh, struct vrdma_av *sender)
{
	const bool ipv6 = grh[0] >> 4 == 6;
	uint8_t own[16];

	memset(sender, 0, sizeof(*sender));
	sender->port_num = VRDMA_PORT;
	sender->hop_limit = VRDMA_CM_HOP_LIMIT;
	if (ipv6) {
		memcpy(sender->dgid, grh + 8, 16);
		memcpy(own, grh + 24, 16);
	} else if (grh[20] >> 4 == 4) {
		vrdma_map_ipv4(sender->dgid, grh + 20 + 12);
		vrdma_map_ipv4(own, grh + 20 + 16);
	} else {
		return false;
	}
	return find_gid(gids, own, !ipv6 || grh[6] != NEXT_HEADER_IBA, &sender->sgid_index);
}

bool vrdma_gsi_receive(struct vrdma_gsi *gsi, struct vrdma_gsi_message *message)
{
	struct ibv_wc wc;

	while (poll(gsi, &wc)) {
		const uint8_t *received = received_at(gsi, wc.wr_id);
		bool good = wc.byte_len == RECEIVED_SIZE && wc.src_qp == QPN &&
			    vrdma_gsi_sender(&gsi->context.dev->gids, received, &message->sender);

		memcpy(&message->mad, received + VRDMA_UD_GRH_SIZE, sizeof(message->mad));
		post_receive(gsi, wc.wr_id);
		if (good)
			return true;
	}
	return false;
}
