// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where queues lie. A process brings memory for its own, which is pinned; the kernel's are
 * allocated here. Both consist of pages from anywhere: a ring of a few thousand WQEs with room for
 * many SGEs takes megabytes.
 */
#include <linux/dma-mapping.h>
#include <linux/vmalloc.h>

#include "vrdma_ib.h"

static int vrdma_queue_memory_map(struct vrdma_dev *dev, struct vrdma_queue_memory *memory)
{
	unsigned int i, count = memory->size >> PAGE_SHIFT;
	struct page **list;
	int err;

	list = kvmalloc_array(count, sizeof(*list), GFP_KERNEL);
	if (!list)
		return -ENOMEM;
	for (i = 0; i < count; i++)
		list[i] = vmalloc_to_page(memory->data + ((size_t)i << PAGE_SHIFT));
	err = sg_alloc_table_from_pages(&memory->table, list, count, 0, memory->size, GFP_KERNEL);
	kvfree(list);
	if (err)
		return err;
	err = dma_map_sgtable(&dev->fn->pdev->dev, &memory->table, DMA_BIDIRECTIONAL, 0);
	if (err)
		sg_free_table(&memory->table);
	return err;
}

static void vrdma_queue_memory_unmap(struct vrdma_dev *dev, struct vrdma_queue_memory *memory)
{
	dma_unmap_sgtable(&dev->fn->pdev->dev, &memory->table, DMA_BIDIRECTIONAL, 0);
	sg_free_table(&memory->table);
}

static int vrdma_queue_memory_alloc(struct vrdma_dev *dev, struct vrdma_queue_memory *memory,
				    struct vrdma_pages *pages, u64 size)
{
	int err;

	memory->size = PAGE_ALIGN(size);
	memory->data = vzalloc(memory->size);
	if (!memory->data)
		return -ENOMEM;
	err = vrdma_queue_memory_map(dev, memory);
	if (err)
		goto err_free;
	err = vrdma_pages_init_table(dev, pages, &memory->table, memory->size);
	if (err)
		goto err_unmap;
	return 0;

err_unmap:
	vrdma_queue_memory_unmap(dev, memory);
err_free:
	vfree(memory->data);
	return err;
}

/* Fills pages with what the device is told; they are needed until it has been told. */
int vrdma_queue_memory_init(struct vrdma_dev *dev, struct vrdma_queue_memory *memory,
			    struct vrdma_pages *pages, struct ib_udata *udata, u64 address,
			    u64 size)
{
	struct ib_umem *umem;

	if (!udata)
		return vrdma_queue_memory_alloc(dev, memory, pages, size);
	umem = vrdma_pin_queue(dev, pages, address, size);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	memory->umem = umem;
	return 0;
}

/* An XRC_RECV QP has none. */
void vrdma_queue_memory_cleanup(struct vrdma_dev *dev, struct vrdma_queue_memory *memory)
{
	ib_umem_release(memory->umem);
	if (!memory->data)
		return;
	vrdma_queue_memory_unmap(dev, memory);
	vfree(memory->data);
}
