/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>

#include "vrdma.h"

struct create_ah_answer {
	struct ib_uverbs_create_ah_resp core;
	struct vrdma_uverbs_create_ah_resp ours;
};
VRDMA_CHECK_COMMAND(struct create_ah_answer, core, ours);

struct ibv_ah *vrdma_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct create_ah_answer answer = {};
	struct vrdma_ah *ah = calloc(1, sizeof(*ah));
	int ret;

	if (!ah)
		return NULL;
	ret = ibv_cmd_create_ah(pd, &ah->base, attr, &answer.core, sizeof(answer));
	if (ret) {
		free(ah);
		errno = ret;
		return NULL;
	}
	ah->id = answer.ours.ah;
	return &ah->base;
}

int vrdma_destroy_ah(struct ibv_ah *ah)
{
	int ret = ibv_cmd_destroy_ah(ah);

	if (!ret)
		free(ah);
	return ret;
}
