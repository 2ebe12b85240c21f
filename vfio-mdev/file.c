// SPDX-License-Identifier: GPL-2.0-only
/*
 * The file behind the VM's memory, for a mediator that maps it a second time. An HCA of the host
 * pins such a mapping. It cannot pin the window, whose pages the kernel does not know (VM_PFNMAP).
 *
 * The page itself tells its file's mapping (struct address_space) and its place there, but not a
 * file that is open. The VM monitor has one open: so its areas are looked through for a shared one
 * that maps this place. VM_SHARED means that the VM monitor opened the file for writing, so the
 * mediator gets no right that the VM monitor does not have.
 *
 * Only tmpfs is taken, memfd is that, too. Files of huge pages cannot be mapped page by page, and
 * other file systems must know when their pages are written.
 *
 * Locks: the lock of pages, and the VM monitor's mmap_lock, never both. The latter is tried only: a
 * VM monitor may hold it for any time. A page is looked at with the lock of pages held, while it
 * has an entry that shows it: then type1 has it pinned, and so it is not freed. It may leave its
 * file meanwhile. Then its place in the file is a hole, or another page of the VM's.
 */
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>

#include "vrdma_mdev.h"

#define FILE_BATCH 256
#define MAX_AREAS 65536 /* more than vm.max_map_count allows by default */

/* The place of a page of the VM in its file. */
struct place {
	const struct address_space *mapping; /* only to be compared */
	pgoff_t pgoff;
};

void vrdma_file_open(struct vrdma_window *window)
{
	mmgrab(current->mm);
	xa_lock(&window->pages);
	window->vm = current->mm;
	window->given = false;
	xa_unlock(&window->pages);
}

void vrdma_file_close(struct vrdma_window *window)
{
	struct mm_struct *vm;

	xa_lock(&window->pages);
	vm = window->vm;
	window->vm = NULL;
	xa_unlock(&window->pages);
	if (vm)
		mmdrop(vm);
}

/* With the lock held: finds a page that is pinned and shown. */
static bool find_place(struct vrdma_window *window, unsigned long index, struct place *place)
{
	const void *entry = xa_load(&window->pages, index);
	const struct folio *folio;
	struct page *page;

	if (!entry || entry == VRDMA_PAGE_WANTED || entry == VRDMA_PAGE_SCRATCH ||
	    xa_get_mark(&window->pages, index, VRDMA_PAGE_REVOKED))
		return false;
	page = pfn_to_page(xa_to_value(entry));
	folio = page_folio(page);
	place->mapping = READ_ONCE(folio->mapping);
	place->pgoff = folio->index + (page_to_pfn(page) - page_to_pfn(&folio->page));
	return true;
}

/*
 * Returns the number of pages from @first on that follow each other in this file, from this place
 * on. If they are unmapped later, the mediator is told.
 */
static unsigned long count_run(struct vrdma_window *window, unsigned long first,
			       unsigned long count, const struct place *start)
{
	struct place place;
	unsigned long i;

	xa_lock(&window->pages);
	window->given = true;
	for (i = 0; i < count; i++) {
		if (!find_place(window, first + i, &place) || place.mapping != start->mapping ||
		    place.pgoff != start->pgoff + i)
			break;
		if ((i + 1) % FILE_BATCH)
			continue;
		xa_unlock(&window->pages);
		cond_resched();
		xa_lock(&window->pages);
	}
	xa_unlock(&window->pages);
	return i;
}

static bool maps_place(struct vm_area_struct *area, const struct place *place)
{
	return area->vm_file && (area->vm_flags & VM_SHARED) &&
	       area->vm_file->f_mapping == place->mapping && place->pgoff >= area->vm_pgoff &&
	       place->pgoff - area->vm_pgoff < vma_pages(area);
}

/* With the VM monitor's mmap_lock held. Returns a reference, or an error. */
static struct file *find_area(struct mm_struct *vm, const struct place *place)
{
	struct vm_area_struct *area;
	unsigned long address = 0;
	unsigned int areas;

	for (areas = 0; areas < MAX_AREAS; areas++) {
		area = find_vma(vm, address);
		if (!area)
			break;
		if (maps_place(area, place))
			return get_file(area->vm_file);
		address = area->vm_end;
		cond_resched();
	}
	return ERR_PTR(-EOPNOTSUPP);
}

/* Returns a reference to the VM monitor's memory, unless it ends or there is no VM. */
static struct mm_struct *hold_vm(struct vrdma_window *window)
{
	struct mm_struct *vm;

	xa_lock(&window->pages);
	vm = window->vm;
	if (vm && !mmget_not_zero(vm))
		vm = NULL;
	xa_unlock(&window->pages);
	return vm;
}

static struct file *find_file(struct vrdma_window *window, const struct place *place)
{
	struct mm_struct *vm = hold_vm(window);
	struct file *file = ERR_PTR(-EAGAIN);

	if (!vm)
		return ERR_PTR(-EFAULT);
	if (mmap_read_trylock(vm)) {
		file = find_area(vm, place);
		mmap_read_unlock(vm);
	}
	mmput_async(vm); /* if the VM monitor has ended, this thread need not free its memory */
	if (!IS_ERR(file) && file_inode(file)->i_sb->s_magic != TMPFS_MAGIC) {
		fput(file);
		return ERR_PTR(-EOPNOTSUPP);
	}
	return file;
}

/*
 * Returns a reference to the file of these pages, and changes their number to those that follow
 * each other there. Until the file was held, its mapping may have been another's.
 */
struct file *vrdma_file_of(struct vrdma_device *dev, unsigned long first, unsigned long *count,
			   pgoff_t *pgoff)
{
	struct vrdma_window *window = &dev->window;
	struct place place = {};
	struct file *file;
	bool found;

	xa_lock(&window->pages);
	found = find_place(window, first, &place);
	xa_unlock(&window->pages);
	if (!found)
		return ERR_PTR(-EFAULT);
	file = find_file(window, &place);
	if (IS_ERR(file))
		return file;
	*count = count_run(window, first, *count, &place);
	*pgoff = place.pgoff;
	if (*count)
		return file;
	fput(file);
	return ERR_PTR(-EFAULT);
}

/* The VM unmaps a range whose pages an HCA of the host may have. */
void vrdma_file_revoke(struct vrdma_device *dev, unsigned long first, unsigned long last)
{
	struct vrdma_window *window = &dev->window;
	bool given;

	xa_lock(&window->pages);
	given = window->given;
	xa_unlock(&window->pages);
	if (given)
		vrdma_state_revoked(dev, first, last);
}
