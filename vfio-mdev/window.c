// SPDX-License-Identifier: GPL-2.0-only
/*
 * The window: the guest's memory (its IOVA space) as its mediator sees it. The first touch of a
 * page pins it (mapping.c). The page is taken away at once when the VM unmaps it, is reset, or
 * closes the device.
 *
 * window.pages has the state of a page:
 *
 *   nothing          untouched, or the device's scratch page, which only page tables know
 *   WANTED           a touch waits for it (pins.c)
 *   SCRATCH          the touch must show the scratch page, because nothing could be pinned
 *   a frame          pinned, and shown
 *   ... and REVOKED  pinned, and not to be shown any more, or only if it is touched again (pins.c)
 *   ... and TOUCHED  pinned, and touched since the last sweep (sweep.c)
 *
 * A touch never waits for a thread that maps or unmaps memory, whatever that thread's priority:
 *   - The touch counts in faults while it looks at the entry and fills the page table. revoke()
 *     marks the entries, waits until no fault has seen them as they were, and only then empties the
 *     page tables. The device's thread may see the marks before that, so it does the same for
 *     itself before it unpins the pages.
 *   - The lock of pages is a spinlock, held for a few hundred entries at a time.
 *
 * Locks, outermost first:
 *
 *   type1's device_list_lock, VFIO's dev_set and group locks: callers of dma_unmap, open, close
 *   state.reset_lock
 *   faults: a counted thread holds the mediator's mmap_lock, and waits for no other thread
 *   the lock of pages
 *
 * Only the device's thread takes type1's iommu->lock, and then it holds none of these.
 *
 * Concurrent operations:
 *   pin and close
 *     live is false before close returns; the thread has ended, and VFIO is not asked for pages.
 *   close of the device fd
 *     Its mappings went first, because they hold the file; then inode is cleared.
 *   removal of the mdev
 *     VFIO waits for the VM's close; the device fd keeps the memory of struct vrdma_device.
 */
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/vmalloc.h>

#include "vrdma_mdev.h"

#define REVOKE_BATCH 256

int vrdma_window_init(struct vrdma_device *dev, u64 max_pinned)
{
	struct vrdma_window *window = &dev->window;

	xa_init(&window->pages);
	INIT_LIST_HEAD(&window->mappings);
	init_waitqueue_head(&window->wait);
	window->max_pinned = max_pinned >> PAGE_SHIFT;
	window->max_tables = vrdma_mapping_tables(max_pinned);
	window->pinning = ULONG_MAX;
	atomic_set(&window->faults, 0);

	window->scratch = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	window->info = vmalloc_user(PAGE_SIZE);
	if (window->scratch && window->info)
		return 0;
	vrdma_window_destroy(dev);
	return -ENOMEM;
}

void vrdma_window_destroy(struct vrdma_device *dev)
{
	struct vrdma_window *window = &dev->window;

	WARN_ON(window->pinned);
	xa_destroy(&window->pages);
	vfree(window->info);
	if (window->scratch)
		__free_page(window->scratch);
}

void vrdma_fault_begin(struct vrdma_window *window)
{
	atomic_inc(&window->faults);
	smp_mb__after_atomic(); /* then look: pairs with vrdma_faults_wait() */
}

void vrdma_fault_end(struct vrdma_window *window)
{
	if (atomic_dec_and_test(&window->faults) && wq_has_sleeper(&window->wait))
		wake_up_all(&window->wait);
}

/* Returns when no fault is under way that looked before the caller's change. */
void vrdma_faults_wait(struct vrdma_window *window)
{
	smp_mb(); /* change, then count: pairs with vrdma_fault_begin() */
	wait_event(window->wait, !atomic_read(&window->faults));
}

static void mark_revoked(struct vrdma_window *window, unsigned long first, unsigned long last)
{
	XA_STATE(xas, &window->pages, first);
	unsigned int seen = 0;
	void *entry;

	xas_lock(&xas);
	xas_for_each(&xas, entry, last) {
		if (entry == VRDMA_PAGE_SCRATCH)
			xas_store(&xas, NULL);
		else if (entry != VRDMA_PAGE_WANTED)
			xas_set_mark(&xas, VRDMA_PAGE_REVOKED);
		if (++seen % REVOKE_BATCH)
			continue;
		xas_pause(&xas);
		xas_unlock(&xas);
		cond_resched();
		xas_lock(&xas);
	}
	xas_unlock(&xas);
}

/* Returns the inode of the device fd while there is one, else NULL. The caller puts it. */
static struct inode *hold_inode(struct vrdma_window *window)
{
	struct inode *inode;

	xa_lock(&window->pages);
	inode = window->inode;
	if (inode)
		ihold(inode);
	xa_unlock(&window->pages);
	return inode;
}

/* Empties the mediator's page tables, where they map these pages of the device fd. */
void vrdma_window_zap(struct vrdma_window *window, pgoff_t first, pgoff_t count)
{
	struct inode *inode = hold_inode(window);

	if (!inode)
		return;
	unmap_mapping_pages(inode->i_mapping, first, count, false);
	iput(inode);
}

