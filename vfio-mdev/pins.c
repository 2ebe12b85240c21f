// SPDX-License-Identifier: GPL-2.0-only
/*
 * For each device that a VM has, one thread pins the VM's pages through type1, and unpins them.
 *
 * type1 makes its callers wait for a mutex that the VM's threads may hold for any time: they may
 * have low priority on a busy processor, and two that unmap can block each other for ever. So only
 * this thread calls type1. A touch waits for it, but at most TOUCH_TIME, and can be killed. Once a
 * touch has timed out, others show the scratch page at once until type1 has answered. Touches may
 * wait longer than SHORT_TOUCH for at most a sixteenth of the time, because their poller serves
 * other devices as well.
 *
 * window.pages has the thread's tasks: it pins pages that are WANTED and have the mark, and unpins
 * pages with the mark REVOKED. A revoked page keeps its entry until type1 has unpinned it, so that
 * it is not pinned again before that. A touch may reclaim it until the thread reaches it.
 */
#include <linux/jiffies.h>
#include <linux/sched.h>

#include "vrdma_mdev.h"

#define WANTED_MARK XA_MARK_1
#define TOUCH_TIME msecs_to_jiffies(1000)
#define SHORT_TOUCH msecs_to_jiffies(100)
#define PATIENCE_SHIFT 4
#define SETTLE_TIME msecs_to_jiffies(1000)

static void set_pinned(struct vrdma_window *window, unsigned long pages)
{
	window->pinned = pages;
	WRITE_ONCE(window->info->pinned, (u64)pages << PAGE_SHIFT);
}

/* Whether a page may be shown, or be pinned. */
static bool admits(const struct vrdma_window *window, unsigned long index)
{
	return window->live && !window->sealed && !vrdma_unmapping(window, index);
}

/* Replaces an entry, so it needs no memory. The fault that finds the entry removes it. */
static void show_scratch(struct vrdma_window *window, unsigned long index)
{
	__xa_clear_mark(&window->pages, index, WANTED_MARK);
	__xa_store(&window->pages, index, VRDMA_PAGE_SCRATCH, GFP_ATOMIC);
}

/* Called when type1 has answered. */
static void finish_step(struct vrdma_window *window)
{
	WRITE_ONCE(window->steps, window->steps + 1); /* read without the lock too */
	window->late = false;
}

/* Finds the next pages to unpin: @first and those after it. Returns their number. */
static unsigned int next_revoked(struct vrdma_window *window, unsigned long *first)
{
	unsigned int count = 0;

	*first = 0;
	xa_lock(&window->pages);
	if (xa_find(&window->pages, first, ULONG_MAX, VRDMA_PAGE_REVOKED))
		while (count < VFIO_PIN_PAGES_MAX_ENTRIES &&
		       xa_get_mark(&window->pages, *first + count, VRDMA_PAGE_REVOKED))
			count++;
	window->unpinning = *first;
	window->unpinning_end = *first + count;
	xa_unlock(&window->pages);
	return count;
}

/*
 * With the lock held: shows a revoked page again that the worker has not reached. type1 still has
 * it pinned, so it is the VM's until the VM unmaps it. UNPIN or a reset then need not pin it anew.
 */
bool vrdma_pins_reclaim(struct vrdma_window *window, unsigned long index)
{
	if (!admits(window, index) || (window->unpinning <= index && index < window->unpinning_end))
		return false;
	__xa_clear_mark(&window->pages, index, VRDMA_PAGE_REVOKED);
	return true;
}

/* A container unpins any range. iommufd unpins what was pinned together: single pages. */
static void unpin(struct vrdma_device *dev, unsigned long first, unsigned int count)
{
	const unsigned int step = vrdma_uses_iommufd(&dev->vdev) ? 1 : count;

	for (; count; first += step, count -= step)
		vfio_unpin_pages(&dev->vdev, (dma_addr_t)first << PAGE_SHIFT, step);
}

static bool unpin_some(struct vrdma_device *dev)
{
	struct vrdma_window *window = &dev->window;
	unsigned long first;
	unsigned int count = next_revoked(window, &first);
	unsigned int i;

	if (!count)
		return false;
	/* The thread that marked them may not have emptied the page tables yet. */
	vrdma_window_hide(window, first, count);
	unpin(dev, first, count);

	xa_lock(&window->pages);
	for (i = 0; i < count; i++)
		__xa_erase(&window->pages, first + i);
	window->unpinning_end = window->unpinning;
	set_pinned(window, window->pinned - count);
	finish_step(window);
	xa_unlock(&window->pages);
	wake_up_all(&window->wait);
	return true;
}

