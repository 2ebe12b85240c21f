/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The port's GIDs. There is no netdev to take addresses from. So the GIDs are the link-local
 * address that the function's MAC gives, and the addresses that the program names. The mediator
 * decides which are allowed. Each GID has an entry for RoCE v1 and one for v2, as in Linux.
 */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "device.h"

void vrdma_map_ipv4(uint8_t *gid, const void *address)
{
	memset(gid, 0, 10);
	memset(gid + 10, 0xff, 2);
	memcpy(gid + 12, address, 4);
}

bool vrdma_is_mapped_ipv4(const uint8_t *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(gid, mapped, sizeof(mapped)) == 0;
}

static union ibv_gid link_local(const uint8_t *mac)
{
	return (union ibv_gid){.raw = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, mac[0] ^ 2, mac[1], mac[2],
				       0xff, 0xfe, mac[3], mac[4], mac[5]}};
}

static int set_gid(struct vrdma_dev *dev, const union ibv_gid *gid, uint8_t type)
{
	struct vrdma_gids *gids = &dev->gids;
	struct vrdma_cmd_set_gid arg = {
		.index = htole32(gids->count),
		.type = type,
		.valid = 1,
	};
	int err;

	memcpy(arg.gid, gid->raw, sizeof(arg.gid));
	err = vrdma_cmd_set_gid(dev, &arg);
	if (!err)
		gids->entries[gids->count++] = *gid;
	return err;
}

static int set_gids(struct vrdma_dev *dev, const union ibv_gid *gid)
{
	int err = set_gid(dev, gid, VRDMA_GID_ROCE_V1);

	return err ? err : set_gid(dev, gid, VRDMA_GID_ROCE_V2);
}

/* Few programs print why a device cannot be opened, and none could name the address. */
static void complain(const struct vrdma_dev *dev, const union ibv_gid *gid, int err)
{
	const bool ipv4 = vrdma_is_mapped_ipv4(gid->raw);
	char text[INET6_ADDRSTRLEN];

	inet_ntop(ipv4 ? AF_INET : AF_INET6, gid->raw + (ipv4 ? 12 : 0), text, sizeof(text));
	fprintf(stderr, "vrdma: %s: the device cannot have the address %s: %s\n", dev->path, text,
		strerror(-err));
}

int vrdma_gids_init(struct vrdma_dev *dev, const struct vrdma_options *options)
{
	const union ibv_gid own = link_local(dev->fn.id.mac);
	int err = set_gids(dev, &own);

	for (unsigned int i = 0; i < options->num_addresses && !err; i++) {
		err = set_gids(dev, &options->addresses[i]);
		if (err)
			complain(dev, &options->addresses[i], err);
	}
	return -err;
}
