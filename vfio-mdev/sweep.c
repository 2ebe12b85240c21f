// SPDX-License-Identifier: GPL-2.0-only
/*
 * While the VM moves, pages that the mediator does not use are unpinned.
 *
 * type1 reports each pinned page as dirty whenever the VM monitor asks, and an unpinned page once
 * more. If all registered memory stayed pinned, the VM monitor would send all of it in each pass,
 * and a slow channel would never be done. So the pinned pages become those in use.
 *
 * A sweep empties the page tables of the window. Each touch then faults, and the fault marks the
 * page as TOUCHED. The next sweep takes away the pages that have no mark, and the device's thread
 * unpins them. A later touch pins a page again. The data path takes no lock for this, and nothing
 * tells reads from writes: type1 does not know the difference either.
 *
 * The device's thread sweeps, between its other work. While a log tells the VM monitor what was
 * written (log.c), nothing is swept: then pinned pages do not count as dirty.
 */
#include <linux/jiffies.h>

#include "vrdma_mdev.h"

/*
 * A sweep costs one fault for each page in use. The next sweep waits so long that there are at most
 * so many of these faults per second: 3 % of the time, if a fault takes a microsecond. It waits a
 * tenth of a second at least, because passes of a migration are rarely shorter.
 */
#define SWEEP_TIME msecs_to_jiffies(100)
#define PAGES_PER_SECOND 30000

#define SWEEP_BATCH 256

/* With the lock held. Returns whether the page is in use. */
static bool judge(struct xa_state *xas, const void *entry, bool tracked)
{
	if (entry == VRDMA_PAGE_WANTED || entry == VRDMA_PAGE_SCRATCH ||
	    xas_get_mark(xas, VRDMA_PAGE_REVOKED))
		return false;
	if (tracked && !xas_get_mark(xas, VRDMA_PAGE_TOUCHED)) {
		xas_set_mark(xas, VRDMA_PAGE_REVOKED);
		return false;
	}
	xas_clear_mark(xas, VRDMA_PAGE_TOUCHED);
	return true;
}

/* Marks the pages that were not touched since the last sweep. Returns the number of the others. */
static unsigned long judge_all(struct vrdma_window *window, bool tracked)
{
	XA_STATE(xas, &window->pages, 0);
	unsigned long used = 0;
	unsigned int seen = 0;
	void *entry;

	xas_lock(&xas);
	xas_for_each(&xas, entry, ULONG_MAX) {
		used += judge(&xas, entry, tracked);
		if (++seen % SWEEP_BATCH)
			continue;
		xas_pause(&xas);
		xas_unlock(&xas);
		cond_resched();
		xas_lock(&xas);
	}
	xas_unlock(&xas);
	return used;
}

/* The first sweep only begins to track touches. It does not know how many pages are in use. */
static void sweep(struct kthread_work *work)
{
	struct vrdma_window *window = container_of(work, struct vrdma_window, sweep.work);
	bool sweeps, tracked, tracks;
	unsigned long used = 0, delay = SWEEP_TIME;

	xa_lock(&window->pages);
	sweeps = window->sweeps;
	tracks = sweeps && !READ_ONCE(window->log);
	tracked = window->tracked;
	window->tracked = tracks;
	xa_unlock(&window->pages);
	if (!sweeps)
		return;

	if (tracks) {
		used = judge_all(window, tracked);
		vrdma_window_hide(window, 0, VRDMA_WINDOW_PAGES);
	}
	if (tracked)
		delay = max(SWEEP_TIME, used * HZ / PAGES_PER_SECOND);

	xa_lock(&window->pages);
	window->next_sweep = jiffies + delay;
	if (window->worker) {
		kthread_queue_work(window->worker, &window->work);
		kthread_queue_delayed_work(window->worker, &window->sweep, delay);
	}
	xa_unlock(&window->pages);
}

/*
 * The VM begins to move, or stops to do so. A sweep that is under way may still end. A VM monitor
 * that begins again and again gets no more sweeps than the pace allows.
 */
void vrdma_sweep_set(struct vrdma_device *dev, bool sweeps)
{
	struct vrdma_window *window = &dev->window;
	unsigned long now = jiffies, delay;

	xa_lock(&window->pages);
	delay = time_after(window->next_sweep, now) ? window->next_sweep - now : 0;
	window->sweeps = sweeps;
	window->tracked = false;
	if (sweeps && window->worker)
		kthread_mod_delayed_work(window->worker, &window->sweep, delay);
	xa_unlock(&window->pages);
}

void vrdma_sweep_init(struct vrdma_window *window)
{
	window->sweeps = false;
	window->next_sweep = jiffies;
	kthread_init_delayed_work(&window->sweep, sweep);
}

/* No sweep is queued again, because the window has no thread any more. */
void vrdma_sweep_exit(struct vrdma_window *window)
{
	kthread_cancel_delayed_work_sync(&window->sweep);
}
