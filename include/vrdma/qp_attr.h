/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A QP's attributes for a command, and the field that each bit of attr_mask stands for. A driver
 * fills all fields from its caller's attributes, and then keeps those that the caller's mask names.
 */
#ifndef VRDMA_QP_ATTR_H
#define VRDMA_QP_ATTR_H

#include "device.h"

#ifdef __KERNEL__
#include <linux/string.h>
#else
#include <string.h>
#endif
#include <asm/byteorder.h>

/* The values of enum ib_qp_attr_mask, without path migration, resizing and rate limits. */
#define VRDMA_QP_ATTR_STATE VRDMA_BIT(0)
#define VRDMA_QP_ATTR_CUR_STATE VRDMA_BIT(1)
#define VRDMA_QP_ATTR_SQ_DRAINED_NOTIFY VRDMA_BIT(2)
#define VRDMA_QP_ATTR_ACCESS_FLAGS VRDMA_BIT(3)
#define VRDMA_QP_ATTR_PKEY_INDEX VRDMA_BIT(4)
#define VRDMA_QP_ATTR_PORT VRDMA_BIT(5)
#define VRDMA_QP_ATTR_QKEY VRDMA_BIT(6)
#define VRDMA_QP_ATTR_AV VRDMA_BIT(7)
#define VRDMA_QP_ATTR_PATH_MTU VRDMA_BIT(8)
#define VRDMA_QP_ATTR_TIMEOUT VRDMA_BIT(9)
#define VRDMA_QP_ATTR_RETRY_CNT VRDMA_BIT(10)
#define VRDMA_QP_ATTR_RNR_RETRY VRDMA_BIT(11)
#define VRDMA_QP_ATTR_RQ_PSN VRDMA_BIT(12)
#define VRDMA_QP_ATTR_MAX_RD_ATOMIC VRDMA_BIT(13)
#define VRDMA_QP_ATTR_MIN_RNR_TIMER VRDMA_BIT(15)
#define VRDMA_QP_ATTR_SQ_PSN VRDMA_BIT(16)
#define VRDMA_QP_ATTR_MAX_DEST_RD_ATOMIC VRDMA_BIT(17)
#define VRDMA_QP_ATTR_DEST_QPN VRDMA_BIT(20)

struct vrdma_qp_attr_field {
	__u32 mask;
	__u16 offset;
	__u16 size;
};

#define VRDMA_QP_ATTR_FIELD(mask, field)                           \
	{                                                          \
		(mask), offsetof(struct vrdma_qp_attr, field),     \
			sizeof(((struct vrdma_qp_attr *)0)->field) \
	}

static const struct vrdma_qp_attr_field vrdma_qp_attr_fields[] = {
	VRDMA_QP_ATTR_FIELD(VRDMA_QP_ATTR_STATE, state),
	VRDMA_QP_ATTR_FIELD(VRDMA_QP_ATTR_CUR_STATE, cur_state),
	VRDMA_QP_ATTR_FIELD(VRDMA_QP_ATTR_SQ_DRAINED_NOTIFY, sq_drained_notify),
	VRDMA_QP_ATTR_FIELD(VRDMA_QP_ATTR_ACCESS_FLAGS, access_flags),
	VRDMA_QP_ATTR_FIELD(VRDMA_QP_ATTR_PKEY_INDEX, pkey_index),
	VRDMA_QP_ATTR_FIELD(VRDMA_QP_ATTR_PORT, port_num),
	VRDMA_QP_ATTR_FIELD(VRDMA_QP_ATTR_QKEY, qkey),
	VRDMA_QP_ATTR_FIELD(VRDMA_QP_ATTR_AV, av),
	VRDMA_QP_ATTR_FIELD(VRDMA_QP_ATTR_PATH_MTU, path_mtu),
	VRDMA_QP_ATTR_FIELD(VRDMA_QP_ATTR_TIMEOUT, timeout),
	VRDMA_QP_ATTR_FIELD(VRDMA_QP_ATTR_RETRY_CNT, retry_cnt),
	VRDMA_QP_ATTR_FIELD(VRDMA_QP_ATTR_RNR_RETRY, rnr_retry),
	VRDMA_QP_ATTR_FIELD(VRDMA_QP_ATTR_RQ_PSN, rq_psn),
	VRDMA_QP_ATTR_FIELD(VRDMA_QP_ATTR_MAX_RD_ATOMIC, max_rd_atomic),
	VRDMA_QP_ATTR_FIELD(VRDMA_QP_ATTR_MIN_RNR_TIMER, min_rnr_timer),
	VRDMA_QP_ATTR_FIELD(VRDMA_QP_ATTR_SQ_PSN, sq_psn),
	VRDMA_QP_ATTR_FIELD(VRDMA_QP_ATTR_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic),
	VRDMA_QP_ATTR_FIELD(VRDMA_QP_ATTR_DEST_QPN, dest_qpn),
	{ 0, 0, 0 },
};

