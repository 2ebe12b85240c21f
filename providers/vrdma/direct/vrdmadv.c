/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "vrdmadv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "private.h"

#define EXPORT __attribute__((visibility("default")))

/* Turns an IPv4 address into an IPv4-mapped IPv6 address. */
static bool parse_address(const char *text, size_t length, union ibv_gid *gid)
{
	char address[INET6_ADDRSTRLEN];
	struct in_addr ipv4;

	if (length >= sizeof(address))
		return false;
	memcpy(address, text, length);
	address[length] = '\0';
	if (inet_pton(AF_INET6, address, gid->raw) == 1)
		return true;
	if (inet_pton(AF_INET, address, &ipv4) != 1)
		return false;
	vrdma_map_ipv4(gid->raw, &ipv4);
	return true;
}

static bool parse_addresses(const char *text, struct vrdma_options *options)
{
	while (*text) {
		size_t length = strcspn(text, ",");

		if (options->num_addresses == VRDMA_MAX_ADDRESSES ||
		    !parse_address(text, length, &options->addresses[options->num_addresses]))
			return false;
		options->num_addresses++;
		text += length;
		text += *text == ',';
	}
	return true;
}

bool vrdma_direct_options(const struct vrdmadv_device_attr *attr, int index,
			  struct vrdma_options *options)
{
	char name[IBV_SYSFS_NAME_MAX];

	memset(options, 0, sizeof(*options));
	options->path = (char *)attr->path;
	snprintf(name, sizeof(name), "vrdma%d", index);
	return attr->path && !attr->comp_mask &&
	       snprintf(options->name, sizeof(options->name), "%s",
			attr->name ? attr->name : name) < (int)sizeof(options->name) &&
	       (!attr->addresses || parse_addresses(attr->addresses, options));
}

/*
 * A device is the same object in all lists, as with libibverbs. librdmacm would take another object
 * for a new device, and its old one for a device that is gone. So devices are never freed.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vrdma_direct_device *devices;

static bool is_same(const struct vrdma_options *a, const struct vrdma_options *b)
{
	return strcmp(a->path, b->path) == 0 && strcmp(a->name, b->name) == 0 &&
	       a->num_addresses == b->num_addresses &&
	       memcmp(a->addresses, b->addresses, sizeof(a->addresses)) == 0;
}

static struct vrdma_direct_device *find_or_make(const struct vrdma_options *options)
{
	struct vrdma_direct_device *device = devices;

	while (device && !is_same(&device->options, options))
		device = device->next;
	if (device)
		return device;
	device = vrdma_direct_device_new(options);
	if (device) {
		device->next = devices;
		devices = device;
	}
	return device;
}

static struct ibv_device *get_device(const struct vrdmadv_device_attr *attr, int index)
{
	struct vrdma_options options;
	struct vrdma_direct_device *device;

	if (!vrdma_direct_options(attr, index, &options)) {
		errno = EINVAL;
		return NULL;
	}
	pthread_mutex_lock(&lock);
	device = find_or_make(&options);
	pthread_mutex_unlock(&lock);
	if (!device)
		return NULL;
	__atomic_fetch_add(&device->base.refcount, 1, __ATOMIC_RELAXED); /* the list's */
	return &device->base.device;
}

/* libibverbs frees the list. The analyzer cannot see that. */
static struct ibv_device **drop_list(struct ibv_device **list)
{
	int ret = errno;

	ibv_free_device_list(list);
	errno = ret;
	return NULL;
}

EXPORT struct ibv_device **vrdmadv_get_device_list(const struct vrdmadv_device_attr *attr,
						   int count)
{
	struct ibv_device **list;

	if (count < 0) {
		errno = EINVAL;
		return NULL;
	}
	if (!vrdma_libibverbs_fits()) {
		errno = ENOSYS;
		return NULL;
	}
	list = calloc((size_t)count + 1, sizeof(struct ibv_device *));
	if (!list)
		return NULL;
	for (int i = 0; i < count; i++) {
		list[i] = get_device(&attr[i], i);
		if (!list[i])
			return drop_list(list); /* NOLINT(clang-analyzer-unix.Malloc) */
	}
	return list;
}

EXPORT int vrdmadv_is_device(const struct ibv_device *device)
{
	return ((const struct verbs_device *)device)->ops == &vrdma_direct_device_ops;
}

EXPORT struct ibv_context *vrdmadv_import_device(int cmd_fd)
{
	return vrdma_direct_import(cmd_fd);
}

EXPORT struct ibv_comp_channel *vrdmadv_create_comp_channel(struct ibv_context *context)
{
	if (!vrdmadv_is_device(context->device)) {
		errno = EINVAL;
		return NULL;
	}
	return vrdma_direct_create_channel(to_vrdma_context(context));
}

EXPORT struct ibv_comp_channel *vrdmadv_create_direct_channel(struct ibv_context *context)
{
	if (!vrdmadv_is_device(context->device)) {
		errno = EINVAL;
		return NULL;
	}
	return vrdma_direct_create_direct_channel(to_vrdma_context(context));
}

EXPORT int vrdmadv_is_direct_channel(struct ibv_comp_channel *channel)
{
	return vrdmadv_is_device(channel->context->device) && to_vrdma_channel(channel)->eq;
}

EXPORT int vrdmadv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
				void **cq_context)
{
	return vrdma_direct_get_cq_event(to_vrdma_channel(channel), cq, cq_context);
}

EXPORT int vrdmadv_destroy_direct_channel(struct ibv_comp_channel *channel)
{
	return vrdma_direct_destroy_direct_channel(to_vrdma_channel(channel));
}

EXPORT int vrdmadv_madvise(void *address, size_t length, int advice)
{
	return vrdma_private_madvise(address, length, advice);
}

EXPORT void *vrdmadv_mremap(void *old_address, size_t old_length, size_t length, int flags,
			    void *new_address)
{
	return vrdma_private_mremap(old_address, old_length, length, flags, new_address);
}
