/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>

#include "vrdma.h"

struct ibv_mw *vrdma_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw;
	int ret;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
		errno = EINVAL;
		return NULL;
	}
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return NULL;
	ret = to_vrdma_context(pd->context)->control->alloc_mw(pd, type, mw);
	if (ret) {
		free(mw);
		errno = ret;
		return NULL;
	}
	return mw;
}

int vrdma_dealloc_mw(struct ibv_mw *mw)
{
	int ret = to_vrdma_context(mw->context)->control->dealloc_mw(mw);

	if (!ret)
		free(mw);
	return ret;
}

static int check_bind(const struct ibv_mw_bind_info *info)
{
	if (info->mw_access_flags & IBV_ACCESS_ZERO_BASED)
		return EINVAL; /* a type 1 window has the region's addresses (IBA o10-36.2.2) */
	if (!info->mr)
		return info->addr || info->length ? EINVAL : 0;
	return to_vrdma_mr(info->mr)->base.mr_type == IBV_MR_TYPE_MR ? 0 : EOPNOTSUPP;
}

/* Binds a type 1 window. Each bind gives the window another key. */
int vrdma_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	int ret = check_bind(&bind->bind_info);

	if (ret)
		return ret;
	ret = vrdma_queue_bind(&to_vrdma_qp(qp)->queues, rkey, bind);
	if (!ret)
		mw->rkey = rkey;
	return ret;
}
