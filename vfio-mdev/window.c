// SPDX-License-Identifier: GPL-2.0-only
/*
 * The window: the guest's memory (its IOVA space) as its mediator sees it, a page pinned when it is
 * first touched, and taken away at once when the VM unmaps it, is reset, or closes the device.
 *
 * window.pages says what each touched page shows: a pinned page, or the device's scratch page where
 * nothing could be pinned. A page table entry of the mediator exists only where pages has an entry
 * and the range is not blocked.
 *
 * Locks, outermost first:
 *
 *   type1's device_list_lock, VFIO's dev_set and group locks: callers of dma_unmap, open, close
 *   window.pin_lock: pages, live, pinned, unmap_*; held across vfio_pin_pages()
 *   type1's iommu->lock
 *   mmap_lock: the VM's process under pin_lock, the mediator in a fault or mmap without it
 *   window.map_lock: blocked, mapping; faults are readers
 *   i_mmap_rwsem, page table locks
 *
 * state.lock is innermost, under pin_lock alone.
 *
 * A fault must not take pin_lock with the mediator's mmap_lock held: whatever stalls one VM's
 * process would then stall the mediator's every mmap(), and with it all other VMs. So it lets go of
 * mmap_lock, pins, and has the fault retried, which finds the page.
 *
 * Who meets whom:
 *   fault and dma_unmap, reset, close
 *     revoke() blocks the range and zaps it under map_lock, so that no fault maps it again; then it
 *     unpins. A fault that comes meanwhile waits for pin_lock and finds no page.
 *   pin and close
 *     live is false before close returns; VFIO is not asked for pages after that.
 *   close of the device fd
 *     Its mappings went first, as they hold the file; then mapping is cleared under map_lock.
 *   removal of the mdev
 *     VFIO waits for the VM's close; the device fd keeps the memory of struct vrdma_device.
 */
#include <linux/file.h>
#include <linux/highmem.h>
#include <linux/jiffies.h>
#include <linux/vmalloc.h>

#include "vrdma_mdev.h"

#define WINDOW_PGOFF (VRDMA_MDEV_MMAP_WINDOW >> PAGE_SHIFT)
#define WINDOW_PAGES (VRDMA_MDEV_WINDOW_SIZE >> PAGE_SHIFT)
#define SCRATCH xa_mk_value(LONG_MAX)

/*
 * type1 calls dma_unmap, looks whether a touch pinned a page again meanwhile, and then repeats;
 * after ten times it gives up with BUG_ON. So a range that it comes back to so often within so
 * short a time is no longer pinned.
 */
#define MAX_UNMAP_REPEATS 4
#define UNMAP_TIME msecs_to_jiffies(10)

int vrdma_window_init(struct vrdma_device *dev, u64 max_pinned)
{
	struct vrdma_window *window = &dev->window;

	mutex_init(&window->pin_lock);
	init_rwsem(&window->map_lock);
	xa_init(&window->pages);
	window->blocked_first = ULONG_MAX;
	window->max_pinned = max_pinned >> PAGE_SHIFT;

	window->scratch = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!window->scratch)
		return -ENOMEM;
	window->info = vmalloc_user(PAGE_SIZE);
	if (!window->info) {
		__free_page(window->scratch);
		return -ENOMEM;
	}
	return 0;
}

void vrdma_window_destroy(struct vrdma_device *dev)
{
	struct vrdma_window *window = &dev->window;

	WARN_ON(window->pinned);
	xa_destroy(&window->pages);
	vfree(window->info);
	__free_page(window->scratch);
}

static void set_pinned(struct vrdma_window *window, unsigned long pages)
{
	window->pinned = pages;
	WRITE_ONCE(window->info->pinned, (u64)pages << PAGE_SHIFT);
}

static void unpin_run(struct vrdma_device *dev, unsigned long first, unsigned long count)
{
	if (!count)
		return;
	vfio_unpin_pages(&dev->vdev, (dma_addr_t)first << PAGE_SHIFT, count);
	set_pinned(&dev->window, dev->window.pinned - count);
}