/*
 * Finds the next page to pin, or shows it as scratch. Beyond the limit, a page waits while others
 * are to be unpinned.
 */
static bool next_wanted(struct vrdma_window *window, unsigned long *index)
{
	bool found, full;

	*index = 0;
	xa_lock(&window->pages);
	found = xa_find(&window->pages, index, ULONG_MAX, WANTED_MARK);
	full = window->pinned >= window->max_pinned;
	if (found && full && xa_marked(&window->pages, VRDMA_PAGE_REVOKED)) {
		found = false;
	} else if (found && (full || !admits(window, *index))) {
		show_scratch(window, *index);
	} else if (found) {
		__xa_clear_mark(&window->pages, *index, WANTED_MARK);
		window->pinning = *index;
	}
	xa_unlock(&window->pages);
	return found;
}

/*
 * Returns whether the page is shown. It is not if it was unmapped meanwhile, or if no touch waits.
 */
static bool keep(struct vrdma_window *window, unsigned long index, const struct page *page)
{
	bool wanted = xa_load(&window->pages, index) == VRDMA_PAGE_WANTED;

	if (!page || !wanted || !admits(window, index)) {
		if (wanted)
			show_scratch(window, index);
		return false;
	}
	__xa_store(&window->pages, index, xa_mk_value(page_to_pfn(page)), GFP_ATOMIC);
	set_pinned(window, window->pinned + 1);
	window->pins += !READ_ONCE(window->log);
	return true;
}

static void pin(struct vrdma_device *dev, unsigned long index)
{
	struct vrdma_window *window = &dev->window;
	const dma_addr_t iova = (dma_addr_t)index << PAGE_SHIFT;
	struct page *page;
	bool kept;

	if (vfio_pin_pages(&dev->vdev, iova, 1, IOMMU_READ | IOMMU_WRITE, &page) != 1)
		page = NULL;
	xa_lock(&window->pages);
	finish_step(window);
	kept = keep(window, index, page);
	xa_unlock(&window->pages);
	if (page && !kept)
		vfio_unpin_pages(&dev->vdev, iova, 1);

	xa_lock(&window->pages);
	finish_step(window);
	window->pinning = ULONG_MAX;
	xa_unlock(&window->pages);
}

static bool pin_one(struct vrdma_device *dev)
{
	struct vrdma_window *window = &dev->window;
	unsigned long index;

	if (!next_wanted(window, &index))
		return false;
	if (window->pinning == index)
		pin(dev, index);
	wake_up_all(&window->wait);
	return true;
}

/*
 * Nothing is left to do. If this thread was late, and not type1, touches have given up their
 * requests, so no call of type1 has reset late.
 */
static void catch_up(struct vrdma_window *window)
{
	xa_lock(&window->pages);
	window->late = false;
	xa_unlock(&window->pages);
	wake_up_all(&window->wait); /* reclaimed pages are settled, too */
}

static void work(struct kthread_work *work)
{
	struct vrdma_window *window = container_of(work, struct vrdma_window, work);
	struct vrdma_device *dev = container_of(window, struct vrdma_device, window);
	bool pinned, unpinned;

	/* Alternates: unpinning a million pages takes seconds, and touches wait less. */
	do {
		pinned = pin_one(dev);
		unpinned = unpin_some(dev);
		cond_resched();
	} while (pinned || unpinned);
	catch_up(window);
}

/* With the lock held: a worker that exists has not been told to end. */
static void wake_worker(struct vrdma_window *window)
{
	if (window->worker)
		kthread_queue_work(window->worker, &window->work);
}

void vrdma_pins_wake(struct vrdma_window *window)
{
	xa_lock(&window->pages);
	wake_worker(window);
	xa_unlock(&window->pages);
}

static void request(struct vrdma_window *window, unsigned long index)
{
	xa_lock(&window->pages);
	if (!__xa_cmpxchg(&window->pages, index, NULL, VRDMA_PAGE_WANTED, GFP_KERNEL_ACCOUNT)) {
		if (window->late || !admits(window, index)) {
			show_scratch(window, index);
		} else {
			__xa_set_mark(&window->pages, index, WANTED_MARK);
			wake_worker(window);
		}
	}
	xa_unlock(&window->pages);
}

