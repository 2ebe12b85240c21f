// SPDX-License-Identifier: GPL-2.0-only
/* QPs are bound to a counter at a port. */
#include <rdma/ib_verbs.h>

#ifdef VRDMA_NEW
static inline int bind(struct rdma_counter *counter, struct ib_qp *qp, u32 port)
{
	return 0;
}

static inline int unbind(struct ib_qp *qp, u32 port)
{
	return 0;
}
#else
static inline int bind(struct rdma_counter *counter, struct ib_qp *qp)
{
	return 0;
}

static inline int unbind(struct ib_qp *qp)
{
	return 0;
}
#endif

static const struct ib_device_ops probe __maybe_unused = {
	.counter_bind_qp = bind,
	.counter_unbind_qp = unbind,
};
