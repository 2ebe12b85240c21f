/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A device's limits as programs see them. The attributes of ib_core (struct ib_device_attr) and of
 * libibverbs (struct ibv_device_attr) have the same names in different types. So this is a macro.
 */
#ifndef VRDMA_DEVICE_ATTR_H
#define VRDMA_DEVICE_ATTR_H

#include <asm/byteorder.h>

#include "device.h"

/* Sets the attributes that follow from caps, a struct vrdma_cpl_query_device. */
#define VRDMA_DEVICE_ATTR_FROM_CAPS(attr, caps)                                                \
	do {                                                                                   \
		(attr)->max_mr_size = __le64_to_cpu((caps)->max_mr_size);                      \
		(attr)->page_size_cap = __le64_to_cpu((caps)->page_size_cap);                  \
		(attr)->max_qp = (int)__le32_to_cpu((caps)->max_qp);                           \
		(attr)->max_qp_wr = (int)__le32_to_cpu((caps)->max_qp_wr);                     \
		(attr)->max_cq = (int)__le32_to_cpu((caps)->max_cq);                           \
		(attr)->max_cqe = (int)__le32_to_cpu((caps)->max_cqe);                         \
		(attr)->max_mr = (int)__le32_to_cpu((caps)->max_mr);                           \
		(attr)->max_mw = (attr)->max_mr;                                               \
		(attr)->max_pd = (int)__le32_to_cpu((caps)->max_pd);                           \
		(attr)->max_ah = (int)__le32_to_cpu((caps)->max_ah);                           \
		(attr)->max_srq = (int)__le32_to_cpu((caps)->max_srq);                         \
		(attr)->max_srq_wr = (int)__le32_to_cpu((caps)->max_srq_wr);                   \
		(attr)->max_mcast_grp = (int)__le32_to_cpu((caps)->max_mcast_grp);             \
		(attr)->max_mcast_qp_attach = (int)__le32_to_cpu((caps)->max_mcast_qp_attach); \
		(attr)->max_total_mcast_qp_attach =                                            \
			(int)__le32_to_cpu((caps)->max_total_mcast_qp_attach);                 \
		(attr)->max_sge_rd = __le16_to_cpu((caps)->max_send_sge);                      \
		(attr)->max_srq_sge = __le16_to_cpu((caps)->max_srq_sge);                      \
		(attr)->max_qp_rd_atom = (caps)->max_qp_rd_atomic;                             \
		(attr)->max_qp_init_rd_atom = (caps)->max_qp_init_rd_atomic;                   \
		(attr)->max_res_rd_atom = (attr)->max_qp;                                      \
		(attr)->max_res_rd_atom *= (attr)->max_qp_rd_atom;                             \
		(attr)->local_ca_ack_delay = VRDMA_ACK_DELAY;                                  \
	} while (0)

#endif /* VRDMA_DEVICE_ATTR_H */