/* With the lock held: whether the worker has yet to handle this page. */
static bool unanswered(struct vrdma_window *window, unsigned long index)
{
	return xa_load(&window->pages, index) == VRDMA_PAGE_WANTED ||
	       xa_get_mark(&window->pages, index, VRDMA_PAGE_REVOKED);
}

static bool answered(struct vrdma_window *window, unsigned long index)
{
	bool waits;

	xa_lock(&window->pages);
	waits = unanswered(window, index);
	xa_unlock(&window->pages);
	return !waits;
}

/*
 * Rechecks with the lock held: a worker that has answered has no more work, and would not reset
 * late.
 */
static void give_up(struct vrdma_window *window, unsigned long index)
{
	xa_lock(&window->pages);
	if (unanswered(window, index)) {
		window->late = true;
		if (xa_load(&window->pages, index) == VRDMA_PAGE_WANTED)
			show_scratch(window, index);
	}
	xa_unlock(&window->pages);
}

/* The time that a touch may wait now. */
static unsigned long patience(struct vrdma_window *window)
{
	unsigned long regained, left;

	xa_lock(&window->pages);
	regained = (jiffies - window->patience_at) >> PATIENCE_SHIFT;
	window->patience_at += regained << PATIENCE_SHIFT;
	window->patience = min(window->patience + regained, TOUCH_TIME);
	left = max(window->patience, SHORT_TOUCH);
	xa_unlock(&window->pages);
	return left;
}

static void spend_patience(struct vrdma_window *window, unsigned long waited)
{
	if (waited < SHORT_TOUCH)
		return;
	xa_lock(&window->pages);
	window->patience -= min(window->patience, waited);
	xa_unlock(&window->pages);
}

/*
 * Gives @index an entry. If memory is short, or the thread is killed, it does not; the fault
 * repeats.
 */
void vrdma_pins_touch(struct vrdma_device *dev, unsigned long index)
{
	struct vrdma_window *window = &dev->window;
	const unsigned long start = jiffies;

	request(window, index);
	if (!wait_event_killable_timeout(window->wait, answered(window, index), patience(window)))
		give_up(window, index);
	spend_patience(window, jiffies - start);
}

/* Whether no page of the range is being pinned, or is to be unpinned. Shown pages do not count. */
bool vrdma_pins_settled(struct vrdma_window *window, unsigned long first, unsigned long last)
{
	unsigned long index = first;
	bool settled;

	xa_lock(&window->pages);
	settled = !xa_find(&window->pages, &index, last, VRDMA_PAGE_REVOKED) &&
		  (window->pinning < first || window->pinning > last);
	xa_unlock(&window->pages);
	return settled;
}

/* For the VM's own thread: waits until the revoked pages are unpinned, but at most SETTLE_TIME. */
void vrdma_pins_settle(struct vrdma_window *window)
{
	wait_event_killable_timeout(window->wait,
				    vrdma_pins_settled(window, 0, VRDMA_WINDOW_PAGES - 1),
				    SETTLE_TIME);
}

void vrdma_pins_count(struct vrdma_window *window, struct vrdma_mdev_precopy *precopy)
{
	xa_lock(&window->pages);
	precopy->pinned = READ_ONCE(window->log) ? 0 : window->pinned;
	precopy->pins = window->pins + atomic64_read(&window->written);
	xa_unlock(&window->pages);
}

/* The worker has real-time priority, because pollers wait for it. */
int vrdma_pins_open(struct vrdma_device *dev)
{
	struct vrdma_window *window = &dev->window;
	struct kthread_worker *worker = kthread_create_worker(0, "vrdma/%u", dev->id);

	if (IS_ERR(worker))
		return PTR_ERR(worker);
	sched_set_fifo(worker->task);
	kthread_init_work(&window->work, work);
	vrdma_sweep_init(window);
	xa_lock(&window->pages);
	window->worker = worker;
	window->late = false;
	window->sealed = false;
	window->patience = TOUCH_TIME;
	window->patience_at = jiffies;
	xa_unlock(&window->pages);
	return 0;
}

/* The window is closed, so all pages are unpinned before this returns. */
void vrdma_pins_close(struct vrdma_device *dev)
{
	struct vrdma_window *window = &dev->window;
	struct kthread_worker *worker;

	xa_lock(&window->pages);
	worker = window->worker;
	window->worker = NULL;
	xa_unlock(&window->pages);
	vrdma_sweep_exit(window);
	kthread_destroy_worker(worker);
	WARN_ON(window->pinned);
}
