// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of queues. A process brings memory for its own queues, which is pinned. The kernel's
 * queues are allocated here, as coherent memory, which both sides see without synchronization, even
 * if other memory must be copied for a device (swiotlb). Both consist of scattered pages: a ring of
 * a few thousand WQEs with room for many SGEs takes megabytes.
 */
#include <linux/dma-mapping.h>

#include "vrdma_ib.h"

/* Frees num_pages pages, because the allocation may be incomplete. */
static void vrdma_queue_memory_free(struct vrdma_dev *dev, struct vrdma_queue_memory *memory)
{
	struct vrdma_queue_page *page;

	while (memory->num_pages) {
		page = &memory->pages[--memory->num_pages];
		dma_free_coherent(&dev->fn->pdev->dev, PAGE_SIZE, page->data, page->dma);
	}
	kvfree(memory->pages);
	memory->pages = NULL;
}

static int vrdma_queue_memory_alloc(struct vrdma_dev *dev, struct vrdma_queue_memory *memory,
				    struct vrdma_pages *pages, u64 size)
{
	unsigned int count = PFN_UP(size);
	struct vrdma_queue_page *page;
	int err = -ENOMEM;

	memory->num_pages = 0;
	memory->pages = kvcalloc(count, sizeof(*memory->pages), GFP_KERNEL);
	if (!memory->pages)
		return -ENOMEM;
	for (; memory->num_pages < count; memory->num_pages++) {
		page = &memory->pages[memory->num_pages];
		page->data =
			dma_alloc_coherent(&dev->fn->pdev->dev, PAGE_SIZE, &page->dma, GFP_KERNEL);
		if (!page->data)
			goto err_free;
	}
	err = vrdma_pages_init_queue(dev, pages, memory);
	if (err)
		goto err_free;
	return 0;

err_free:
	vrdma_queue_memory_free(dev, memory);
	return err;
}

/* Also makes the page list for the device. The caller needs it until the device has the command. */
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

/* An XRC_RECV QP has no queue memory. */
void vrdma_queue_memory_cleanup(struct vrdma_dev *dev, struct vrdma_queue_memory *memory)
{
	ib_umem_release(memory->umem);
	if (memory->pages)
		vrdma_queue_memory_free(dev, memory);
}
