/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "vrdmadv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#define EXPORT __attribute__((visibility("default")))

/* An IPv4 address as the IPv6 one that stands for it. */
static bool parse_address(const char *text, size_t length, union ibv_gid *gid)
{
	char address[INET6_ADDRSTRLEN];

	if (length >= sizeof(address))
		return false;
	memcpy(address, text, length);
	address[length] = '\0';
	if (inet_pton(AF_INET6, address, gid->raw) == 1)
		return true;
	memset(gid->raw, 0, 10);
	memset(gid->raw + 10, 0xff, 2);
	return inet_pton(AF_INET, address, gid->raw + 12) == 1;
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

static struct ibv_device *make_device(const struct vrdmadv_device_attr *attr, int index)
{
	struct vrdma_options options = {.path = (char *)attr->path};
	struct vrdma_direct_device *device;
	char name[IBV_SYSFS_NAME_MAX];

	snprintf(name, sizeof(name), "vrdma%d", index);
	if (!attr->path || attr->comp_mask ||
	    snprintf(options.name, sizeof(options.name), "%s", attr->name ? attr->name : name) >=
		    (int)sizeof(options.name) ||
	    (attr->addresses && !parse_addresses(attr->addresses, &options))) {
		errno = EINVAL;
		return NULL;
	}
	device = vrdma_direct_device_new(&options);
	return device ? &device->base.device : NULL;
}

/* libibverbs frees the list, which the analyzer cannot see. */
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
		list[i] = make_device(&attr[i], i);
		if (!list[i])
			return drop_list(list); /* NOLINT(clang-analyzer-unix.Malloc) */
	}
	return list;
}

EXPORT int vrdmadv_is_device(const struct ibv_device *device)
{
	return ((const struct verbs_device *)device)->ops == &vrdma_direct_device_ops;
}

EXPORT struct ibv_comp_channel *vrdmadv_create_comp_channel(struct ibv_context *context)
{
	if (!vrdmadv_is_device(context->device)) {
		errno = EINVAL;
		return NULL;
	}
	return vrdma_direct_create_channel(to_vrdma_context(context));
}
