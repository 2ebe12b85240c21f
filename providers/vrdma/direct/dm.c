/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Device memory without a kernel: pages of this process. All contexts of a device can import it. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "device.h"

static struct vrdma_dev *dev_of(const struct vrdma_dm *dm)
{
	return to_vrdma_context(dm->base.dm.context)->dev;
}

static size_t whole_pages(size_t length)
{
	return (length + VRDMA_PAGE_SIZE - 1) & ~(size_t)(VRDMA_PAGE_SIZE - 1);
}

static struct vrdma_dm *find(const struct vrdma_dev *dev, uint32_t handle)
{
	struct vrdma_dm *dm = dev->dms;

	while (dm && dm->base.handle != handle)
		dm = dm->next;
	return dm;
}

static size_t size_of_all(const struct vrdma_dev *dev)
{
	size_t size = 0;

	for (const struct vrdma_dm *dm = dev->dms; dm; dm = dm->next)
		size += whole_pages(dm->length);
	return size;
}

static int map_pages(struct vrdma_dm *dm, size_t length)
{
	dm->data = mmap(NULL, whole_pages(length), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (dm->data == MAP_FAILED)
		return errno;
	dm->length = length;
	return 0;
}

/* Under the lock. Handles wrap around; 0 is not a handle. */
static void add(struct vrdma_dev *dev, struct vrdma_dm *dm)
{
	do
		dev->last_dm++;
	while (!dev->last_dm || find(dev, dev->last_dm));
	dm->base.handle = dev->last_dm;
	dm->next = dev->dms;
	dev->dms = dm;
}

int vrdma_direct_alloc_dm(struct ibv_context *context, const struct ibv_alloc_dm_attr *attr,
			  struct vrdma_dm *dm)
{
	struct vrdma_dev *dev = to_vrdma_context(context)->dev;
	int ret = ENOMEM;

	pthread_mutex_lock(&dev->dm_lock);
	if (whole_pages(attr->length) <= VRDMA_MAX_DM_SIZE - size_of_all(dev))
		ret = map_pages(dm, attr->length);
	if (!ret)
		add(dev, dm);
	pthread_mutex_unlock(&dev->dm_lock);
	return ret;
}

int vrdma_direct_free_dm(struct vrdma_dm *dm)
{
	struct vrdma_dev *dev = dev_of(dm);
	struct vrdma_dm **at = &dev->dms;
	bool busy;

	pthread_mutex_lock(&dev->dm_lock);
	busy = dm->regions;
	while (!busy && *at != dm)
		at = &(*at)->next;
	if (!busy)
		*at = dm->next;
	pthread_mutex_unlock(&dev->dm_lock);
	if (busy)
		return EBUSY;
	munmap(dm->data, whole_pages(dm->length));
	return 0;
}

int vrdma_direct_import_dm(struct ibv_context *context, uint32_t handle, struct vrdma_dm *dm)
{
	struct vrdma_dev *dev = to_vrdma_context(context)->dev;
	const struct vrdma_dm *other;

	pthread_mutex_lock(&dev->dm_lock);
	other = find(dev, handle);
	if (other)
		*dm = (struct vrdma_dm){
			.base.handle = handle, .data = other->data, .length = other->length};
	pthread_mutex_unlock(&dev->dm_lock);
	return other ? 0 : ENOENT;
}

/* The memory belongs to the object that was imported. */
void vrdma_direct_unimport_dm(struct vrdma_dm *dm)
{
	(void)dm;
}

/* A region of the memory, or of an imported view of it, is registered (1) or deregistered (-1). */
void vrdma_direct_use_dm(struct vrdma_dev *dev, uint32_t handle, int change)
{
	struct vrdma_dm *owner;

	pthread_mutex_lock(&dev->dm_lock);
	owner = find(dev, handle);
	if (owner)
		owner->regions += (unsigned int)change;
	pthread_mutex_unlock(&dev->dm_lock);
}
