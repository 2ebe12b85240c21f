/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The port's GIDs. There is no netdev to take addresses from, so they are the link-local one that
 * the function's MAC makes, and those that the program names; the mediator decides which are
 * allowed. Each is there as RoCE v1 and v2, as in Linux.
 *
 * libibverbs reads GIDs and P_Keys from files, of sysfs. Here they are in a directory of our own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device.h"

#define NUM_DIRECTORIES (sizeof(directories) / sizeof(directories[0]))

/* Parents before children. */
static const char *const directories[] = {
	"ports",         "ports/1", "ports/1/gids", "ports/1/gid_attrs", "ports/1/gid_attrs/types",
	"ports/1/pkeys",
};

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

static int write_file(int directory, const char *name, const char *text)
{
	int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
	ssize_t length = (ssize_t)strlen(text);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, (size_t)length) != length)
		err = -EIO;
	close(fd);
	return err;
}

static void print_gid(char *text, const union ibv_gid *gid)
{
	for (int i = 0; i < 16; i += 2)
		text += sprintf(text, "%s%02x%02x", i ? ":" : "", gid->raw[i], gid->raw[i + 1]);
}

static int write_gid(int directory, unsigned int index, const union ibv_gid *gid)
{
	char name[64];
	char text[64];
	int err;

	print_gid(text, gid);
	snprintf(name, sizeof(name), "ports/1/gids/%u", index);
	err = write_file(directory, name, text);
	if (err)
		return err;
	snprintf(name, sizeof(name), "ports/1/gid_attrs/types/%u", index);
	return write_file(directory, name, index % 2 ? "RoCE v2\n" : "IB/RoCE v1\n");
}

static int write_files(const struct vrdma_gids *gids, int directory)
{
	int err = 0;

	for (size_t i = 0; i < NUM_DIRECTORIES; i++)
		if (mkdirat(directory, directories[i], 0700))
			return -errno;
	for (unsigned int i = 0; i < gids->count && !err; i++)
		err = write_gid(directory, i, &gids->entries[i]);
	return err ? err : write_file(directory, "ports/1/pkeys/0", "0xffff\n");
}

static int make_directory(struct vrdma_gids *gids)
{
	const char *parent = getenv("XDG_RUNTIME_DIR");
	int length = snprintf(gids->path, sizeof(gids->path), "%s/vrdma-XXXXXX",
			      parent && access(parent, W_OK) == 0 ? parent : "/tmp");
	int directory;
	int err;

	if (length >= (int)sizeof(gids->path) || !mkdtemp(gids->path)) {
		err = -errno;
		gids->path[0] = '\0';
		return err;
	}
	directory = open(gids->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return -errno;
	err = write_files(gids, directory);
	close(directory);
	return err;
}

int vrdma_gids_init(struct vrdma_dev *dev, const struct vrdma_options *options)
{
	const union ibv_gid own = link_local(dev->fn.id.mac);
	int err = set_gids(dev, &own);

	for (unsigned int i = 0; i < options->num_addresses && !err; i++)
		err = set_gids(dev, &options->addresses[i]);
	if (!err)
		err = make_directory(&dev->gids);
	if (err)
		vrdma_gids_cleanup(&dev->gids);
	return -err;
}

static void remove_files(int directory, unsigned int count)
{
	char name[64];

	for (unsigned int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "ports/1/gids/%u", i);
		unlinkat(directory, name, 0);
		snprintf(name, sizeof(name), "ports/1/gid_attrs/types/%u", i);
		unlinkat(directory, name, 0);
	}
	unlinkat(directory, "ports/1/pkeys/0", 0);
	for (size_t i = NUM_DIRECTORIES; i--;)
		unlinkat(directory, directories[i], AT_REMOVEDIR);
}

void vrdma_gids_cleanup(struct vrdma_gids *gids)
{
	int directory;

	if (!gids->path[0])
		return;
	directory = open(gids->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory >= 0) {
		remove_files(directory, gids->count);
		close(directory);
	}
	rmdir(gids->path);
}
