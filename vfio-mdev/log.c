// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tells the VM monitor which pages the device has written since it last asked (VFIO's DMA logging),
 * so that a VM that moves sends only these again. Kernels without CONFIG_IOMMUFD_DRIVER have a stub
 * of the bitmap that this needs, except Linux 6.1 to 6.6: there, sweep.c makes the pinned pages
 * those in use instead.
 *
 * The device's only way to the memory is its mediator's mappings of the window. So the page tables
 * know what was written, whatever thread has written it and why, and a mediator that is killed in
 * the middle of a write, or that lies, hides nothing. While the log is kept, a page that is read is
 * shown read-only. A write to it faults (mapping.c), and from then on the page is shown writable.
 * The processor sets the dirty bit of its entry when it writes. The VM monitor's question takes
 * these bits. So a page costs one fault for each log, or two if it was read first, and after each
 * question the time in which the processor sets a bit. Without a log nothing has a cost.
 *
 * No write is lost:
 *   - A fault notes that the page is shown writable, and then shows it. A question looks for the
 *     dirty bits of all pages that are noted, and flushes the TLBs before it answers.
 *   - An entry that goes takes its dirty bit along: when pages are given back or unmapped, and when
 *     the mediator unmaps the window or ends. Then the pages that are noted are marked, and the
 *     next question tells them. It waits for threads that have emptied page tables and have not
 *     marked the pages yet. It tells all pages that are noted while a process with a mapping ends.
 *   - log_start() publishes the log, waits for the faults that have not seen it, and empties the
 *     page tables. log_stop() waits for the threads that have seen it.
 *   - A device that is frozen has no thread in a fault.
 *
 * log_lock is the VM monitor's threads' own. They take it first, and no fault takes it.
 */
#include <linux/interval_tree.h>
#include <linux/iova_bitmap.h>
#include <linux/mm.h>

#include "vrdma_mdev.h"

VRDMA_IMPORT_IOVA_BITMAP;

/* The pages that are taken at a time. Each such step flushes TLBs. */
#define LOG_BATCH 32768

struct vrdma_log {
	unsigned long pages;		  /* from IOVA 0 on */
	unsigned long *noted;		  /* that were shown writable */
	unsigned long *marked;		  /* of these, those whose dirty bits may have got lost */
	DECLARE_BITMAP(taken, LOG_BATCH); /* by a question, under log_lock */
	unsigned long bits[];
};

/* For a counted fault: whether it shows the page writable. If so, the page is noted. */
bool vrdma_log_lets_write(struct vrdma_log *log, unsigned long index, bool writes)
{
	if (index >= log->pages)
		return true;
	if (writes)
		set_bit(index, log->noted);
	return test_bit(index, log->noted);
}

/* The caller's thread is about to empty page tables. */
void vrdma_log_lose_begin(struct vrdma_window *window)
{
	atomic_inc(&window->losses);
	smp_mb__after_atomic(); /* count, then empty: pairs with losses_wait() */
}

static void mark(struct vrdma_log *log, unsigned long first, unsigned long end)
{
	unsigned long page = first;
	unsigned int seen = 0;

	for_each_set_bit_from(page, log->noted, end) {
		set_bit(page, log->marked);
		if (!(++seen % LOG_BATCH))
			cond_resched();
	}
}

/* The page tables of all mappings, or of one, have lost these pages. */
void vrdma_log_lose_end(struct vrdma_window *window, unsigned long first, unsigned long count)
{
	struct vrdma_log *log = READ_ONCE(window->log);

	if (log && first < log->pages)
		mark(log, first, min(first + count, log->pages));
	if (atomic_dec_and_test(&window->losses) && wq_has_sleeper(&window->wait))
		wake_up_all(&window->wait);
}

/* Returns when no thread is between these two that was before. */
static void losses_wait(struct vrdma_window *window)
{
	smp_mb(); /* pairs with vrdma_log_lose_begin() */
	wait_event(window->wait, !atomic_read(&window->losses));
}

/* The ranges do not overlap. The device sees nothing beyond its window. */
static unsigned long pages_of(const struct rb_root_cached *ranges)
{
	const struct rb_node *last = rb_last(&ranges->rb_root);
	unsigned long end;

	if (!last)
		return 0;
	end = rb_entry(last, struct interval_tree_node, rb)->last >> PAGE_SHIFT;
	return min_t(unsigned long, end, VRDMA_WINDOW_PAGES - 1) + 1;
}