static void unpin(struct vrdma_device *dev, unsigned long first, unsigned long last)
{
	struct xarray *pages = &dev->window.pages;
	unsigned long run = first, count = 0, index;
	void *entry;

	xa_for_each_range(pages, index, entry, first, last) {
		if (index != run + count || count == VFIO_PIN_PAGES_MAX_ENTRIES ||
		    entry == SCRATCH) {
			unpin_run(dev, run, count);
			run = index;
			count = 0;
		}
		if (entry != SCRATCH)
			count++;
		xa_erase(pages, index);
		cond_resched();
	}
	unpin_run(dev, run, count);
}

static void block(struct vrdma_window *window, unsigned long first, unsigned long last)
{
	down_write(&window->map_lock);
	window->blocked_first = first;
	window->blocked_last = last;
	if (window->mapping)
		unmap_mapping_pages(window->mapping, WINDOW_PGOFF + first, last - first + 1, false);
	up_write(&window->map_lock);
}

static void unblock(struct vrdma_window *window)
{
	down_write(&window->map_lock);
	window->blocked_first = ULONG_MAX;
	window->blocked_last = 0;
	up_write(&window->map_lock);
}

/* Takes a range out of the mediator's sight, then unpins it. */
static void revoke(struct vrdma_device *dev, unsigned long first, unsigned long last)
{
	struct vrdma_window *window = &dev->window;
	unsigned long index = first;

	lockdep_assert_held(&window->pin_lock);

	if (!xa_find(&window->pages, &index, last, XA_PRESENT))
		return;
	block(window, first, last);
	unpin(dev, first, last);
	unblock(window);
}

/* Counted first, so that a mediator which saw a page go finds the count changed. */
static void count_revocation(struct vrdma_window *window)
{
	WRITE_ONCE(window->info->revocations, window->info->revocations + 1);
}

static void note_unmap(struct vrdma_window *window, unsigned long first, unsigned long last)
{
	bool repeated = first == window->unmap_first && last == window->unmap_last &&
			time_before(jiffies, window->unmap_until);

	window->unmap_first = first;
	window->unmap_last = last;
	window->unmap_until = jiffies + UNMAP_TIME;
	window->unmap_repeats = repeated ? window->unmap_repeats + 1 : 0;
}

static bool being_unmapped(const struct vrdma_window *window, unsigned long index)
{
	return window->unmap_repeats >= MAX_UNMAP_REPEATS && window->unmap_first <= index &&
	       index <= window->unmap_last && time_before(jiffies, window->unmap_until);
}

static void *pin(struct vrdma_device *dev, unsigned long index)
{
	struct vrdma_window *window = &dev->window;
	struct page *page;

	if (!window->live || window->pinned >= window->max_pinned || being_unmapped(window, index))
		return SCRATCH;
	if (vfio_pin_pages(&dev->vdev, (dma_addr_t)index << PAGE_SHIFT, 1, IOMMU_READ | IOMMU_WRITE,
			   &page) != 1)
		return SCRATCH;
	set_pinned(window, window->pinned + 1);
	return xa_mk_value(page_to_pfn(page));
}

/* Gives @index an entry. Short of memory it does not, and the fault repeats. */
static void touch(struct vrdma_device *dev, unsigned long index)
{
	struct vrdma_window *window = &dev->window;
	void *entry;

	mutex_lock(&window->pin_lock);
	if (!xa_load(&window->pages, index)) {
		entry = pin(dev, index);
		if (xa_err(xa_store(&window->pages, index, entry, GFP_KERNEL_ACCOUNT))) {
			if (entry != SCRATCH)
				unpin_run(dev, index, 1);
		} else if (entry == SCRATCH) {
			WRITE_ONCE(window->info->scratch_faults, window->info->scratch_faults + 1);
		}
	}
	mutex_unlock(&window->pin_lock);
}

