// SPDX-License-Identifier: GPL-2.0-only
/*
 * The details that "rdma resource show" prints of an object with -dd, beside those of ib_core. Any
 * user may ask, even while the object changes.
 */
#include <rdma/restrack.h>

#include "vrdma_ib.h"

/* The caller must call end_details(), whether or not all details found room. */
static struct nlattr *begin_details(struct sk_buff *msg)
{
	return nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
}

static int end_details(struct sk_buff *msg, struct nlattr *details, bool fit)
{
	if (!fit) {
		nla_nest_cancel(msg, details);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, details);
	return 0;
}

int vrdma_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq)
{
	struct vrdma_cq *cq = to_vrdma_cq(ibcq);
	struct nlattr *details = begin_details(msg);

	if (!details)
		return -EMSGSIZE;
	return end_details(msg, details, !rdma_nl_put_driver_u32_hex(msg, "cqn", cq->cqn));
}

int vrdma_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp)
{
	const struct ib_qp_cap *cap = &to_vrdma_qp(ibqp)->cap;
	struct nlattr *details = begin_details(msg);
	bool fits;

	if (!details)
		return -EMSGSIZE;
	fits = !rdma_nl_put_driver_u32(msg, "max_send_wr", cap->max_send_wr) &&
	       !rdma_nl_put_driver_u32(msg, "max_recv_wr", cap->max_recv_wr) &&
	       !rdma_nl_put_driver_u32(msg, "max_inline", cap->max_inline_data) &&
	       vrdma_fill_qp_counters(msg, ibqp);
	return end_details(msg, details, fits);
}
