/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Memory regions. */
#include <errno.h>

#include "verbs.h"

#define MR_ACCESS                                                                                  \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |                   \
	 IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE)
#define WRITE_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

/* A region of no bytes has no pages. */
static int map_region(struct vrdma_dev *dev, struct vrdma_mr *mr, void *addr, size_t length,
		      struct vrdma_cmd_reg_mr *arg)
{
	uint32_t first_offset;
	int ret;

	if (!length)
		return 0;
	ret = vrdma_region_map(&dev->memory, &mr->region, addr, length, mr->writable);
	if (ret)
		return ret;
	arg->pages = vrdma_region_pages(&mr->region, &first_offset);
	arg->first_offset = htole32(first_offset);
	return 0;
}

static void unmap_region(struct vrdma_dev *dev, struct vrdma_mr *mr)
{
	if (mr->region.length)
		vrdma_region_unmap(&dev->memory, &mr->region);
}

static int check_region(const struct vrdma_dev *dev, size_t length, int access)
{
	if (access & ~MR_ACCESS)
		return EINVAL;
	return length <= le64toh(dev->caps.max_mr_size) ? 0 : EINVAL;
}

/* The device's address of the region's first byte. */
static uint64_t region_start(uint64_t iova, int access)
{
	return access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
}

static void complete_mr(struct vrdma_mr *mr, struct ibv_context *context, size_t length,
			uint32_t key, int access)
{
	struct vrdma_dev *dev = vrdma_dev_of(context);

	mr->base.ibv_mr.context = context;
	mr->base.ibv_mr.handle = key;
	mr->base.ibv_mr.lkey = key;
	mr->base.ibv_mr.rkey = key;
	mr->base.ibv_mr.length = length;
	mr->base.access = access;
	vrdma_list_add(dev, &dev->events.mrs, &mr->listed);
}

static int register_region(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access,
			   struct vrdma_mr *mr)
{
	struct vrdma_dev *dev = vrdma_dev_of(pd->context);
	struct vrdma_cmd_reg_mr arg = {
		.start = htole64(region_start(iova, access)),
		.length = htole64(length),
		.pd = htole32(pd->handle),
		.access_flags = htole32((uint32_t)access),
	};
	uint32_t key = 0;
	int ret;

	ret = check_region(dev, length, access);
	if (ret)
		return ret;
	mr->iova = iova;
	mr->writable = access & WRITE_ACCESS;
	ret = map_region(dev, mr, addr, length, &arg);
	if (ret)
		return ret;
	ret = -vrdma_cmd_reg_mr(dev, &arg, &key);
	if (ret) {
		unmap_region(dev, mr);
		return ret;
	}
	complete_mr(mr, pd->context, length, key, access);
	return 0;
}

/* As in the kernel, a region without bounds covers the program's whole address space. */
static int reg_on_demand(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access,
			 struct vrdma_mr *mr)
{
	struct vrdma_dev *dev = vrdma_dev_of(pd->context);
	const bool whole = !addr && length == SIZE_MAX;
	int ret;

	if (access & ~MR_ACCESS)
		return EINVAL;
	iova = region_start(iova, access);
	if (whole ? iova : length > le64toh(dev->caps.max_mr_size) || length > UINT64_MAX - iova)
		return EINVAL;
	ret = vrdma_on_demand_register(dev, pd->handle, addr, length, iova, (uint32_t)access,
				       &mr->on_demand);
	if (!ret)
		complete_mr(mr, pd->context, length, vrdma_on_demand_key(mr->on_demand), access);
	return ret;
}

int vrdma_direct_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access,
			struct vrdma_mr *mr)
{
	if (!length)
		return EINVAL;
	if (access & IBV_ACCESS_ON_DEMAND)
		return reg_on_demand(pd, addr, length, iova, access, mr);
	return register_region(pd, addr, length, iova, access, mr);
}

/* Always prefetches before it returns, also without IBV_ADVISE_MR_FLAG_FLUSH. */
int vrdma_direct_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			   struct ibv_sge *list, uint32_t count)
{
	(void)flags;
	return vrdma_on_demand_advise(vrdma_dev_of(pd->context), pd->handle, advice, list, count);
}

/* What the region is to become: like mr, except for what the flags of vrdma_direct_rereg_mr()
 * change. */