/* Maps what pages has for the faulting address; 0 if it has nothing. */
static vm_fault_t map_entry(struct vrdma_window *window, struct vm_fault *vmf, unsigned long index)
{
	vm_fault_t ret = 0;
	void *entry = NULL;

	down_read(&window->map_lock);
	if (index < window->blocked_first || index > window->blocked_last)
		entry = xa_load(&window->pages, index);
	if (entry)
		ret = vmf_insert_pfn(vmf->vma, vmf->address,
				     entry == SCRATCH ? page_to_pfn(window->scratch) :
							xa_to_value(entry));
	up_read(&window->map_lock);
	return ret;
}

static vm_fault_t window_fault(struct vm_fault *vmf)
{
	struct vrdma_device *dev = vmf->vma->vm_private_data;
	unsigned long index = vmf->pgoff - WINDOW_PGOFF;
	struct file *file;
	vm_fault_t ret;

	/* Somebody pins the window itself for DMA, under the very locks that pin() would take. */
	if (vmf->flags & FAULT_FLAG_REMOTE)
		return VM_FAULT_SIGBUS;

	ret = map_entry(&dev->window, vmf, index);
	if (ret)
		return ret;

	/* The fault of a load or a store, in user space or in copy_to_user(), can be retried. */
	if ((vmf->flags & (FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_RETRY_NOWAIT)) !=
	    FAULT_FLAG_ALLOW_RETRY)
		return VM_FAULT_SIGBUS;

	file = get_file(vmf->vma->vm_file);
	mmap_read_unlock(vmf->vma->vm_mm);
	touch(dev, index);
	fput(file);
	return VM_FAULT_RETRY;
}

static const struct vm_operations_struct window_vm_ops = {
	.fault = window_fault,
};

int vrdma_window_mmap(struct vrdma_device *dev, struct vm_area_struct *vma)
{
	struct vrdma_window *window = &dev->window;

	if (vma->vm_pgoff - WINDOW_PGOFF + vma_pages(vma) > WINDOW_PAGES)
		return -EINVAL;

	vma->vm_flags |= VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY;
	vma->vm_private_data = dev;
	vma->vm_ops = &window_vm_ops;

	down_write(&window->map_lock);
	window->mapping = vma->vm_file->f_mapping;
	up_write(&window->map_lock);
	return 0;
}

/* The device fd is closed, and so no mapping of it is left. */
void vrdma_window_detach(struct vrdma_device *dev)
{
	struct vrdma_window *window = &dev->window;

	down_write(&window->map_lock);
	window->mapping = NULL;
	up_write(&window->map_lock);
}

/* The scratch page goes back to zero so that nothing passes through it from one VM to the next. */
void vrdma_window_disable(struct vrdma_device *dev)
{
	struct vrdma_window *window = &dev->window;

	lockdep_assert_held(&window->pin_lock);

	window->live = false;
	count_revocation(window);
	revoke(dev, 0, WINDOW_PAGES - 1);
	clear_highpage(window->scratch);
}

/* Forgets the scratch pages that were touched since the reset. */
void vrdma_window_enable(struct vrdma_device *dev)
{
	struct vrdma_window *window = &dev->window;

	lockdep_assert_held(&window->pin_lock);

	revoke(dev, 0, WINDOW_PAGES - 1);
	window->live = true;
}

void vrdma_window_unpin(struct vrdma_device *dev, u64 iova, u64 length)
{
	struct vrdma_window *window = &dev->window;

	mutex_lock(&window->pin_lock);
	revoke(dev, iova >> PAGE_SHIFT, (iova + length - 1) >> PAGE_SHIFT);
	mutex_unlock(&window->pin_lock);
}

void vrdma_window_dma_unmap(struct vfio_device *vdev, u64 iova, u64 length)
{
	struct vrdma_device *dev = vrdma_device_of(vdev);
	struct vrdma_window *window = &dev->window;
	unsigned long first = iova >> PAGE_SHIFT;
	unsigned long last = min_t(u64, (iova + length - 1) >> PAGE_SHIFT, WINDOW_PAGES - 1);

	if (first > last)
		return;
	mutex_lock(&window->pin_lock);
	note_unmap(window, first, last);
	count_revocation(window);
	revoke(dev, first, last);
	mutex_unlock(&window->pin_lock);
}
