/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Functions that write the parts of a send WQE (queue.h), for both ibv_post_send() and ibv_wr_*().
 * Fields that an opcode does not use are zero.
 */
#ifndef VRDMA_SEND_WQE_H
#define VRDMA_SEND_WQE_H

#include <string.h>

#include "work_queue.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Legal send_flags of one work request. */
#define VRDMA_SEND_FLAGS (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE)

static inline uint32_t vrdma_sq_ctrl_flags(unsigned int send_flags)
{
	return (send_flags & IBV_SEND_SIGNALED ? VRDMA_SQ_SIGNALED : 0) |
	       (send_flags & IBV_SEND_SOLICITED ? VRDMA_SQ_SOLICITED : 0) |
	       (send_flags & IBV_SEND_FENCE ? VRDMA_SQ_FENCE : 0);
}

static inline bool vrdma_opcode_legal(uint32_t opcodes, uint32_t opcode)
{
	return opcode <= 31 && opcodes >> opcode & 1;
}

static inline void *vrdma_sq_payload(const struct vrdma_queue_pair *qp, struct vrdma_sq_wqe *wqe)
{
	return (uint8_t *)wqe + qp->payload_offset;
}

static inline void vrdma_sq_set_remote(struct vrdma_sq_wqe *wqe, uint32_t rkey, uint64_t address)
{
	wqe->rkey = htole32(rkey);
	wqe->raddr = htole64(address);
}

static inline void vrdma_sq_set_datagram(struct vrdma_sq_wqe *wqe, const struct ibv_ah *ah,
					 uint32_t qpn, uint32_t qkey)
{
	wqe->qkey = htole32(qkey);
	wqe->ud.ah = htole32(((const struct vrdma_ah *)ah)->id);
	wqe->ud.dest_qpn = htole32(qpn);
}

static inline bool vrdma_is_xrc(const struct vrdma_queue_pair *qp)
{
	return qp->payload_offset != VRDMA_SQ_PAYLOAD_OFFSET;
}

/* Only for the send queue of an XRC QP. */
static inline void vrdma_sq_set_srqn(struct vrdma_sq_wqe *wqe, uint32_t srqn)
{
	struct vrdma_sq_xrc *xrc = (struct vrdma_sq_xrc *)((uint8_t *)wqe +
							   VRDMA_SQ_PAYLOAD_OFFSET);

	xrc->srqn = htole32(srqn);
	xrc->reserved = 0;
}

static inline void vrdma_sq_set_bind(void *payload, const struct ibv_mw_bind_info *info)
{
	struct vrdma_sq_bind *bind = payload;

	bind->addr = htole64(info->addr);
	bind->length = htole64(info->length);
	bind->lkey = htole32(info->mr ? info->mr->lkey : 0);
	bind->access_flags = htole32(info->mw_access_flags);
}

/* Returns the place of the WQE's SGE. */
static inline struct vrdma_sge *vrdma_sq_set_operands(void *payload, uint64_t compare_add,
						      uint64_t swap)
{
	struct vrdma_sq_atomic *operands = payload;

	operands->compare_add = htole64(compare_add);
	operands->swap = htole64(swap);
	return (struct vrdma_sge *)(operands + 1);
}

/* Appends to the WQE's inline data, which has *length bytes so far. */
static inline int vrdma_sq_append(void *payload, uint32_t room, uint32_t *length, const void *data,
				  size_t size)
{
	if (size > room - *length)
		return EINVAL;
	if (size)
		memcpy((uint8_t *)payload + *length, data, size);
	*length += (uint32_t)size;
	return 0;
}

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_SEND_WQE_H */
