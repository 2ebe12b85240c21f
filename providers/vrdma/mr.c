/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>

#include "vrdma.h"

struct ibv_mr *vrdma_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	struct vrdma_mr *mr = calloc(1, sizeof(*mr));
	int ret;

	if (!mr)
		return NULL;
	ret = to_vrdma_context(pd->context)->control->reg_mr(pd, addr, length, iova, access, mr);
	if (ret) {
		free(mr);
		errno = ret;
		return NULL;
	}
	return &mr->base.ibv_mr;
}

int vrdma_dereg_mr(struct verbs_mr *base)
{
	struct vrdma_mr *mr = (struct vrdma_mr *)base;
	int ret = to_vrdma_context(base->ibv_mr.context)->control->dereg_mr(mr);

	if (!ret)
		free(mr);
	return ret;
}
