/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#define _GNU_SOURCE
#include "network.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "addresses.h"
#include "devices.h"
#include "files.h"

#define NETWORK "/device/net"
#define INTERFACES "/sys/class/net/"

static bool is_same(const char *one, const char *other, size_t length)
{
	return strlen(one) == length && strncmp(one, other, length) == 0;
}

bool vrdma_run_lists(const struct vrdma_run_network *network, const char *name, size_t length)
{
	if (is_same(".", name, length) || is_same("..", name, length))
		return true;
	for (unsigned int i = 0; i < network->count; i++)
		if (is_same(network->names[i], name, length))
			return true;
	return false;
}

/* An IPv4 address may have a label, which begins with the name of its interface and a colon. */
static void add(struct vrdma_run_network *network, const char *label)
{
	size_t length = strcspn(label, ":");

	if (network->count < VRDMA_RUN_MAX_INTERFACES && !vrdma_run_lists(network, label, length))
		snprintf(network->names[network->count++], IF_NAMESIZE, "%.*s", (int)length, label);
}

static void find_interfaces(const char *addresses, struct vrdma_run_network *network)
{
	union vrdma_run_address address;
	struct ifaddrs *host;

	if (vrdma_run_get_host(&host))
		return;
	while (vrdma_run_next_address(&addresses, &address)) {
		const struct ifaddrs *entry = vrdma_run_find_address(host, &address);

		while (entry) {
			add(network, entry->ifa_name);
			entry = vrdma_run_find_address(entry->ifa_next, &address);
		}
	}
	vrdma_run_free_host(host);
}

/* Gets the interfaces of the device with this name. */
static void get_interfaces(const char *name, size_t length, struct vrdma_run_network *network)
{
	struct vrdmadv_device_attr attr[VRDMA_RUN_MAX_DEVICES] = {};
	char *text;
	int count = vrdma_run_get_devices(&text, attr);

	network->count = 0;
	for (int i = 0; i < count; i++) {
		char ours[IBV_SYSFS_NAME_MAX];

		vrdma_run_get_name(i, ours);
		if (is_same(ours, name, length))
			find_interfaces(attr[i].addresses, network);
	}
	if (count >= 0)
		free(text);
}

/* Returns what follows the directory in path, without slashes; NULL if path is not in it. */
static const char *skip_network(const char *path, struct vrdma_run_network *network)
{
	const char *name = path + sizeof(VRDMA_RUN_SYSFS_DEVICES) - 1;
	const char *end, *rest;

	if (strncmp(path, VRDMA_RUN_SYSFS_DEVICES, sizeof(VRDMA_RUN_SYSFS_DEVICES) - 1) != 0)
		return NULL;
	end = strchrnul(name, '/');
	if (strncmp(end, NETWORK, sizeof(NETWORK) - 1) != 0)
		return NULL;
	rest = end + sizeof(NETWORK) - 1;
	if (*rest && *rest != '/')
		return NULL;
	get_interfaces(name, (size_t)(end - name), network);
	return network->count ? rest + strspn(rest, "/") : NULL;
}

bool vrdma_run_get_network(const char *path, struct vrdma_run_network *network)
{
	const char *rest = skip_network(path, network);

	return rest && !*rest;
}

/* An interface is a link in /sys/class/net. A slash at its end makes it appear as a directory. */
bool vrdma_run_find_network(const char *path, char *found)
{
	struct vrdma_run_network network;
	const char *rest = skip_network(path, &network);

	if (!rest || (*rest && !vrdma_run_lists(&network, rest, strcspn(rest, "/"))))
		return false;
	return snprintf(found, PATH_MAX, INTERFACES "%s%s", rest,
			*rest && !strchr(rest, '/') ? "/" : "") < PATH_MAX;
}
