// SPDX-License-Identifier: GPL-2.0-only
/*
 * Doorbell pages (BAR2). Each VM gets fresh ones: an earlier VM may have kept references to its own
 * (vmsplice), and would read in them what the next VM writes. The last reference frees them.
 *
 * The VM maps its pages while it has the device open. The mediator's mapping outlives VMs, so
 * faults fill it. They count in window.faults: after vrdma_doorbells_renew() none of them shows the
 * old pages.
 */
#include <linux/vmalloc.h>

#include "vrdma_mdev.h"

#define DOORBELLS_PGOFF (VRDMA_MDEV_MMAP_DOORBELLS >> PAGE_SHIFT)

void *vrdma_doorbells_alloc(const struct vrdma_device *dev)
{
	return vmalloc_user(vrdma_doorbells_size(dev));
}

/* Called for a VM that opens the device: only the mediator reads dev->doorbells meanwhile. */
int vrdma_doorbells_renew(struct vrdma_device *dev)
{
	void *fresh = vrdma_doorbells_alloc(dev);
	void *old = dev->doorbells;

	if (!fresh)
		return -ENOMEM;
	WRITE_ONCE(dev->doorbells, fresh);
	vrdma_faults_wait(&dev->window);
	vrdma_window_zap(&dev->window, DOORBELLS_PGOFF, dev->doorbell_pages);
	vfree(old);
	return 0;
}

static vm_fault_t doorbells_fault(struct vm_fault *vmf)
{
	struct vrdma_device *dev = vmf->vma->vm_private_data;
	const size_t offset = (vmf->pgoff - DOORBELLS_PGOFF) << PAGE_SHIFT;
	vm_fault_t ret;

	vrdma_fault_begin(&dev->window);
	ret = vmf_insert_page(vmf->vma, vmf->address,
			      vmalloc_to_page(READ_ONCE(dev->doorbells) + offset));
	vrdma_fault_end(&dev->window);
	return ret;
}

static const struct vm_operations_struct doorbells_vm_ops = {
	.fault = doorbells_fault,
};

/* The mediator's mapping, from @page on. */
int vrdma_doorbells_mmap(struct vrdma_device *dev, struct vm_area_struct *vma, unsigned long page)
{
	if (page + vma_pages(vma) > dev->doorbell_pages)
		return -EINVAL;
	vm_flags_set(vma, VM_MIXEDMAP | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_private_data = dev;
	vma->vm_ops = &doorbells_vm_ops;
	return 0;
}
