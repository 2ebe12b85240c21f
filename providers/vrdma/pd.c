/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>

#include "vrdma.h"

struct alloc_pd_answer {
	struct ib_uverbs_alloc_pd_resp core;
	struct vrdma_uverbs_alloc_pd_resp ours;
};
VRDMA_CHECK_COMMAND(struct alloc_pd_answer, core, ours);

struct ibv_pd *vrdma_alloc_pd(struct ibv_context *context)
{
	struct ibv_alloc_pd command = {};
	struct alloc_pd_answer answer = {};
	struct ibv_pd *pd = calloc(1, sizeof(*pd));
	int ret;

	if (!pd)
		return NULL;
	ret = ibv_cmd_alloc_pd(context, pd, &command, sizeof(command), &answer.core,
			       sizeof(answer));
	if (ret) {
		free(pd);
		errno = ret;
		return NULL;
	}
	return pd;
}

int vrdma_dealloc_pd(struct ibv_pd *pd)
{
	int ret = ibv_cmd_dealloc_pd(pd);

	if (!ret)
		free(pd);
	return ret;
}
