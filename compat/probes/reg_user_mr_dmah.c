// SPDX-License-Identifier: GPL-2.0-only
/* reg_user_mr has a parameter for a DMA handle. */
#include <rdma/ib_verbs.h>

#ifdef VRDMA_NEW
static inline struct ib_mr *reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 virt_addr,
					int access_flags, struct ib_dmah *dmah,
					struct ib_udata *udata)
#else
static inline struct ib_mr *reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 virt_addr,
					int access_flags, struct ib_udata *udata)
#endif
{
	return NULL;
}

static const struct ib_device_ops probe __maybe_unused = {
	.reg_user_mr = reg_user_mr,
};
