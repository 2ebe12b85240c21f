/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Contexts that libibverbs takes for the kernel's.
 *
 * libibverbs still asks the kernel for GIDs and P_Keys. That fails with ENOTTY, and libibverbs then
 * reads them from sysfs, which is the device's directory here (sysfs.c). But libibverbs opens a
 * device that has a sysfs entry by its character device. So the device in the program's list has no
 * sysfs entry, and each context belongs to a twin that has one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"

static const struct verbs_context_ops event_ops = {
	.async_event = vrdma_async_event,
	.cq_event = vrdma_cq_event,
};

struct vrdma_direct_device *vrdma_direct_device_new(const struct vrdma_options *options)
{
	struct vrdma_direct_device *device = calloc(1, sizeof(*device));
	struct ibv_device *base;

	if (!device)
		return NULL;
	device->options = *options;
	device->options.path = strdup(options->path);
	if (!device->options.path) {
		free(device);
		return NULL;
	}
	base = &device->base.device;
	base->node_type = IBV_NODE_CA;
	base->transport_type = IBV_TRANSPORT_IB;
	snprintf(base->name, sizeof(base->name), "%s", options->name);
	snprintf(base->dev_name, sizeof(base->dev_name), "%s", options->name);
	device->base.ops = &vrdma_direct_device_ops;
	device->base.refcount = 1;
	return device;
}

static void uninit_device(struct verbs_device *base)
{
	struct vrdma_direct_device *device = (struct vrdma_direct_device *)base;

	free(device->options.path);
	free(device);
}

/* The values that libibverbs would have read from the kernel. */
static struct verbs_sysfs_dev *make_sysfs(const struct vrdma_dev *dev, const char *name)
{
	struct verbs_sysfs_dev *sysfs = calloc(1, sizeof(*sysfs));
	uint64_t guid;

	if (!sysfs)
		return NULL;
	memcpy(&guid, dev->caps.node_guid, sizeof(guid));
	sysfs->flags = VSYSFS_READ_NODE_GUID;
	sysfs->node_guid = be64toh(guid);
	snprintf(sysfs->sysfs_name, sizeof(sysfs->sysfs_name), "%s", name);
	snprintf(sysfs->ibdev_name, sizeof(sysfs->ibdev_name), "%s", name);
	snprintf(sysfs->ibdev_path, sizeof(sysfs->ibdev_path), "%s", dev->sysfs.path);
	sysfs->driver_id = RDMA_DRIVER_UNKNOWN;
	sysfs->node_type = IBV_NODE_CA;
	sysfs->ibdev_idx = -1;
	sysfs->num_ports = VRDMA_PORT;
	sysfs->abi_ver = VRDMA_UVERBS_ABI_VERSION;
	return sysfs;
}

static struct vrdma_direct_device *make_twin(const struct vrdma_dev *dev,
					     const struct vrdma_options *options)
{
	struct vrdma_direct_device *twin = vrdma_direct_device_new(options);

	if (!twin)
		return NULL;
	twin->base.sysfs = make_sysfs(dev, options->name);
	if (!twin->base.sysfs) {
		uninit_device(&twin->base);
		return NULL;
	}
	twin->base.refcount = 0; /* the context takes the only one */
	snprintf(twin->base.device.ibdev_path, sizeof(twin->base.device.ibdev_path), "%s",
		 dev->sysfs.path);
	return twin;
}

/*
 * Returns the reading end of a pipe. It answers no ioctl and takes no command by write(), and no
 * other file has its inode (import.c).
 */
static int make_cmd_fd(void)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -1;
	close(ends[1]);
	return ends[0];
}

static struct vrdma_context *alloc_base(struct vrdma_direct_device *twin, int fd)
{
	if (fd < 0)
		return NULL;
	return _verbs_init_and_alloc_context(&twin->base.device, fd, sizeof(struct vrdma_context),
					     NULL, RDMA_DRIVER_UNKNOWN);
}

static void set_limits(struct vrdma_context *context)
{
	const struct vrdma_cpl_query_device *caps = &context->dev->caps;

	context->max_inline = le32toh(caps->max_inline);
	context->max_send_sge = le16toh(caps->max_send_sge);
	context->max_recv_sge = le16toh(caps->max_recv_sge);
	context->max_qp_wr = le32toh(caps->max_qp_wr);
	context->max_srq_wr = le32toh(caps->max_srq_wr);
	context->max_srq_sge = le16toh(caps->max_srq_sge);
	context->max_cqe = le32toh(caps->max_cqe);
}

