// SPDX-License-Identifier: GPL-2.0-only
/* create_cq gets the attributes of the call, not only its udata. */
#include <rdma/ib_verbs.h>

#ifdef VRDMA_NEW
typedef struct uverbs_attr_bundle argument;
#else
typedef struct ib_udata argument;
#endif

static inline int create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr, argument *call)
{
	return 0;
}

static const struct ib_device_ops probe __maybe_unused = {
	.create_cq = create_cq,
};
