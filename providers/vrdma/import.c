/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Imports objects of another context on the same command file by their handles. Unimporting frees
 * only the local structure. The object itself lives as long as the original (ibv_import_pd(3)).
 */
#include <stdlib.h>

#include "vrdma.h"

struct ibv_pd *vrdma_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct vrdma_pd *pd = calloc(1, sizeof(*pd));
	int ret;

	if (!pd)
		return NULL;
	ret = to_vrdma_context(context)->control->import_pd(context, handle, pd);
	if (ret) {
		free(pd);
		errno = ret;
		return NULL;
	}
	return &pd->base;
}

void vrdma_unimport_pd(struct ibv_pd *pd)
{
	free(to_vrdma_pd(pd));
}

struct ibv_mr *vrdma_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct vrdma_mr *mr = calloc(1, sizeof(*mr));
	int ret;

	if (!mr)
		return NULL;
	ret = to_vrdma_context(pd->context)->control->import_mr(pd, handle, mr);
	if (ret) {
		free(mr);
		errno = ret;
		return NULL;
	}
	return &mr->base.ibv_mr;
}

void vrdma_unimport_mr(struct ibv_mr *mr)
{
	free((struct vrdma_mr *)mr);
}
