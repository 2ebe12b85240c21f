/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Device memory. The engine copies between buffers in main memory, so device memory is ordinary
 * memory too: pages that the driver allocates and maps into the process.
 */
#include <stdlib.h>
#include <string.h>

#include "vrdma.h"

#define WORD 4 /* bytes: the granularity of accesses to device memory */

static bool is_within(const struct vrdma_dm *dm, uint64_t offset, size_t length)
{
	return offset <= dm->length && length <= dm->length - offset;
}

static bool is_access_valid(const struct vrdma_dm *dm, uint64_t offset, size_t length)
{
	return offset % WORD == 0 && length % WORD == 0 && is_within(dm, offset, length);
}

static int copy_to_dm(struct ibv_dm *base, uint64_t offset, const void *from, size_t length)
{
	const struct vrdma_dm *dm = to_vrdma_dm(base);

	if (!is_access_valid(dm, offset, length))
		return EINVAL;
	memcpy(dm->data + offset, from, length);
	return 0;
}

static int copy_from_dm(void *to, struct ibv_dm *base, uint64_t offset, size_t length)
{
	const struct vrdma_dm *dm = to_vrdma_dm(base);

	if (!is_access_valid(dm, offset, length))
		return EINVAL;
	memcpy(to, dm->data + offset, length);
	return 0;
}

static struct ibv_dm *finish(struct vrdma_dm *dm, int ret, struct ibv_context *context)
{
	struct ibv_dm *base = &dm->base.dm;

	if (ret) {
		free(dm);
		errno = ret;
		return NULL;
	}
	base->context = context;
	base->comp_mask = IBV_DM_MASK_HANDLE;
	base->handle = dm->base.handle;
	base->memcpy_to_dm = copy_to_dm;
	base->memcpy_from_dm = copy_from_dm;
	return base;
}

struct ibv_dm *vrdma_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	struct vrdma_dm *dm;

	if (attr->comp_mask || !attr->length || attr->log_align_req > VRDMA_PAGE_SHIFT) {
		errno = EINVAL;
		return NULL;
	}
	if (attr->length > VRDMA_MAX_DM_SIZE) {
		errno = ENOMEM;
		return NULL;
	}
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return NULL;
	return finish(dm, to_vrdma_context(context)->control->alloc_dm(context, attr, dm), context);
}

int vrdma_free_dm(struct ibv_dm *base)
{
	struct vrdma_dm *dm = to_vrdma_dm(base);
	int ret = to_vrdma_context(base->context)->control->free_dm(dm);

	if (!ret)
		free(dm);
	return ret;
}

struct ibv_dm *vrdma_import_dm(struct ibv_context *context, uint32_t handle)
{
	struct vrdma_dm *dm = calloc(1, sizeof(*dm));

	if (!dm)
		return NULL;
	return finish(dm, to_vrdma_context(context)->control->import_dm(context, handle, dm),
		      context);
}

void vrdma_unimport_dm(struct ibv_dm *base)
{
	struct vrdma_dm *dm = to_vrdma_dm(base);

	to_vrdma_context(base->context)->control->unimport_dm(dm);
	free(dm);
}

struct ibv_mr *vrdma_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *base, uint64_t offset,
			       size_t length, unsigned int access)
{
	struct vrdma_dm *dm = to_vrdma_dm(base);
	struct vrdma_mr *mr;
	int ret;

	/* Programs must not know the memory's address, so regions are zero-based. */
	if (!(access & IBV_ACCESS_ZERO_BASED) || !is_within(dm, offset, length)) {
		errno = EINVAL;
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return NULL;
	ret = to_vrdma_context(pd->context)->control->reg_dm_mr(pd, dm, offset, length, access, mr);
	if (ret) {
		free(mr);
		errno = ret;
		return NULL;
	}
	mr->base.ibv_mr.pd = pd;
	mr->base.ibv_mr.length = length;
	return &mr->base.ibv_mr;
}
