/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>

#include "vrdma.h"

struct ibv_ah *vrdma_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct vrdma_ah *ah = calloc(1, sizeof(*ah));
	int ret;

	if (!ah)
		return NULL;
	ret = to_vrdma_context(pd->context)->control->create_ah(pd, attr, ah);
	if (ret) {
		free(ah);
		errno = ret;
		return NULL;
	}
	return &ah->base;
}

int vrdma_destroy_ah(struct ibv_ah *base)
{
	struct vrdma_ah *ah = (struct vrdma_ah *)base;
	int ret = to_vrdma_context(base->context)->control->destroy_ah(ah);

	if (!ret)
		free(ah);
	return ret;
}
