/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * On-demand paging without a kernel. The registration of a region maps nothing. When the device
 * asks for pages, a thread of this library maps a part of the program's memory as a registration
 * would have done (memory.h), and tells the device the pages. That part is called a window. A
 * window stays until its region is deregistered, or until the device asks for pages that need
 * another window in its place.
 *
 * If a region was registered by its addresses, the program has meant all of it for the device. So
 * its windows are as large as they may be. In a region of the whole address space, only pages that
 * the device touches become a window: moving a thread's stack would kill the thread (hold.h).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <search.h>
#include <signal.h>
#include <stdlib.h>

#include "device.h"

#define WINDOW_PAGES                                                                               \
	((uint64_t)512) /* of a region with addresses: 2 MiB, aligned as huge pages are */
#define WRITE_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

struct vrdma_on_demand {
	struct vrdma_on_demand *next; /* of all on the device */
	uint32_t key;
	uint32_t pd;
	uint64_t start;   /* the address that work requests use for its first byte */
	uintptr_t memory; /* address of its page 0 */
	uint64_t first_offset;
	uint64_t length;
	bool whole; /* all of the address space */
	bool writable;
	void *windows; /* a tree (tsearch(3)) */
};

struct pages {
	uint64_t first;
	uint64_t count;
};

struct window {
	struct pages pages; /* in the region */
	struct vrdma_region region;
};

static uint64_t pages_of(const struct vrdma_on_demand *od)
{
	return (od->first_offset + od->length + VRDMA_PAGE_SIZE - 1) >> VRDMA_PAGE_SHIFT;
}

/* Pages that overlap a window count as equal to it. This is an order, as windows do not overlap. */
static int compare(const void *a, const void *b)
{
	const struct pages *one = a;
	const struct pages *two = b;

	if (one->first + one->count <= two->first)
		return -1;
	return one->first >= two->first + two->count;
}

static void free_window(struct vrdma_dev *dev, struct vrdma_on_demand *od, struct window *window)
{
	tdelete(window, &od->windows, compare);
	vrdma_region_unmap(&dev->memory, &window->region);
	free(window);
}

static struct window *find_window(const struct vrdma_on_demand *od, struct pages pages)
{
	void *node = tfind(&pages, &od->windows, compare);

	return node ? *(struct window **)node : NULL;
}

/* Removes all windows that overlap the pages. The device no longer touches them then. */
static int unmap(struct vrdma_dev *dev, struct vrdma_on_demand *od, struct pages pages)
{
	struct window *window;

	while ((window = find_window(od, pages))) {
		int ret = -vrdma_cmd_unmap_pages(dev, od->key, window->pages.first,
						 window->pages.count);

		if (ret)
			return ret;
		free_window(dev, od, window);
	}
	return 0;
}

static int tell_pages(struct vrdma_dev *dev, const struct vrdma_on_demand *od,
		      const struct window *window, bool writable)
{
	uint64_t done, count;
	int ret = 0;

	for (done = 0; !ret && done < window->pages.count; done += count) {
		struct vrdma_cmd_map_pages arg = {
			.first = htole64(window->pages.first + done),
			.key = htole32(od->key),
			.flags = htole32(writable ? VRDMA_MAP_WRITABLE : 0),
		};

		count = window->pages.count - done;
		if (count > VRDMA_MAP_MAX_PAGES)
			count = VRDMA_MAP_MAX_PAGES;
		arg.pages = vrdma_contiguous_pages(window->region.iova + (done << VRDMA_PAGE_SHIFT),
						   count << VRDMA_PAGE_SHIFT);
		ret = -vrdma_cmd_map_pages(dev, &arg);
	}
	return ret;
}

static int map_window(struct vrdma_dev *dev, struct vrdma_on_demand *od, struct pages pages,
		      bool writable)
{
	void *start = (void *)(od->memory + (pages.first << VRDMA_PAGE_SHIFT));
	struct window *window = calloc(1, sizeof(*window));
	int ret;

	if (!window)
		return ENOMEM;
	window->pages = pages;
	ret = vrdma_region_map(&dev->memory, &window->region, start,
			       pages.count << VRDMA_PAGE_SHIFT, writable);
	if (ret) {
		free(window);
		return ret;
	}
	if (!tsearch(window, &od->windows, compare)) {
		vrdma_region_unmap(&dev->memory, &window->region);
		free(window);
		return ENOMEM;
	}
	ret = tell_pages(dev, od, window, writable);
	if (ret)
		unmap(dev, od, pages);
	return ret;
}

