/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The library that vrdma-run(1) loads into a program. It replaces the functions of libibverbs that
 * would look for the kernel's devices. For librdmacm, and for programs that read files of the
 * kernel's devices themselves (UCX), it also replaces functions that access files (files.c).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices.h"
#include "files.h"

#define EXPORT __attribute__((visibility("default")))
#define NLE_PROTO_MISMATCH 22 /* libnl's */

EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct vrdmadv_device_attr attr[VRDMA_RUN_MAX_DEVICES] = {};
	struct ibv_device **list;
	char *text;
	int count = vrdma_run_get_devices(&text, attr);

	if (num_devices)
		*num_devices = 0;
	if (count < 0)
		return NULL;
	list = vrdmadv_get_device_list(attr, count);
	if (list && num_devices)
		*num_devices = count;
	free(text);
	return list;
}

int vrdma_run_open_cm(void)
{
	struct vrdmadv_device_attr attr[VRDMA_RUN_MAX_DEVICES] = {};
	char *text;
	int count = vrdma_run_get_devices(&text, attr);
	int fd = -1;

	if (count < 0)
		return -1;
	fd = vrdmadv_cm_open(attr, count);
	free(text);
	return fd;
}

static void *stock(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

/* Prints the path that the user gave for the device, too. */
static void complain(const char *device, int error)
{
	struct vrdmadv_device_attr attr[VRDMA_RUN_MAX_DEVICES] = {};
	char name[IBV_SYSFS_NAME_MAX];
	const char *path = "?";
	char *text;
	int count = vrdma_run_get_devices(&text, attr);

	for (int i = 0; i < count; i++) {
		vrdma_run_get_name(i, name);
		if (strcmp(name, device) == 0)
			path = attr[i].path;
	}
	fprintf(stderr, "vrdma-run: %s (%s): %s%s\n", device, path, strerror(error),
		error == EIO ? ": it has all its clients, or it is no socket of a device" : "");
	if (count >= 0)
		free(text);
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *(*open)(struct ibv_device *) = stock("ibv_open_device");
	struct ibv_context *context = open(device);

	const int error = errno;

	if (!vrdmadv_is_device(device))
		return context;
	if (context)
		vrdma_run_set_directory(context->device->name, context->device->ibdev_path);
	else /* few programs print the reason */
		complain(device->name, error);
	errno = error;
	return context;
}

/* libibverbs knows the GUID of an open device only. */
EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	__be64 (*get_guid)(struct ibv_device *) = stock("ibv_get_device_guid");
	struct ibv_context *context;
	__be64 guid = get_guid(device);

	if (guid || !vrdmadv_is_device(device))
		return guid;
	context = ibv_open_device(device);
	if (!context)
		return 0;
	guid = get_guid(context->device);
	ibv_close_device(context);
	return guid;
}

/* libibverbs would look for the device among the kernel's. */
EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	return vrdmadv_import_device(cmd_fd);
}

/* A direct channel while the device has one left. */
static struct ibv_comp_channel *create_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = vrdmadv_create_direct_channel(context);

	return channel || errno != EAGAIN ? channel : vrdmadv_create_comp_channel(context);
}

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *(*create)(struct ibv_context *) = stock("ibv_create_comp_channel");

	if (vrdmadv_is_device(context->device))
		return create_channel(context);
	return create(context);
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	int (*get)(struct ibv_comp_channel *, struct ibv_cq **, void **);

	if (vrdmadv_is_direct_channel(channel))
		return vrdmadv_get_cq_event(channel, cq, cq_context);
	get = stock("ibv_get_cq_event");
	return get(channel, cq, cq_context);
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	int (*destroy)(struct ibv_comp_channel *) = stock("ibv_destroy_comp_channel");

	if (vrdmadv_is_direct_channel(channel))
		return vrdmadv_destroy_direct_channel(channel);
	return destroy(channel);
}

/* Netlink would show the kernel's devices and connection manager, if there are any. */
EXPORT int nl_connect(void *socket, int protocol);
int nl_connect(void *socket, int protocol)
{
	int (*connect)(void *, int) = stock("nl_connect");

	return protocol == NETLINK_RDMA ? -NLE_PROTO_MISMATCH : connect(socket, protocol);
}
