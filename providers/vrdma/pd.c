/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>

#include "vrdma.h"

struct ibv_pd *vrdma_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));
	int ret;

	if (!pd)
		return NULL;
	ret = to_vrdma_context(context)->control->alloc_pd(context, pd);
	if (ret) {
		free(pd);
		errno = ret;
		return NULL;
	}
	return pd;
}

int vrdma_dealloc_pd(struct ibv_pd *pd)
{
	int ret = to_vrdma_context(pd->context)->control->dealloc_pd(pd);

	if (!ret)
		free(pd);
	return ret;
}