/*
 * Sets attr_mask to mask, and zeroes the fields that mask does not name. False if mask names
 * attributes that a vrdma QP does not have.
 */
static inline int vrdma_qp_attr_select(struct vrdma_qp_attr *attr, __u32 mask)
{
	const struct vrdma_qp_attr_field *field;
	__u32 known = 0;

	for (field = vrdma_qp_attr_fields; field->mask; field++) {
		known |= field->mask;
		if (!(mask & field->mask))
			memset((char *)attr + field->offset, 0, field->size);
	}
	attr->attr_mask = __cpu_to_le32(mask);
	return !(mask & ~known);
}

/*
 * Copy all attributes but the address vector. Those of ib_core (struct ib_qp_attr) and of
 * libibverbs (struct ibv_qp_attr) have the same names in different types. So these are macros.
 */
#define VRDMA_QP_ATTR_TO_WIRE(wire, attr)                                             \
	do {                                                                          \
		(wire)->state = (__u8)(attr)->qp_state;                               \
		(wire)->cur_state = (__u8)(attr)->cur_qp_state;                       \
		(wire)->sq_drained_notify = (__u8)(attr)->en_sqd_async_notify;        \
		(wire)->access_flags = __cpu_to_le32((__u32)(attr)->qp_access_flags); \
		(wire)->pkey_index = __cpu_to_le16((__u16)(attr)->pkey_index);        \
		(wire)->port_num = (__u8)(attr)->port_num;                            \
		(wire)->qkey = __cpu_to_le32((__u32)(attr)->qkey);                    \
		(wire)->path_mtu = (__u8)(attr)->path_mtu;                            \
		(wire)->timeout = (__u8)(attr)->timeout;                              \
		(wire)->retry_cnt = (__u8)(attr)->retry_cnt;                          \
		(wire)->rnr_retry = (__u8)(attr)->rnr_retry;                          \
		(wire)->rq_psn = __cpu_to_le32((__u32)(attr)->rq_psn);                \
		(wire)->sq_psn = __cpu_to_le32((__u32)(attr)->sq_psn);                \
		(wire)->max_rd_atomic = (__u8)(attr)->max_rd_atomic;                  \
		(wire)->max_dest_rd_atomic = (__u8)(attr)->max_dest_rd_atomic;        \
		(wire)->min_rnr_timer = (__u8)(attr)->min_rnr_timer;                  \
		(wire)->dest_qpn = __cpu_to_le32((__u32)(attr)->dest_qp_num);         \
	} while (0)

#define VRDMA_QP_ATTR_FROM_WIRE(attr, wire)                                    \
	do {                                                                   \
		(attr)->qp_state = (wire)->state;                              \
		(attr)->cur_qp_state = (wire)->state;                          \
		(attr)->en_sqd_async_notify = (wire)->sq_drained_notify;       \
		(attr)->sq_draining = (wire)->sq_draining;                     \
		(attr)->qp_access_flags = __le32_to_cpu((wire)->access_flags); \
		(attr)->pkey_index = __le16_to_cpu((wire)->pkey_index);        \
		(attr)->port_num = (wire)->port_num;                           \
		(attr)->qkey = __le32_to_cpu((wire)->qkey);                    \
		(attr)->path_mtu = (wire)->path_mtu;                           \
		(attr)->timeout = (wire)->timeout;                             \
		(attr)->retry_cnt = (wire)->retry_cnt;                         \
		(attr)->rnr_retry = (wire)->rnr_retry;                         \
		(attr)->rq_psn = __le32_to_cpu((wire)->rq_psn);                \
		(attr)->sq_psn = __le32_to_cpu((wire)->sq_psn);                \
		(attr)->max_rd_atomic = (wire)->max_rd_atomic;                 \
		(attr)->max_dest_rd_atomic = (wire)->max_dest_rd_atomic;       \
		(attr)->min_rnr_timer = (wire)->min_rnr_timer;                 \
		(attr)->dest_qp_num = __le32_to_cpu((wire)->dest_qpn);         \
	} while (0)

#endif /* VRDMA_QP_ATTR_H */