struct new_region {
	void *addr;
	size_t length;
	uint64_t iova;
	int access;
	bool moves;
	bool writable;
};

static struct new_region describe_region(const struct vrdma_mr *mr, int flags, void *addr,
					 size_t length, int access)
{
	struct new_region next = {
		.addr = mr->base.ibv_mr.addr,
		.length = mr->base.ibv_mr.length,
		.iova = mr->iova,
		.access = flags & IBV_REREG_MR_CHANGE_ACCESS ? access : mr->base.access,
	};

	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		next.addr = addr;
		next.length = length;
		next.iova = (uintptr_t)addr;
	}
	next.writable = next.access & WRITE_ACCESS;
	/* Memory that was shared for reading only is shared again, for writing. */
	next.moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION || (next.writable && !mr->writable);
	return next;
}

static int change_region(struct vrdma_dev *dev, struct vrdma_mr *mr, const struct new_region *next,
			 struct vrdma_cmd_rereg_mr *arg)
{
	struct vrdma_region region;
	uint32_t first_offset;
	int ret;

	if (!next->moves)
		return -vrdma_cmd_rereg_mr(dev, arg);
	ret = vrdma_region_map(&dev->memory, &region, next->addr, next->length, next->writable);
	if (ret)
		return ret;
	arg->flags |= htole32(VRDMA_REREG_TRANSLATION);
	arg->start = htole64(region_start(next->iova, next->access));
	arg->length = htole64(next->length);
	arg->pages = vrdma_region_pages(&region, &first_offset);
	arg->first_offset = htole32(first_offset);
	ret = -vrdma_cmd_rereg_mr(dev, arg);
	vrdma_region_unmap(&dev->memory, ret ? &region : &mr->region);
	if (ret)
		return ret;
	mr->region = region;
	mr->iova = next->iova;
	mr->writable = next->writable;
	return 0;
}

int vrdma_direct_rereg_mr(struct vrdma_mr *mr, int flags, struct ibv_pd *pd, void *addr,
			  size_t length, int access)
{
	struct vrdma_dev *dev = vrdma_dev_of(mr->base.ibv_mr.context);
	struct new_region next = describe_region(mr, flags, addr, length, access);
	struct vrdma_cmd_rereg_mr arg = {
		.key = htole32(mr->base.ibv_mr.handle),
		.flags = htole32((uint32_t)flags & (VRDMA_REREG_PD | VRDMA_REREG_ACCESS)),
	};
	int ret = check_region(dev, next.length, next.access);

	if (ret)
		return ret;
	if (mr->on_demand || next.access & IBV_ACCESS_ON_DEMAND)
		return EOPNOTSUPP;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		arg.pd = htole32(pd->handle);
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		arg.access_flags = htole32((uint32_t)access);
	ret = change_region(dev, mr, &next, &arg);
	if (!ret)
		mr->base.access = next.access;
	return ret;
}

int vrdma_direct_dereg_mr(struct vrdma_mr *mr)
{
	struct ibv_mr *base = &mr->base.ibv_mr;
	struct vrdma_dev *dev = vrdma_dev_of(base->context);
	int ret = vrdma_destroy_object(base->context, VRDMA_ADMIN_DEREG_MR, base->handle);

	if (ret)
		return ret;
	vrdma_list_remove(dev, &mr->listed);
	if (mr->on_demand)
		vrdma_on_demand_deregister(dev, mr->on_demand);
	/* The memory of an imported region belongs to the region that it was imported from. */
	if (mr->base.mr_type != IBV_MR_TYPE_IMPORTED_MR)
		unmap_region(dev, mr);
	vrdma_direct_use_dm(dev, mr->dm, -1);
	return 0;
}

int vrdma_direct_reg_dm_mr(struct ibv_pd *pd, struct vrdma_dm *dm, uint64_t offset, size_t length,
			   unsigned int access, struct vrdma_mr *mr)
{
	int ret = register_region(pd, dm->data + offset, length, 0,
				  (int)(access & ~IBV_ACCESS_ZERO_BASED), mr);

	if (ret)
		return ret;
	mr->dm = dm->base.handle;
	vrdma_direct_use_dm(vrdma_dev_of(pd->context), mr->dm, 1);
	return 0;
}
