// SPDX-License-Identifier: GPL-2.0-only
/* Drivers have a separate operation that creates CQs of processes. */
#include <rdma/ib_verbs.h>

#ifdef VRDMA_NEW
static inline int create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr,
			    struct uverbs_attr_bundle *attrs)
{
	return 0;
}

static const struct ib_device_ops probe __maybe_unused = {
	.create_user_cq = create_cq,
};
#else
struct probe {
	struct ib_device_ops;
	int create_user_cq;
};
#endif
