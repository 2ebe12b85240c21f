// SPDX-License-Identifier: GPL-2.0-only
/*
 * A mapping of the window in a process of the mediator's.
 *
 * A touch (an access by the mediator) that needs a page releases mmap_lock, waits for the device's
 * thread, and has the fault retried, which then finds the page. If it held mmap_lock, a stalled VM
 * process would also stall every mmap() of the mediator, and with it all other VMs.
 *
 * Page tables: the lowest ones cover 2 MiB each, and a guest can cause a touch of a page in each 2
 * MiB of a TiB, whether it has memory there or not. Linux frees page tables only when their range
 * is unmapped. So they are counted, and a mapping with the maximal number is replaced by an equal
 * mapping without any. Later touches then show the pinned pages again. A guest that stays within
 * its share of memory never reaches the maximum. The tables above cover a GiB each: 4 MiB in all.
 */
#include <linux/atomic.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/refcount.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "vrdma_mdev.h"

/* Pinned pages may be scattered over so many times their size of the window. */
#define TABLE_SPREAD 4
#define MIN_TABLES 1024u
#define MAX_TABLES (VRDMA_MDEV_WINDOW_SIZE >> PMD_SHIFT)

struct mapping {
	struct vrdma_device *dev;
	struct mm_struct *mm;
	struct list_head node; /* in window.mappings */
	refcount_t users;      /* VMAs (several after a split), and threads about to replace it */
	atomic_t tables;       /* tables added; counts twice if two faults add the same one */
};

unsigned int vrdma_mapping_tables(u64 max_pinned)
{
	return clamp_t(u64, (max_pinned >> PMD_SHIFT) * TABLE_SPREAD, MIN_TABLES, MAX_TABLES);
}

static void put_mapping(struct mapping *mapping)
{
	struct vrdma_window *window = &mapping->dev->window;

	if (!refcount_dec_and_test(&mapping->users))
		return;
	xa_lock(&window->pages);
	list_del(&mapping->node);
	xa_unlock(&window->pages);
	mmdrop(mapping->mm);
	kfree(mapping);
}

/* Whether a process with a mapping of the window ends, and its page tables may be gone. */
bool vrdma_mappings_end(struct vrdma_window *window)
{
	const struct mapping *mapping;
	bool ends = false;

	xa_lock(&window->pages);
	list_for_each_entry(mapping, &window->mappings, node)
		ends |= !atomic_read(&mapping->mm->mm_users);
	xa_unlock(&window->pages);
	return ends;
}

/* Whether a fault needs a page table that the mapping does not have. */
static bool lacks_table(const struct vm_fault *vmf)
{
	return pmd_none(READ_ONCE(*vmf->pmd));
}

static bool has_all_tables(struct mapping *mapping)
{
	return atomic_read(&mapping->tables) >= mapping->dev->window.max_tables;
}

/*
 * Replaces the mapping by an equal one. Other threads may do the same at the same time, without
 * harm. If the process cannot get the new mapping, it goes on with this one.
 */
static vm_fault_t replace(struct vm_area_struct *vma)
{
	struct mapping *mapping = vma->vm_private_data;
	const unsigned long prot = vma->vm_flags & (VM_READ | VM_WRITE | VM_EXEC);
	const unsigned long start = vma->vm_start;
	const unsigned long size = vma->vm_end - vma->vm_start;
	const unsigned long offset = vma->vm_pgoff << PAGE_SHIFT;
	struct file *file = get_file(vma->vm_file);

	static_assert(VM_READ == PROT_READ && VM_WRITE == PROT_WRITE && VM_EXEC == PROT_EXEC);
	refcount_inc(&mapping->users);
	mmap_read_unlock(vma->vm_mm);
	if (IS_ERR_VALUE(vm_mmap(file, start, size, prot, MAP_SHARED | MAP_FIXED, offset)))
		atomic_set(&mapping->tables, 0);
	put_mapping(mapping);
	fput(file);
	return VM_FAULT_RETRY;
}

/* vma->vm_page_prot is read-only, because there is a pfn_mkwrite operation. */
static pgprot_t protection(const struct vm_area_struct *vma, bool may_write)
{
	return vm_get_page_prot(may_write ? vma->vm_flags : vma->vm_flags & ~VM_WRITE);
}

