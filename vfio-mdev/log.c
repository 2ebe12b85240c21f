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
 * shown read-only. A write to it faults (mapping.c), and the fault shows the page writable and
 * marks it. The VM monitor's question takes the marks and empties the page tables there, so that
 * the next write faults again. Each page costs one fault for each question before which it was
 * written, or two if it was read first. Without a log nothing has a cost.
 *
 * No write is lost:
 *   - A fault shows the page, and then marks it. The question takes the mark, and then empties the
 *     page table and the TLBs. So a page that is shown writable has a mark, or will have it before
 *     its fault ends.
 *   - log_start() publishes the log, waits for the faults that have not seen it, and empties the
 *     page tables. log_stop() waits for the faults that have seen it.
 *   - A device that is frozen has no thread in a fault.
 *   - Marks outlive the pages' pins: a page that was given back or unmapped since is reported too.
 *
 * log_lock is the VM monitor's threads' own. They take it first, and no fault takes it.
 */
#include <linux/interval_tree.h>
#include <linux/iova_bitmap.h>
#include <linux/mm.h>

#include "vrdma_mdev.h"

VRDMA_IMPORT_IOVA_BITMAP;

/* The marks that are taken at a time: those of a page table. */
#define LOG_BATCH 512

struct vrdma_log {
	unsigned long pages; /* from IOVA 0 on */
	unsigned long marks[];
};

/* For a fault that has just shown the page, and is still counted. */
void vrdma_log_mark(struct vrdma_window *window, struct vrdma_log *log, unsigned long index)
{
	if (index >= log->pages)
		return;
	smp_mb__before_atomic(); /* show, then mark: pairs with test_and_clear_bit() in take() */
	if (!test_and_set_bit(index, log->marks))
		atomic64_inc(&window->written);
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
	struct vrdma_log *log =
		kvzalloc(struct_size(log, marks, BITS_TO_LONGS(pages)), GFP_KERNEL_ACCOUNT);

	if (log)
		log->pages = pages;
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
	kvfree(log);
	mutex_unlock(&window->log_lock);
}

static int log_stop(struct vfio_device *vdev)
{
	vrdma_log_stop(&vrdma_device_of(vdev)->window);
	return 0;
}

/* Moves the marks of pages from @first on to @taken. Returns the last page that had one. */
static unsigned long take(struct vrdma_log *log, unsigned long first, unsigned long end,
			  unsigned long *taken)
{
	unsigned long page, last = first;

	bitmap_zero(taken, LOG_BATCH);
	for (page = first; page < end; page = find_next_bit(log->marks, end, page + 1)) {
		if (!test_and_clear_bit(page, log->marks))
			continue;
		__set_bit(page % LOG_BATCH, taken);
		last = page;
	}
	return last;
}

static void tell(struct iova_bitmap *dirty, unsigned long base, const unsigned long *taken)
{
	unsigned int first, end;

	for_each_set_bitrange(first, end, taken, LOG_BATCH)
		iova_bitmap_set(dirty, (base + first) << PAGE_SHIFT,
				(size_t)(end - first) << PAGE_SHIFT);
}

static void report(struct vrdma_window *window, unsigned long first, unsigned long end,
		   struct iova_bitmap *dirty)
{
	DECLARE_BITMAP(taken, LOG_BATCH);
	struct vrdma_log *log = window->log;
	unsigned long base, last, next;

	end = min(end, log->pages);
	for (; first < end; first = next) {
		first = find_next_bit(log->marks, end, first);
		if (first >= end)
			break;
		base = round_down(first, LOG_BATCH);
		next = min(base + LOG_BATCH, end);
		last = take(log, first, next, taken);
		vrdma_window_zap(window, VRDMA_WINDOW_PGOFF + first, last - first + 1);
		tell(dirty, base, taken);
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
	if (VRDMA_HAVE_IOVA_BITMAP)
		dev->vdev.log_ops = &log_ops;
}
