// SPDX-License-Identifier: GPL-2.0-only
/* Fast registration: regions of the kernel's own users, which get memory by work requests. */
#include <linux/dma-mapping.h>
#include <linux/log2.h>

#include "vrdma_ib.h"

#define VRDMA_FAST_LIST_SIZE (VRDMA_MAX_FAST_PAGES * sizeof(__le64))
static_assert(VRDMA_FAST_LIST_SIZE <= VRDMA_PAGE_SIZE);

/*
 * Allocates a whole page whatever the region's limit: the device reads lists from separate pages.
 */
static int vrdma_fast_list_alloc(struct vrdma_dev *dev, struct vrdma_mr *mr)
{
	mr->list =
		dma_alloc_coherent(&dev->fn->pdev->dev, VRDMA_PAGE_SIZE, &mr->list_dma, GFP_KERNEL);
	return mr->list ? 0 : -ENOMEM;
}

void vrdma_fast_list_free(struct vrdma_dev *dev, struct vrdma_mr *mr)
{
	if (mr->list)
		dma_free_coherent(&dev->fn->pdev->dev, VRDMA_PAGE_SIZE, mr->list, mr->list_dma);
}

struct ib_mr *vrdma_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max_num_sg)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibpd->device);
	struct vrdma_mr *mr;
	u32 key;
	int err;

	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_num_sg || max_num_sg > VRDMA_MAX_FAST_PAGES)
		return ERR_PTR(-EINVAL);

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	err = vrdma_fast_list_alloc(dev, mr);
	if (err)
		goto err_free;

	err = vrdma_cmd_alloc_mr(dev, to_vrdma_pd(ibpd)->handle, max_num_sg, &key);
	if (err)
		goto err_list;
	mr->list_max = max_num_sg;
	vrdma_mr_set_key(mr, key);
	return &mr->ibmr;

err_list:
	vrdma_fast_list_free(dev, mr);
err_free:
	kfree(mr);
	return ERR_PTR(err);
}

static int vrdma_fast_set_page(struct ib_mr *ibmr, u64 address)
{
	struct vrdma_mr *mr = to_vrdma_mr(ibmr);

	if (mr->list_count == mr->list_max)
		return -ENOMEM;
	mr->list[mr->list_count++] = cpu_to_le64(address);
	return 0;
}

int vrdma_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		    unsigned int *sg_offset)
{
	struct vrdma_mr *mr = to_vrdma_mr(ibmr);

	if (ibmr->page_size > BIT(VRDMA_MAX_PAGE_SHIFT) || ibmr->page_size < VRDMA_PAGE_SIZE)
		return -EINVAL;
	mr->list_count = 0;
	return ib_sg_to_pages(ibmr, sg, sg_nents, sg_offset, vrdma_fast_set_page);
}

/* Fills the work request that registers the pages that were mapped last. */
void vrdma_fast_fill(const struct vrdma_mr *mr, int access_flags, struct vrdma_sq_reg *reg)
{
	const struct ib_mr *ibmr = &mr->ibmr;

	memset(reg, 0, sizeof(*reg));
	reg->pages.root = cpu_to_le64(mr->list_dma);
	reg->pages.count = cpu_to_le32(mr->list_count);
	reg->pages.page_shift = ilog2(ibmr->page_size);
	reg->pages.levels = 1;
	reg->start = cpu_to_le64(access_flags & IB_ZERO_BASED ? 0 : ibmr->iova);
	reg->length = cpu_to_le64(ibmr->length);
	reg->access_flags = cpu_to_le32(access_flags & ~IB_ACCESS_OPTIONAL);
	reg->first_offset = cpu_to_le32(ibmr->iova & (ibmr->page_size - 1));
}
