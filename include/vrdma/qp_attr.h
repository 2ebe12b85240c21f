/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The field of struct vrdma_qp_attr that each bit of its attr_mask stands for. A driver fills all
 * fields from its caller's attributes, and then keeps those that the caller's mask names.
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

#endif /* VRDMA_QP_ATTR_H */