void vrdma_direct_init_context(struct vrdma_context *context, struct vrdma_dev *dev)
{
	context->control = &vrdma_direct_control;
	context->dev = dev;
	context->status_page = dev->status_page.data;
	context->kick_fd = dev->fn.bus->kick_fd;
	context->kick_offset = dev->fn.bus->kick_offset;
	context->base.context.num_comp_vectors = (int)dev->events.num_eqs - 1;
	set_limits(context);
}

static int make_ucontext(struct vrdma_context *context)
{
	struct vrdma_dev *dev = context->dev;
	uint32_t page = 0;
	int ret = -vrdma_cmd_alloc_ucontext(dev, &context->ucontext, &page);

	if (ret)
		return ret;
	/* Page 0 is for a kernel driver. */
	if (!page || page >= dev->fn.id.num_doorbell_pages) {
		vrdma_cmd_destroy(dev, VRDMA_ADMIN_DEALLOC_UCONTEXT, context->ucontext);
		return EIO;
	}
	context->doorbell_page = &dev->fn.bus->doorbells[page];
	vrdma_events_add_context(dev, context);
	return 0;
}

static int share_ucontext(struct vrdma_context *context, const struct vrdma_import *import)
{
	context->ucontext = import->ucontext;
	context->doorbell_page = import->doorbell_page;
	return vrdma_events_share_context(context->dev, context) ? 0 : ENODEV;
}

static int start_context(struct vrdma_context *context, struct vrdma_dev *dev,
			 const struct vrdma_import *import)
{
	int ret = vrdma_channel_init(&context->async_channel, sizeof(struct vrdma_event));

	if (ret)
		return ret;
	vrdma_direct_init_context(context, dev);
	ret = import ? share_ucontext(context, import) : make_ucontext(context);
	if (ret)
		vrdma_channel_destroy(&context->async_channel);
	else
		context->base.context.async_fd = context->async_channel.read_fd;
	return ret;
}

static struct vrdma_context *open_context(struct vrdma_dev *dev,
					  const struct vrdma_options *options,
					  const struct vrdma_import *import)
{
	struct vrdma_direct_device *twin = make_twin(dev, options);
	struct vrdma_context *context;
	int ret;

	if (!twin)
		return NULL;
	context = alloc_base(twin, import ? import->cmd_fd : make_cmd_fd());
	if (!context) {
		free(twin->base.sysfs);
		uninit_device(&twin->base);
		return NULL;
	}
	ret = start_context(context, dev, import);
	if (ret) {
		verbs_uninit_context(&context->base);
		free(context);
		errno = ret;
		return NULL;
	}
	verbs_set_ops(&context->base, &vrdma_context_ops);
	verbs_set_ops(&context->base, &event_ops);
	return context;
}

static struct verbs_context *alloc_context(struct ibv_device *base, int fd, void *private_data)
{
	struct vrdma_direct_device *device = (struct vrdma_direct_device *)base;
	const struct vrdma_import *import = private_data;
	struct vrdma_dev *dev = import ? import->dev : vrdma_dev_get(&device->options);
	struct vrdma_context *context;

	(void)fd;
	if (!dev)
		return NULL;
	context = open_context(dev, &device->options, import);
	if (!context) {
		int ret = errno;

		vrdma_dev_put(dev);
		errno = ret;
		return NULL;
	}
	return &context->base;
}

const struct verbs_device_ops vrdma_direct_device_ops = {
	.name = "vrdma-direct",
	.alloc_context = alloc_context,
	.uninit_device = uninit_device,
};

void vrdma_direct_close(struct vrdma_context *context)
{
	struct vrdma_dev *dev = context->dev;

	if (vrdma_events_remove_context(dev, context))
		vrdma_cmd_destroy(dev, VRDMA_ADMIN_DEALLOC_UCONTEXT, context->ucontext);
	vrdma_channel_destroy(&context->async_channel);
	vrdma_direct_free_channels(context);
	vrdma_dev_put(dev);
}
