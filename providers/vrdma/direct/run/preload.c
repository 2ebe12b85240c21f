/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What vrdma-run(1) loads into a program: the functions of libibverbs that would look for the
 * kernel's devices, those of librdmacm that would look for its connection manager, and, for
 * programs that look at files of the kernel's devices themselves (UCX), how these are looked at
 * (files.c).
 *
 * VRDMA_RUN_DEVICES is PATH[,ADDRESS...][;PATH...].
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../vrdmadv.h"
#include "files.h"

#define EXPORT __attribute__((visibility("default")))
#define MAX_DEVICES 64

struct rdma_cm_id;
struct rdma_event_channel;

/* Splits text, and returns how many devices there are; -1 if there are too many. */
static int parse_devices(char *text, struct vrdmadv_device_attr *attr)
{
	int count = 0;
	char *rest = text;
	char *entry;

	while ((entry = strsep(&rest, ";"))) {
		if (count == MAX_DEVICES)
			return -1;
		attr[count].path = strsep(&entry, ",");
		attr[count].addresses = entry;
		count++;
	}
	return count;
}

EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct vrdmadv_device_attr attr[MAX_DEVICES] = {};
	const char *text = getenv("VRDMA_RUN_DEVICES");
	char *copy = strdup(text ? text : "");
	struct ibv_device **list = NULL;
	int count;

	if (num_devices)
		*num_devices = 0;
	if (!copy)
		return NULL;
	count = *copy ? parse_devices(copy, attr) : 0;
	if (count < 0)
		errno = EINVAL;
	else
		list = vrdmadv_get_device_list(attr, count);
	if (list && num_devices)
		*num_devices = count;
	free(copy);
	return list;
}

static void *stock(const char *name)
{
	return dlsym(RTLD_NEXT, name);
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
	else /* few programs tell why */
		fprintf(stderr, "vrdma-run: %s: %s\n", device->name, strerror(error));
	errno = error;
	return context;
}

/* libibverbs knows the GUID of what is open. */
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

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *(*create)(struct ibv_context *) = stock("ibv_create_comp_channel");

	if (vrdmadv_is_device(context->device))
		return vrdmadv_create_comp_channel(context);
	return create(context);
}

static void refuse(const char *name)
{
	fprintf(stderr,
		"vrdma-run: %s(): a device without a kernel driver has no connection manager "
		"(rdma_cm)\n",
		name);
	errno = ENODEV;
}

EXPORT struct rdma_event_channel *rdma_create_event_channel(void);
struct rdma_event_channel *rdma_create_event_channel(void)
{
	refuse(__func__);
	return NULL;
}

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			  int port_space);
int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   int port_space)
{
	(void)channel;
	(void)id;
	(void)context;
	(void)port_space;
	refuse(__func__);
	return -1;
}

EXPORT int rdma_create_ep(struct rdma_cm_id **id, void *info, void *pd, void *attr);
int rdma_create_ep(struct rdma_cm_id **id, void *info, void *pd, void *attr)
{
	(void)id;
	(void)info;
	(void)pd;
	(void)attr;
	refuse(__func__);
	return -1;
}