static struct vrdma_log *create(unsigned long pages)
{
	const unsigned long longs = BITS_TO_LONGS(pages);
	struct vrdma_log *log = kvzalloc(struct_size(log, bits, 2 * longs), GFP_KERNEL_ACCOUNT);

	if (log) {
		log->pages = pages;
		log->noted = log->bits;
		log->marked = log->bits + longs;
	}
	return log;
}

static int log_start(struct vfio_device *vdev, struct rb_root_cached *ranges, u32 count,
		     u64 *page_size)
{
	struct vrdma_window *window = &vrdma_device_of(vdev)->window;
	const unsigned long pages = pages_of(ranges);
	struct vrdma_log *log;
	int ret = -EALREADY;

	if (!pages)
		return -EINVAL;
	log = create(pages);
	if (!log)
		return -ENOMEM;
	if (mutex_lock_killable(&window->log_lock)) {
		ret = -EINTR;
	} else {
		if (!window->log) {
			WRITE_ONCE(window->log, log);
			vrdma_window_hide(window, 0, VRDMA_WINDOW_PAGES);
			ret = 0;
		}
		mutex_unlock(&window->log_lock);
	}
	if (ret)
		kvfree(log);
	*page_size = PAGE_SIZE;
	return ret;
}

/* Pages may stay read-only. A write to them faults once, and shows them writable. */
void vrdma_log_stop(struct vrdma_window *window)
{
	struct vrdma_log *log;

	mutex_lock(&window->log_lock);
	log = window->log;
	WRITE_ONCE(window->log, NULL);
	vrdma_faults_wait(window);
	losses_wait(window);
	kvfree(log);
	mutex_unlock(&window->log_lock);
}

static int log_stop(struct vfio_device *vdev)
{
	vrdma_log_stop(&vrdma_device_of(vdev)->window);
	return 0;
}

/* Page tables first: what they lose after that is marked, or told by the next question. */
static void take(struct vrdma_window *window, struct vrdma_log *log, unsigned long first,
		 unsigned long end)
{
	unsigned long page = first;
	bool ending;

	bitmap_zero(log->taken, LOG_BATCH);
	vrdma_window_take_dirty(window, first, end - first, log->taken);
	ending = vrdma_mappings_end(window);
	for_each_set_bit_from(page, log->noted, end)
		if (test_and_clear_bit(page, log->marked) || ending)
			__set_bit(page - first, log->taken);
}

static void tell(struct vrdma_window *window, struct vrdma_log *log, unsigned long base,
		 struct iova_bitmap *dirty)
{
	unsigned int first, end;

	for_each_set_bitrange(first, end, log->taken, LOG_BATCH) {
		iova_bitmap_set(dirty, (base + first) << PAGE_SHIFT,
				(size_t)(end - first) << PAGE_SHIFT);
		atomic64_add(end - first, &window->written);
	}
}

static void report(struct vrdma_window *window, unsigned long first, unsigned long end,
		   struct iova_bitmap *dirty)
{
	struct vrdma_log *log = window->log;
	unsigned long next;

	losses_wait(window);
	end = min(end, log->pages);
	for (; first < end; first = next) {
		first = find_next_bit(log->noted, end, first);
		if (first >= end)
			break;
		next = min(first + LOG_BATCH, end);
		take(window, log, first, next);
		tell(window, log, first, dirty);
		cond_resched();
	}
}

static int log_read_and_clear(struct vfio_device *vdev, unsigned long iova, unsigned long length,
			      struct iova_bitmap *dirty)
{
	struct vrdma_window *window = &vrdma_device_of(vdev)->window;
	int ret = -EINVAL;

	if (!length)
		return 0;
	if (mutex_lock_killable(&window->log_lock))
		return -EINTR;
	if (window->log) {
		report(window, iova >> PAGE_SHIFT, ((iova + length - 1) >> PAGE_SHIFT) + 1, dirty);
		ret = 0;
	}
	mutex_unlock(&window->log_lock);
	return ret;
}

static const struct vfio_log_ops log_ops = {
	.log_start = log_start,
	.log_stop = log_stop,
	.log_read_and_clear = log_read_and_clear,
};

/* QEMU fails to migrate a device that offers a log and cannot tell it. */
void vrdma_log_init(struct vrdma_device *dev)
{
	mutex_init(&dev->window.log_lock);
	atomic_set(&dev->window.losses, 0);
	if (VRDMA_KEEPS_LOGS)
		dev->vdev.log_ops = &log_ops;
}
