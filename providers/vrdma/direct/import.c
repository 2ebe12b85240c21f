/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Importing without a kernel. It works within one process, because a device has one client.
 *
 * A context's command fd is the end of a pipe of its own, so its duplicates are known by their
 * inode. Contexts on one pipe share a user context, to which their objects belong. The user context
 * ends with the last of these contexts, not with the last duplicate.
 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device.h"

static bool same_ucontext(struct ibv_context *a, struct ibv_context *b)
{
	return to_vrdma_context(a)->ucontext == to_vrdma_context(b)->ucontext;
}

int vrdma_direct_import_pd(struct ibv_context *context, uint32_t handle, struct vrdma_pd *pd)
{
	struct vrdma_events *events = &to_vrdma_context(context)->dev->events;
	struct vrdma_listed *item;

	pthread_mutex_lock(&events->lock);
	for (item = events->pds; item; item = item->next) {
		const struct ibv_pd *base = &container_of(item, struct vrdma_pd, listed)->base;

		if (base->handle == handle && same_ucontext(base->context, context))
			break;
	}
	pthread_mutex_unlock(&events->lock);
	pd->base.context = context;
	pd->base.handle = handle;
	return item ? 0 : ENOENT;
}

int vrdma_direct_import_mr(struct ibv_pd *pd, uint32_t handle, struct vrdma_mr *mr)
{
	struct vrdma_events *events = &to_vrdma_context(pd->context)->dev->events;
	struct ibv_mr *base = &mr->base.ibv_mr;
	struct vrdma_listed *item;

	pthread_mutex_lock(&events->lock);
	for (item = events->mrs; item; item = item->next) {
		*base = container_of(item, struct vrdma_mr, listed)->base.ibv_mr;
		if (base->handle == handle && same_ucontext(base->context, pd->context))
			break;
	}
	pthread_mutex_unlock(&events->lock);
	base->context = pd->context;
	base->pd = pd;
	base->addr = NULL;
	mr->base.mr_type = IBV_MR_TYPE_IMPORTED_MR;
	return item ? 0 : ENOENT;
}

/* A search for the context whose command fd is the given file. */
struct search {
	struct stat file;
	struct vrdma_import found;
	struct vrdma_direct_device *device; /* a new one, as in a program's list */
};

static bool has_file(struct vrdma_dev *dev, void *arg)
{
	struct search *search = arg;
	struct vrdma_context *context;
	struct stat file;

	pthread_mutex_lock(&dev->events.lock);
	for (context = dev->events.contexts; context; context = context->next) {
		if (!fstat(context->base.context.cmd_fd, &file) &&
		    file.st_dev == search->file.st_dev && file.st_ino == search->file.st_ino)
			break;
	}
	if (context) {
		const struct vrdma_direct_device *twin = (struct vrdma_direct_device *)
								 context->base.context.device;

		search->device = vrdma_direct_device_new(&twin->options);
		search->found.dev = dev;
		search->found.ucontext = context->ucontext;
		search->found.doorbell_page = context->doorbell_page;
	}
	pthread_mutex_unlock(&dev->events.lock);
	return context != NULL;
}

struct ibv_context *vrdma_direct_import(int cmd_fd)
{
	struct search search = {.found.cmd_fd = cmd_fd};
	struct ibv_context *context;

	if (fstat(cmd_fd, &search.file)) {
		errno = EINVAL;
		return NULL;
	}
	if (!vrdma_dev_find(has_file, &search)) {
		errno = ENODEV;
		return NULL;
	}
	if (!search.device) {
		vrdma_dev_put(search.found.dev);
		errno = ENOMEM;
		return NULL;
	}
	context = verbs_open_device(&search.device->base.device, &search.found);
	vrdma_direct_device_ops.uninit_device(&search.device->base);
	return context;
}