/* Maps the memory that is there now. Memory that cannot be written is mapped for reading. */
static int map(struct vrdma_dev *dev, struct vrdma_on_demand *od, struct pages pages, bool write)
{
	int ret = unmap(dev, od, pages);

	if (ret)
		return ret;
	ret = map_window(dev, od, pages, od->writable);
	if (ret && od->writable && !write)
		ret = map_window(dev, od, pages, false);
	return ret;
}

static struct pages whole_window(const struct vrdma_on_demand *od, struct pages pages)
{
	const uint64_t before = od->memory / VRDMA_PAGE_SIZE % WINDOW_PAGES;
	const uint64_t first = (pages.first + before) / WINDOW_PAGES * WINDOW_PAGES;
	uint64_t end = pages.first + pages.count + before + WINDOW_PAGES - 1;

	end = end / WINDOW_PAGES * WINDOW_PAGES - before;
	if (end > pages_of(od))
		end = pages_of(od);
	pages.first = first > before ? first - before : 0;
	pages.count = end - pages.first;
	return pages;
}

/* If the memory does not exist as a whole, maps at least the pages that the device touches now. */
static void resolve(struct vrdma_dev *dev, struct vrdma_on_demand *od, struct pages pages,
		    bool write)
{
	if (!od->whole && map(dev, od, whole_window(od, pages), write) == 0)
		return;
	if (map(dev, od, pages, write) == 0)
		return;
	pages.count = 1;
	if (map(dev, od, pages, write) == 0)
		return;
	vrdma_cmd_refuse_pages(dev, od->key, pages.first, 1);
}

static struct vrdma_on_demand *find(const struct vrdma_paging *paging, uint32_t key)
{
	struct vrdma_on_demand *od = paging->regions;

	while (od && od->key != key)
		od = od->next;
	return od;
}

static void handle(struct vrdma_dev *dev, const struct vrdma_page_fault *fault)
{
	struct pages pages = {
		.first = VRDMA_GET(VRDMA_FAULT_PAGE, fault->detail),
		.count = VRDMA_GET(VRDMA_FAULT_COUNT, fault->detail),
	};
	struct vrdma_on_demand *od;

	pthread_mutex_lock(&dev->paging.lock);
	od = find(&dev->paging, fault->key);
	if (od && pages.count && pages.first < pages_of(od)) {
		if (pages.count > pages_of(od) - pages.first)
			pages.count = pages_of(od) - pages.first;
		resolve(dev, od, pages, fault->detail & VRDMA_FAULT_WRITE);
	}
	pthread_mutex_unlock(&dev->paging.lock);
}

/* Waits for a fault. False if the thread is to end. */
static bool next_fault(struct vrdma_paging *paging, struct vrdma_page_fault *fault)
{
	bool stop;

	pthread_mutex_lock(&paging->queue_lock);
	while (!paging->queued && !paging->stop)
		pthread_cond_wait(&paging->posted, &paging->queue_lock);
	stop = paging->stop;
	if (!stop)
		*fault = paging->queue[--paging->queued];
	pthread_mutex_unlock(&paging->queue_lock);
	return !stop;
}

static void *paging_thread(void *arg)
{
	struct vrdma_dev *dev = arg;
	struct vrdma_page_fault fault;

	while (next_fault(&dev->paging, &fault))
		handle(dev, &fault);
	return NULL;
}

/* Drops the fault if there is no room: the device will report it again. */
void vrdma_paging_fault(struct vrdma_dev *dev, uint32_t key, uint64_t detail)
{
	struct vrdma_paging *paging = &dev->paging;

	pthread_mutex_lock(&paging->queue_lock);
	if (paging->queued < VRDMA_MAX_QUEUED_FAULTS)
		paging->queue[paging->queued++] = (struct vrdma_page_fault){key, detail};
	pthread_cond_signal(&paging->posted);
	pthread_mutex_unlock(&paging->queue_lock);
}

/* Leaves signals to the program's own threads. Faults go to the thread that causes them. */
static int start_thread(struct vrdma_dev *dev)
{
	sigset_t all, before;
	int ret;

	if (dev->paging.started)
		return 0;
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&dev->paging.thread, NULL, paging_thread, dev);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	dev->paging.started = !ret;
	return ret;
}

void vrdma_paging_init(struct vrdma_paging *paging)
{
	pthread_mutex_init(&paging->lock, NULL);
	pthread_mutex_init(&paging->queue_lock, NULL);
	pthread_cond_init(&paging->posted, NULL);
}

