/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Programs that connect by rdma_cm (libfabric) look for addresses in network interfaces, which a
 * device need not have (network.h). For each address of a device that no interface of the host
 * carries getifaddrs() tells of one by the device's name, after those that there are.
 */
#define _GNU_SOURCE
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "addresses.h"
#include "devices.h"

#define EXPORT __attribute__((visibility("default")))

struct interface {
	struct ifaddrs base;
	char name[IBV_SYSFS_NAME_MAX];
	union vrdma_run_address address;
	union vrdma_run_address mask;
};

/* What ours have as their data. */
static char mark;

static void add(struct ifaddrs **end, int device, const union vrdma_run_address *address)
{
	struct interface *interface = calloc(1, sizeof(*interface));
	union vrdma_run_address *mask;

	if (!interface)
		return;
	mask = &interface->mask;
	mask->sa.sa_family = address->sa.sa_family;
	if (address->sa.sa_family == AF_INET)
		memset(&mask->in.sin_addr, 0xff, sizeof(mask->in.sin_addr));
	else
		memset(&mask->in6.sin6_addr, 0xff, sizeof(mask->in6.sin6_addr));
	interface->address = *address;
	vrdma_run_get_name(device, interface->name);
	interface->base = (struct ifaddrs){
		.ifa_name = interface->name,
		.ifa_flags = IFF_UP | IFF_RUNNING,
		.ifa_addr = &interface->address.sa,
		.ifa_netmask = &mask->sa,
		.ifa_data = &mark,
	};
	while (*end)
		end = &(*end)->ifa_next;
	*end = &interface->base;
}

EXPORT int getifaddrs(struct ifaddrs **list)
{
	struct vrdmadv_device_attr attr[VRDMA_RUN_MAX_DEVICES] = {};
	union vrdma_run_address address;
	int ret = vrdma_run_get_host(list);
	char *text;
	int count;

	if (ret)
		return ret;
	count = vrdma_run_get_devices(&text, attr);
	for (int i = 0; i < count; i++)
		while (vrdma_run_next_address(&attr[i].addresses, &address))
			if (!vrdma_run_find_address(*list, &address))
				add(list, i, &address);
	if (count >= 0)
		free(text);
	return 0;
}

/* The stock one frees its own in one piece, and does not look at what follows. */
EXPORT void freeifaddrs(struct ifaddrs *list)
{
	struct ifaddrs *entry = list;

	while (entry && entry->ifa_data != &mark)
		entry = entry->ifa_next;
	if (list != entry)
		vrdma_run_free_host(list);
	while (entry) {
		struct ifaddrs *next = entry->ifa_next;

		free(entry);
		entry = next;
	}
}