static vm_fault_t show(struct mapping *mapping, struct vm_fault *vmf, unsigned long index)
{
	struct vrdma_window *window = &mapping->dev->window;
	const bool new_table = lacks_table(vmf);
	const bool writes = vmf->flags & FAULT_FLAG_WRITE;
	struct vrdma_log *log;
	struct page *page;
	vm_fault_t ret = 0;
	bool writable;

	vrdma_fault_begin(window);
	log = READ_ONCE(window->log);
	page = vrdma_window_page(window, index);
	writable = !log || page == window->scratch || vrdma_log_lets_write(log, index, writes);
	if (page)
		ret = vmf_insert_pfn_prot(vmf->vma, vmf->address, page_to_pfn(page),
					  protection(vmf->vma, writable));
	vrdma_fault_end(window);
	if (ret == VM_FAULT_NOPAGE && new_table)
		atomic_inc(&mapping->tables);
	return ret;
}

static vm_fault_t wait_for_page(struct vm_area_struct *vma, struct vrdma_device *dev,
				unsigned long index)
{
	struct file *file = get_file(vma->vm_file);

	mmap_read_unlock(vma->vm_mm);
	vrdma_pins_touch(dev, index);
	fput(file);
	return VM_FAULT_RETRY;
}

static vm_fault_t fault(struct vm_fault *vmf)
{
	struct mapping *mapping = vmf->vma->vm_private_data;
	const unsigned long index = vmf->pgoff - VRDMA_WINDOW_PGOFF;
	/* A fault of a load or a store, in user space or in copy_to_user(), can be retried. */
	const bool may_retry = (vmf->flags & (FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_RETRY_NOWAIT)) ==
			       FAULT_FLAG_ALLOW_RETRY;
	vm_fault_t ret;

	/*
	 * A remote fault pins the window itself for DMA: the device's thread would wait for itself.
	 */
	if (vmf->flags & FAULT_FLAG_REMOTE)
		return VM_FAULT_SIGBUS;

	if (may_retry && lacks_table(vmf) && has_all_tables(mapping))
		return replace(vmf->vma);
	ret = show(mapping, vmf, index);
	if (ret)
		return ret;
	return may_retry ? wait_for_page(vmf->vma, mapping->dev, index) : VM_FAULT_SIGBUS;
}

/*
 * A write to a page that a log has shown read-only. If this made the page table's entry writable,
 * another thread could have replaced it by the same one of another time. So the access faults
 * again. The page is noted before that, and so is shown writable even if the next access reads it:
 * the instruction may read the page first, and so may other threads. Else these would show it
 * read-only again, and the write could fault for ever.
 */
static vm_fault_t show_writable(struct vm_fault *vmf)
{
	const struct mapping *mapping = vmf->vma->vm_private_data;
	struct vrdma_window *window = &mapping->dev->window;
	const unsigned long index = vmf->pgoff - VRDMA_WINDOW_PGOFF;
	struct vrdma_log *log;

	vrdma_fault_begin(window);
	log = READ_ONCE(window->log);
	if (log)
		vrdma_log_lets_write(log, index, true);
	vrdma_fault_end(window);
	vrdma_window_empty(window, index, 1);
	return VM_FAULT_NOPAGE;
}

static void area_open(struct vm_area_struct *vma)
{
	struct mapping *mapping = vma->vm_private_data;

	refcount_inc(&mapping->users);
}

/* Its page tables have been emptied. */
static void area_close(struct vm_area_struct *vma)
{
	struct mapping *mapping = vma->vm_private_data;
	struct vrdma_window *window = &mapping->dev->window;

	vrdma_log_lose_begin(window);
	vrdma_log_lose_end(window, vma->vm_pgoff - VRDMA_WINDOW_PGOFF, vma_pages(vma));
	put_mapping(mapping);
}

static const struct vm_operations_struct window_vm_ops = {
	.open = area_open,
	.close = area_close,
	.fault = fault,
	.pfn_mkwrite = show_writable,
};

int vrdma_window_mmap(struct vrdma_device *dev, struct vm_area_struct *vma)
{
	struct mapping *mapping;

	if (vma->vm_pgoff - VRDMA_WINDOW_PGOFF + vma_pages(vma) > VRDMA_WINDOW_PAGES)
		return -EINVAL;
	if (!(vma->vm_flags & VM_SHARED)) /* a log does not see its writes */
		return -EINVAL;

	mapping = kzalloc(sizeof(*mapping), GFP_KERNEL_ACCOUNT);
	if (!mapping)
		return -ENOMEM;
	mapping->dev = dev;
	mapping->mm = vma->vm_mm;
	mmgrab(mapping->mm);
	refcount_set(&mapping->users, 1);
	xa_lock(&dev->window.pages);
	list_add(&mapping->node, &dev->window.mappings);
	xa_unlock(&dev->window.pages);
	vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY);
	vma->vm_private_data = mapping;
	vma->vm_ops = &window_vm_ops;
	return 0;
}
