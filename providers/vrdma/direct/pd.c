/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Protection domains. */
#include "verbs.h"

int vrdma_direct_alloc_pd(struct ibv_context *context, struct vrdma_pd *pd)
{
	struct vrdma_dev *dev = vrdma_dev_of(context);
	int ret = -vrdma_cmd_alloc_pd(dev, to_vrdma_context(context)->ucontext, &pd->base.handle);

	if (ret)
		return ret;
	pd->base.context = context;
	vrdma_list_add(dev, &dev->events.pds, &pd->listed);
	return 0;
}

int vrdma_direct_dealloc_pd(struct vrdma_pd *pd)
{
	int ret = vrdma_destroy_object(pd->base.context, VRDMA_ADMIN_DEALLOC_PD, pd->base.handle);

	if (!ret)
		vrdma_list_remove(vrdma_dev_of(pd->base.context), &pd->listed);
	return ret;
}
