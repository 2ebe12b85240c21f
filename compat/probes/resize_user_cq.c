// SPDX-License-Identifier: GPL-2.0-only
/* Only CQs of processes can be resized, and the new size is unsigned. */
#include <rdma/ib_verbs.h>

#ifdef VRDMA_NEW
static inline int resize_cq(struct ib_cq *cq, unsigned int cqe, struct ib_udata *udata)
#else
static inline int resize_cq(struct ib_cq *cq, int cqe, struct ib_udata *udata)
#endif
{
	return 0;
}

static const struct ib_device_ops probe __maybe_unused = {
#ifdef VRDMA_NEW
	.resize_user_cq = resize_cq,
#else
	.resize_cq = resize_cq,
#endif
};
