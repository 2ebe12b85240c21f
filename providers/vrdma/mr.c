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

int vrdma_rereg_mr(struct verbs_mr *base, int flags, struct ibv_pd *pd, void *addr, size_t length,
		   int access)
{
	struct vrdma_mr *mr = (struct vrdma_mr *)base;
	int ret = to_vrdma_context(base->ibv_mr.context)
			  ->control->rereg_mr(mr, flags, pd, addr, length, access);

	if (ret)
		errno = ret; /* ibv_rereg_mr() returns which step failed */
	return ret;
}

/* The key of the null MR is fixed in the device, so no command is needed. */
struct ibv_mr *vrdma_alloc_null_mr(struct ibv_pd *pd)
{
	struct vrdma_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->base.mr_type = IBV_MR_TYPE_NULL_MR;
	mr->base.ibv_mr.context = pd->context;
	mr->base.ibv_mr.pd = pd;
	mr->base.ibv_mr.length = SIZE_MAX;
	mr->base.ibv_mr.lkey = VRDMA_NULL_LKEY;
	return &mr->base.ibv_mr;
}

int vrdma_dereg_mr(struct verbs_mr *base)
{
	struct vrdma_mr *mr = (struct vrdma_mr *)base;
	bool null = base->mr_type == IBV_MR_TYPE_NULL_MR;
	int ret = null ? 0 : to_vrdma_context(base->ibv_mr.context)->control->dereg_mr(mr);

	if (!ret)
		free(mr);
	return ret;
}

int vrdma_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		    struct ibv_sge *list, uint32_t count)
{
	if (flags & ~IBV_ADVISE_MR_FLAG_FLUSH)
		return EINVAL;
	if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return EOPNOTSUPP;
	return to_vrdma_context(pd->context)->control->advise_mr(pd, advice, flags, list, count);
}
