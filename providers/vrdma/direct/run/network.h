/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The network interfaces of a device are those of this host, in this network namespace, that carry
 * one of the addresses that the device was given. /sys/class/infiniband/NAME/device/net has them,
 * as for a kernel's device. If there are none, there is no such directory.
 */
#ifndef VRDMA_RUN_NETWORK_H
#define VRDMA_RUN_NETWORK_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>

#define VRDMA_RUN_MAX_INTERFACES 16 /* of a device; more are not shown */

struct vrdma_run_network {
	unsigned int count;
	char names[VRDMA_RUN_MAX_INTERFACES][IF_NAMESIZE];
};

/* Whether path is that directory, of a device that has interfaces. Also gets the interfaces. */
bool vrdma_run_get_network(const char *path, struct vrdma_run_network *network);

/* Whether the directory has an entry of this name. */
bool vrdma_run_lists(const struct vrdma_run_network *network, const char *name, size_t length);

/* Finds the host's path of that directory, or of a file in it. `found` has PATH_MAX bytes. */
bool vrdma_run_find_network(const char *path, char *found);

#endif /* VRDMA_RUN_NETWORK_H */
