// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page lists of scattered memory (see struct vrdma_page_list).
 *
 * A list is built from its leaves: blocks are added to the open page of level 1. A full page is
 * mapped for the device, and its address is added to the open page of the level above.
 */
#include <linux/dma-mapping.h>
#include <linux/swiotlb.h>
#include <rdma/iter.h>

#include "vrdma_ib.h"

#define VRDMA_BLOCK_SIZES GENMASK(VRDMA_MAX_PAGE_SHIFT, VRDMA_PAGE_SHIFT)

/* Recurses no deeper than VRDMA_PAGE_LIST_MAX_LEVELS. */
static int vrdma_pages_add(struct vrdma_dev *dev, struct vrdma_pages *pages, unsigned int level,
			   dma_addr_t address);

static int vrdma_pages_close(struct vrdma_dev *dev, struct vrdma_pages *pages, unsigned int level)
{
	struct device *dma_dev = &dev->fn->pdev->dev;
	struct page *page = pages->open[level - 1];
	dma_addr_t address;

	address = dma_map_page(dma_dev, page, 0, VRDMA_PAGE_SIZE, DMA_TO_DEVICE);
	if (dma_mapping_error(dma_dev, address))
		return -ENOMEM;
	pages->open[level - 1] = NULL;
	set_page_private(page, address);
	list_add(&page->lru, &pages->mapped);
	cond_resched();
	return vrdma_pages_add(dev, pages, level + 1, address);
}

static int vrdma_pages_add(struct vrdma_dev *dev, struct vrdma_pages *pages, unsigned int level,
			   dma_addr_t address)
{
	struct page **open;
	__le64 *entries;

	if (level > pages->list.levels) {
		pages->list.root = cpu_to_le64(address);
		return 0;
	}

	open = &pages->open[level - 1];
	if (!*open) {
		*open = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!*open)
			return -ENOMEM;
		pages->used[level - 1] = 0;
	}
	entries = page_address(*open);
	entries[pages->used[level - 1]++] = cpu_to_le64(address);
	if (pages->used[level - 1] < VRDMA_PAGE_LIST_ENTRIES)
		return 0;
	return vrdma_pages_close(dev, pages, level);
}

/*
 * Makes an empty list with the levels that count blocks need. Contiguous blocks need only the first
 * address.
 */
static int vrdma_pages_shape(struct vrdma_pages *pages, size_t count, unsigned long block_size,
			     bool contiguous)
{
	size_t reach;

	memset(pages, 0, sizeof(*pages));
	INIT_LIST_HEAD(&pages->mapped);
	if (count > U32_MAX)
		return -EFBIG;
	if (!contiguous)
		for (reach = 1; reach < count; reach *= VRDMA_PAGE_LIST_ENTRIES)
			pages->list.levels++;
	if (pages->list.levels > VRDMA_PAGE_LIST_MAX_LEVELS)
		return -EFBIG;
	pages->list.count = cpu_to_le32(count);
	pages->list.page_shift = ilog2(block_size);
	return 0;
}

/*
 * If err is 0, all blocks have been added, and the open pages are mapped too. After an error
 * nothing stays.
 */
static int vrdma_pages_finish(struct vrdma_dev *dev, struct vrdma_pages *pages, int err)
{
	unsigned int level;

	for (level = 1; level <= pages->list.levels && !err; level++)
		if (pages->open[level - 1]) /* else it was full at the end */
			err = vrdma_pages_close(dev, pages, level);
	if (err)
		vrdma_pages_cleanup(dev, pages);
	return err;
}

/*
 * Whether the device would get copies of a process's memory, which would never be coherent with it.
 */
bool vrdma_copies_memory(struct vrdma_dev *dev)
{
	return is_swiotlb_force_bounce(&dev->fn->pdev->dev);
}

/* Makes the list of the blocks of umem. start is the device's address of umem. */
int vrdma_pages_init(struct vrdma_dev *dev, struct vrdma_pages *pages, struct ib_umem *umem,
		     u64 start)
{
	bool contiguous = umem->sgt_append.sgt.nents == 1;
	struct ib_block_iter iter;
	unsigned long block_size;
	int err;

	if (vrdma_copies_memory(dev))
		return -EOPNOTSUPP;
	block_size = ib_umem_find_best_pgsz(umem,
					    dev->ibdev.attrs.page_size_cap & VRDMA_BLOCK_SIZES,
					    start);
	if (!block_size)
		return -EINVAL;
	err = vrdma_pages_shape(pages, ib_umem_num_dma_blocks(umem, block_size), block_size,
				contiguous);
	if (err)
		return err;
	pages->first_offset = start & (block_size - 1);

	rdma_umem_for_each_dma_block(umem, &iter, block_size) {
		err = vrdma_pages_add(dev, pages, 1, rdma_block_iter_dma_address(&iter));
		if (err || contiguous)
			break;
	}
	return vrdma_pages_finish(dev, pages, err);
}

/* Makes the list of the pages of a queue of the kernel's. */
int vrdma_pages_init_queue(struct vrdma_dev *dev, struct vrdma_pages *pages,
			   const struct vrdma_queue_memory *memory)
{
	unsigned int i;
	int err;

	err = vrdma_pages_shape(pages, memory->num_pages, PAGE_SIZE, false);
	for (i = 0; !err && i < memory->num_pages; i++)
		err = vrdma_pages_add(dev, pages, 1, memory->pages[i].dma);
	return vrdma_pages_finish(dev, pages, err);
}

void vrdma_pages_cleanup(struct vrdma_dev *dev, struct vrdma_pages *pages)
{
	struct device *dma_dev = &dev->fn->pdev->dev;
	struct page *page, *next;
	unsigned int level;

	for (level = 1; level <= VRDMA_PAGE_LIST_MAX_LEVELS; level++)
		if (pages->open[level - 1])
			__free_page(pages->open[level - 1]);
	list_for_each_entry_safe(page, next, &pages->mapped, lru) {
		list_del(&page->lru);
		dma_unmap_page(dma_dev, page_private(page), VRDMA_PAGE_SIZE, DMA_TO_DEVICE);
		set_page_private(page, 0);
		__free_page(page);
	}
}

/* Pins a queue of the provider's. No entry of it may cross a page. */
struct ib_umem *vrdma_pin_queue(struct vrdma_dev *dev, struct vrdma_pages *pages, u64 address,
				u64 size)
{
	struct ib_umem *umem;
	int err;

	if (!PAGE_ALIGNED(address))
		return ERR_PTR(-EINVAL);
	umem = vrdma_umem_get(&dev->ibdev, address, size, IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(umem))
		return umem;
	err = vrdma_pages_init(dev, pages, umem, address);
	if (err) {
		ib_umem_release(umem);
		return ERR_PTR(err);
	}
	return umem;
}
