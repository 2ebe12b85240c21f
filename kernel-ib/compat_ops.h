/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Members of struct ib_device_ops that differ between kernels. Only device.c includes this.
 */
#ifndef VRDMA_IB_COMPAT_OPS_H
#define VRDMA_IB_COMPAT_OPS_H

#include "vrdma_ib.h"

#if VRDMA_HAVE_CREATE_CQ_ATTRS
static inline int vrdma_create_any_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
				      struct uverbs_attr_bundle *attrs)
{
	return vrdma_create_cq(ibcq, attr, attrs ? &attrs->driver_udata : NULL);
}
#else
#define vrdma_create_any_cq vrdma_create_cq
#endif

#if VRDMA_HAVE_CREATE_USER_CQ
#define VRDMA_IB_USER_CQ_OPS .create_user_cq = vrdma_create_any_cq,
#else
#define VRDMA_IB_USER_CQ_OPS
#endif

#if VRDMA_HAVE_RESIZE_USER_CQ
static inline int vrdma_resize_user_cq(struct ib_cq *ibcq, unsigned int cqe, struct ib_udata *udata)
{
	return cqe > INT_MAX ? -EINVAL : vrdma_resize_cq(ibcq, cqe, udata);
}

#define VRDMA_IB_RESIZE_CQ_OPS .resize_user_cq = vrdma_resize_user_cq,
#else
#define VRDMA_IB_RESIZE_CQ_OPS .resize_cq = vrdma_resize_cq,
#endif

/* The device creates no DMA handles. */
#if VRDMA_HAVE_REG_USER_MR_DMAH
static inline struct ib_mr *vrdma_reg_any_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
						  u64 virt_addr, int access_flags,
						  struct ib_dmah *dmah, struct ib_udata *udata)
{
	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);
	return vrdma_reg_user_mr(ibpd, start, length, virt_addr, access_flags, udata);
}
#else
#define vrdma_reg_any_user_mr vrdma_reg_user_mr
#endif

#if VRDMA_HAVE_REPORT_PORT_EVENT
/* If this exists, ib_core sends no port events: the port may be down although its netdev is up. */
static inline void vrdma_report_port_event(struct ib_device *ibdev, struct net_device *netdev,
					   unsigned long event)
{
}

#define VRDMA_IB_PORT_OPS .report_port_event = vrdma_report_port_event,
#else
#define VRDMA_IB_PORT_OPS
#endif

/* ib_core calls counter_init without checking for NULL. */
#if VRDMA_HAVE_COUNTER_INIT
static inline void vrdma_counter_init(struct rdma_counter *counter)
{
}

/* clang-format off */
#define VRDMA_IB_COUNTER_OPS				\
	.counter_init = vrdma_counter_init,		\
	.size_rdma_counter = sizeof(struct rdma_counter),
/* clang-format on */
#else
#define VRDMA_IB_COUNTER_OPS
#endif

/* There is one port. */
#if VRDMA_HAVE_COUNTER_QP_PORT
static inline int vrdma_counter_bind(struct rdma_counter *counter, struct ib_qp *ibqp, u32 port)
{
	return vrdma_counter_bind_qp(counter, ibqp);
}

static inline int vrdma_counter_unbind(struct ib_qp *ibqp, u32 port)
{
	return vrdma_counter_unbind_qp(ibqp);
}
#else
#define vrdma_counter_bind vrdma_counter_bind_qp
#define vrdma_counter_unbind vrdma_counter_unbind_qp
#endif

/* clang-format off */
#define VRDMA_IB_COMPAT_OPS				\
	.counter_bind_qp = vrdma_counter_bind,		\
	.counter_unbind_qp = vrdma_counter_unbind,	\
	.create_cq = vrdma_create_any_cq,		\
	.reg_user_mr = vrdma_reg_any_user_mr,		\
	VRDMA_IB_COUNTER_OPS				\
	VRDMA_IB_USER_CQ_OPS				\
	VRDMA_IB_RESIZE_CQ_OPS				\
	VRDMA_IB_PORT_OPS
/* clang-format on */

#endif /* VRDMA_IB_COMPAT_OPS_H */
