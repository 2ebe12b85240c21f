/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Memory windows. */
#include "verbs.h"

int vrdma_direct_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type, struct ibv_mw *mw)
{
	int ret = -vrdma_cmd_alloc_mw(vrdma_dev_of(pd->context), pd->handle, type, &mw->handle);

	mw->context = pd->context;
	mw->pd = pd;
	mw->type = type;
	mw->rkey = mw->handle;
	return ret;
}

int vrdma_direct_dealloc_mw(struct ibv_mw *mw)
{
	return vrdma_destroy_object(mw->context, VRDMA_ADMIN_DEALLOC_MW, mw->handle);
}
