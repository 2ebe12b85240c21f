/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Programs that connect by rdma_cm (libfabric) look for addresses in network interfaces, which a
 * device need not have (network.h). So for each address of a device that no interface of the host
 * carries, getifaddrs() lists an interface with the device's name, after the host's interfaces.
 * Loopback interfaces do not count, because those programs skip them.
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

/* The ifa_data of our entries. */
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

static bool is_told(const struct ifaddrs *list, const union vrdma_run_address *address)
{
	const struct ifaddrs *entry = vrdma_run_find_address(list, address);

	while (entry && entry->ifa_flags & IFF_LOOPBACK)
		entry = vrdma_run_find_address(entry->ifa_next, address);
	return entry;
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
			if (!is_told(*list, &address))
				add(list, i, &address);
	if (count >= 0)
		free(text);
	return 0;
}

/* The stock function frees its own entries in one piece, and does not look at later ones. */
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
