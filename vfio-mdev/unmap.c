// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ranges that the VM unmaps. type1 calls dma_unmap with its device_list_lock held, then checks
 * whether any page is still pinned, and calls again; after ten times it gives up with BUG_ON. So no
 * page in a range is pinned again until the VM's thread has left its system call, which task_work
 * reports.
 *
 * Unpinning needs type1's iommu->lock. Another thread of the VM that unmaps may hold it and wait
 * for device_list_lock. Then the pages can be unpinned only after dma_unmap has returned, so it
 * returns a few times although pages are still pinned. If that does not help, the two threads wait
 * for each other; no other thread waits for them.
 */
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/task_work.h>

#include "vrdma_mdev.h"

#define MAX_UNMAPPERS 64
#define MAX_EARLY_RETURNS 6
#define CONFLICT_TIME msecs_to_jiffies(100)

/* A thread in VFIO_IOMMU_UNMAP_DMA, and the device for which type1 called. */
struct unmapper {
	struct callback_head left;
	struct list_head node;
	struct vrdma_device *dev;
	const struct task_struct *task;
	unsigned long first;
	unsigned long last;
	unsigned int calls; /* in a row, for this range */
};

static LIST_HEAD(unmappers);
static DEFINE_SPINLOCK(unmappers_lock);

bool vrdma_unmapping(const struct vrdma_window *window, unsigned long index)
{
	return window->unmappers && window->unmap_first <= index && index <= window->unmap_last;
}

static void leave(struct callback_head *head)
{
	struct unmapper *unmapper = container_of(head, struct unmapper, left);
	struct vrdma_window *window = &unmapper->dev->window;

	spin_lock(&unmappers_lock);
	list_del(&unmapper->node);
	spin_unlock(&unmappers_lock);
	xa_lock(&window->pages);
	WRITE_ONCE(window->unmappers, window->unmappers - 1); /* read without the lock too */
	xa_unlock(&window->pages);
	vrdma_device_put(unmapper->dev);
	kfree(unmapper);
	module_put(THIS_MODULE);
}

/* Returns the unmapper of this thread and device, or NULL. */
static struct unmapper *find(const struct vrdma_device *dev)
{
	struct unmapper *unmapper;

	list_for_each_entry(unmapper, &unmappers, node)
		if (unmapper->task == current && unmapper->dev == dev)
			return unmapper;
	return NULL;
}

/* Adds an unmapper. leave() removes it when the thread leaves the system call. */
static struct unmapper *enter(struct vrdma_device *dev)
{
	struct vrdma_window *window = &dev->window;
	struct unmapper *unmapper;

	if (READ_ONCE(window->unmappers) >= MAX_UNMAPPERS)
		return NULL;
	unmapper = kzalloc(sizeof(*unmapper), GFP_KERNEL_ACCOUNT);
	if (!unmapper)
		return NULL;
	unmapper->dev = dev;
	unmapper->task = current;
	init_task_work(&unmapper->left, leave);
	if (task_work_add(current, &unmapper->left, TWA_RESUME)) {
		kfree(unmapper);
		return NULL;
	}
	__module_get(THIS_MODULE);
	vrdma_device_get(dev);

	spin_lock(&unmappers_lock);
	list_add(&unmapper->node, &unmappers);
	spin_unlock(&unmappers_lock);
	return unmapper;
}

/*
 * Counts this thread's consecutive calls for this range, of all devices: type1's count is no
 * higher.
 */
static unsigned int count_call(struct unmapper *mine, unsigned long first, unsigned long last)
{
	struct unmapper *unmapper;
	unsigned int calls = 0;

	spin_lock(&unmappers_lock);
	list_for_each_entry(unmapper, &unmappers, node)
		if (unmapper->task == current && unmapper->first == first && unmapper->last == last)
			calls = max(calls, unmapper->calls);
	mine->first = first;
	mine->last = last;
	mine->calls = calls + 1;
	spin_unlock(&unmappers_lock);
	return calls + 1;
}

/*
 * Forbids the hull of all ranges that are being unmapped. A VM unmaps one range at a time, or must
 * accept scratch pages in between.
 */
static void forbid(struct vrdma_window *window, bool entered, unsigned long first,
		   unsigned long last)
{
	xa_lock(&window->pages);
	if (!window->unmappers) {
		window->unmap_first = first;
		window->unmap_last = last;
	} else {
		window->unmap_first = min(window->unmap_first, first);
		window->unmap_last = max(window->unmap_last, last);
	}
	WRITE_ONCE(window->unmappers, window->unmappers + entered);
	xa_unlock(&window->pages);
}

static void seal(struct vrdma_window *window)
{
	xa_lock(&window->pages);
	window->sealed = true;
	xa_unlock(&window->pages);
}

/* Returns how often type1 has asked for this range: UINT_MAX if the thread cannot be followed. */
static unsigned int begin(struct vrdma_device *dev, unsigned long first, unsigned long last)
{
	struct unmapper *unmapper;
	bool entered;

	spin_lock(&unmappers_lock);
	unmapper = find(dev);
	spin_unlock(&unmappers_lock);
	entered = !unmapper;
	if (entered)
		unmapper = enter(dev);
	if (!unmapper) {
		seal(&dev->window);
		return UINT_MAX;
	}
	forbid(&dev->window, entered, first, last);
	return count_call(unmapper, first, last);
}

/* Waits until the pages are unpinned, or, with may_return, until type1 keeps the worker from it. */
static void drain(struct vrdma_window *window, unsigned long first, unsigned long last,
		  bool may_return)
{
	unsigned long steps;

	do {
		steps = READ_ONCE(window->steps);
		if (wait_event_timeout(window->wait, vrdma_pins_settled(window, first, last),
				       CONFLICT_TIME))
			return;
	} while (!may_return || steps != READ_ONCE(window->steps));
}

void vrdma_window_dma_unmap(struct vfio_device *vdev, u64 iova, u64 length)
{
	struct vrdma_device *dev = vrdma_device_of(vdev);
	unsigned long first = iova >> PAGE_SHIFT;
	unsigned long last = min_t(u64, (iova + length - 1) >> PAGE_SHIFT, VRDMA_WINDOW_PAGES - 1);
	unsigned int calls;

	if (first > last)
		return;
	calls = begin(dev, first, last);
	vrdma_window_revoke(dev, first, last);
	vrdma_file_revoke(dev, first, last);
	drain(&dev->window, first, last, calls <= MAX_EARLY_RETURNS);
}

/*
 * Waits until each leave() that has put the module has returned: it may have been preempted there.
 */
void vrdma_unmap_exit(void)
{
	synchronize_rcu_tasks();
}