/* To be called when there are no regions, or the device no longer asks for their pages. */
void vrdma_paging_cleanup(struct vrdma_dev *dev)
{
	struct vrdma_paging *paging = &dev->paging;

	if (!paging->started || dev->forked)
		return;
	pthread_mutex_lock(&paging->queue_lock);
	paging->stop = true;
	pthread_cond_signal(&paging->posted);
	pthread_mutex_unlock(&paging->queue_lock);
	pthread_join(paging->thread, NULL);
}

/* The child does not have the thread, which may have held the lock. */
void vrdma_paging_forked(struct vrdma_paging *paging)
{
	pthread_mutex_init(&paging->queue_lock, NULL);
	pthread_cond_init(&paging->posted, NULL);
}

static void add(struct vrdma_paging *paging, struct vrdma_on_demand *od)
{
	od->next = paging->regions;
	paging->regions = od;
}

/* Takes the lock before the device knows the region, so that its faults find it. */
static int register_region(struct vrdma_dev *dev, struct vrdma_on_demand *od, uint32_t access)
{
	const struct vrdma_cmd_reg_mr arg = {
		.start = htole64(od->start),
		.length = htole64(od->length),
		.pd = htole32(od->pd),
		.access_flags = htole32(access),
		.first_offset = htole32((uint32_t)od->first_offset),
	};
	int ret;

	pthread_mutex_lock(&dev->paging.lock);
	ret = start_thread(dev);
	if (!ret)
		ret = -vrdma_cmd_reg_mr(dev, &arg, &od->key);
	if (!ret)
		add(&dev->paging, od);
	pthread_mutex_unlock(&dev->paging.lock);
	return ret;
}

int vrdma_on_demand_register(struct vrdma_dev *dev, uint32_t pd, void *addr, size_t length,
			     uint64_t start, uint32_t access, struct vrdma_on_demand **made)
{
	struct vrdma_on_demand *od = calloc(1, sizeof(*od));
	int ret;

	if (!od)
		return ENOMEM;
	od->pd = pd;
	od->start = start;
	od->whole = !addr && length == SIZE_MAX;
	od->first_offset = (uintptr_t)addr % VRDMA_PAGE_SIZE;
	od->memory = (uintptr_t)addr - od->first_offset;
	od->length = od->whole ? VRDMA_ON_DEMAND_MAX_SIZE : length;
	od->writable = access & WRITE_ACCESS;
	ret = register_region(dev, od, access);
	if (ret) {
		free(od);
		return ret;
	}
	*made = od;
	return 0;
}

uint32_t vrdma_on_demand_key(const struct vrdma_on_demand *od)
{
	return od->key;
}

/* To be called when the device has forgotten the region. */
void vrdma_on_demand_deregister(struct vrdma_dev *dev, struct vrdma_on_demand *od)
{
	struct vrdma_on_demand **at = &dev->paging.regions;

	pthread_mutex_lock(&dev->paging.lock);
	while (*at != od)
		at = &(*at)->next;
	*at = od->next;
	while (od->windows)
		free_window(dev, od, *(struct window **)od->windows);
	pthread_mutex_unlock(&dev->paging.lock);
	free(od);
}

/* Under the lock. */
static int prefetch(struct vrdma_dev *dev, uint32_t pd, enum ibv_advise_mr_advice advice,
		    const struct ibv_sge *sge)
{
	const bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	struct vrdma_on_demand *od = find(&dev->paging, sge->lkey);
	uint64_t offset, end;
	struct pages pages;
	int ret;

	if (!od || (write && !od->writable))
		return EFAULT;
	if (od->pd != pd)
		return EINVAL;
	offset = sge->addr - od->start;
	if (sge->addr < od->start || offset > od->length || sge->length > od->length - offset)
		return EFAULT;
	if (!sge->length)
		return 0;
	offset += od->first_offset;
	end = offset + sge->length + VRDMA_PAGE_SIZE - 1;
	pages.first = offset >> VRDMA_PAGE_SHIFT;
	pages.count = (end >> VRDMA_PAGE_SHIFT) - pages.first;
	ret = map(dev, od, pages, write);
	return advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT && ret == EFAULT ? 0 : ret;
}

int vrdma_on_demand_advise(struct vrdma_dev *dev, uint32_t pd, enum ibv_advise_mr_advice advice,
			   const struct ibv_sge *list, uint32_t count)
{
	int ret = 0;

	pthread_mutex_lock(&dev->paging.lock);
	for (uint32_t i = 0; !ret && i < count; i++)
		ret = prefetch(dev, pd, advice, &list[i]);
	pthread_mutex_unlock(&dev->paging.lock);
	return ret;
}