/* The same for pages of the window, of which a log may be kept. */
void vrdma_window_empty(struct vrdma_window *window, unsigned long first, unsigned long count)
{
	vrdma_log_lose_begin(window);
	vrdma_window_zap(window, VRDMA_WINDOW_PGOFF + first, count);
	vrdma_log_lose_end(window, first, count);
}

/*
 * Takes the dirty bits of these pages from the page tables, and adds them to @dirty, whose first
 * bit is the first page's.
 */
void vrdma_window_take_dirty(struct vrdma_window *window, unsigned long first, unsigned long count,
			     unsigned long *dirty)
{
	struct inode *inode = hold_inode(window);

	if (!inode)
		return;
	vrdma_take_dirty_bits(inode->i_mapping, VRDMA_WINDOW_PGOFF + first, count, dirty);
	iput(inode);
}

/*
 * Afterwards, no page table of the mediator's and no TLB has pages that were revoked before. This
 * holds even if another thread has just emptied the page table and has not yet flushed the TLBs:
 * then the kernel flushes them here as well (mm_tlb_flush_nested()).
 */
void vrdma_window_hide(struct vrdma_window *window, unsigned long first, unsigned long count)
{
	vrdma_faults_wait(window);
	vrdma_window_empty(window, first, count);
}

/* Hides a range from the mediator, and has it unpinned. */
static void revoke(struct vrdma_window *window, unsigned long first, unsigned long last)
{
	mark_revoked(window, first, last);
	vrdma_window_hide(window, first, last - first + 1);
	vrdma_pins_wake(window);
}

/* Counts first, so that a mediator that saw a page go finds the count changed. */
static void count_revocation(struct vrdma_window *window)
{
	xa_lock(&window->pages);
	WRITE_ONCE(window->info->revocations, window->info->revocations + 1);
	xa_unlock(&window->pages);
}

void vrdma_window_revoke(struct vrdma_device *dev, unsigned long first, unsigned long last)
{
	count_revocation(&dev->window);
	revoke(&dev->window, first, last);
}

/* Returns the page for a counted fault: the VM's, or scratch; NULL if the fault must ask for it. */
struct page *vrdma_window_page(struct vrdma_window *window, unsigned long index)
{
	struct page *page = NULL;
	bool revoked;
	void *entry;

	xa_lock(&window->pages);
	entry = xa_load(&window->pages, index);
	revoked = xa_get_mark(&window->pages, index, VRDMA_PAGE_REVOKED) &&
		  !vrdma_pins_reclaim(window, index);
	if (entry == VRDMA_PAGE_SCRATCH)
		__xa_erase(&window->pages, index);
	if (entry == VRDMA_PAGE_SCRATCH || (revoked && window->late)) {
		page = window->scratch;
		WRITE_ONCE(window->info->scratch_faults, window->info->scratch_faults + 1);
	} else if (entry && entry != VRDMA_PAGE_WANTED && !revoked) {
		page = pfn_to_page(xa_to_value(entry));
		if (window->tracked)
			__xa_set_mark(&window->pages, index, VRDMA_PAGE_TOUCHED);
	}
	xa_unlock(&window->pages);
	return page;
}

/* The mediator maps a part of the device fd. */
void vrdma_window_attach(struct vrdma_device *dev, struct inode *inode)
{
	struct vrdma_window *window = &dev->window;

	xa_lock(&window->pages);
	window->inode = inode;
	xa_unlock(&window->pages);
}

/* The device fd is closed, so no mapping of it is left. */
void vrdma_window_detach(struct vrdma_device *dev)
{
	struct vrdma_window *window = &dev->window;

	xa_lock(&window->pages);
	window->inode = NULL;
	xa_unlock(&window->pages);
}

static void set_live(struct vrdma_window *window, bool live)
{
	xa_lock(&window->pages);
	window->live = live;
	xa_unlock(&window->pages);
}

/* Zeroes the scratch page, so that no data passes through it from one VM to the next. */
void vrdma_window_disable(struct vrdma_device *dev)
{
	struct vrdma_window *window = &dev->window;

	lockdep_assert_held(&dev->state.reset_lock);

	set_live(window, false);
	vrdma_window_revoke(dev, 0, VRDMA_WINDOW_PAGES - 1);
	clear_highpage(window->scratch);
}

/* Forgets the scratch pages that were touched since the reset. */
void vrdma_window_enable(struct vrdma_device *dev)
{
	struct vrdma_window *window = &dev->window;

	lockdep_assert_held(&dev->state.reset_lock);

	set_live(window, true);
	revoke(window, 0, VRDMA_WINDOW_PAGES - 1);
}

/* Does not wait: the pages count as pinned until the device's thread has unpinned them. */
void vrdma_window_unpin(struct vrdma_device *dev, u64 iova, u64 length)
{
	revoke(&dev->window, iova >> PAGE_SHIFT, (iova + length - 1) >> PAGE_SHIFT);
}
