/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#define _GNU_SOURCE
#include "sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vrdma/device.h>

#define PREFIX "vrdma-"
#define UNIQUE "XXXXXX"
#define MARK ".vrdma" /* created first in a directory of ours, and removed last */
#define ATTEMPTS 16

#define NUM_DIRECTORIES (sizeof(directories) / sizeof(directories[0]))

/* Parents before children. */
static const char *const directories[] = {
	"ports",         "ports/1", "ports/1/gids", "ports/1/gid_attrs", "ports/1/gid_attrs/types",
	"ports/1/pkeys",
};

/* --- Contents --- */

static int write_file(int directory, const char *name, const char *text)
{
	int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	ssize_t length = (ssize_t)strlen(text);
	ssize_t written;
	int err = 0;

	if (fd < 0)
		return -errno;
	written = write(fd, text, (size_t)length);
	if (written < 0 || fchmod(fd, 0444))
		err = -errno;
	else if (written != length) /* the file system is full: it has no room for so few bytes */
		err = -ENOSPC;
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

static int write_pkey(int directory, unsigned int index, uint16_t pkey)
{
	char name[64];
	char text[64];

	snprintf(name, sizeof(name), "ports/1/pkeys/%u", index);
	snprintf(text, sizeof(text), "0x%04x\n", pkey);
	return write_file(directory, name, text);
}

/* Ignores the umask, so that a process that becomes another user can still read. */
static int make_directory(int parent, const char *name)
{
	return mkdirat(parent, name, 0755) || fchmodat(parent, name, 0755, 0) ? -errno : 0;
}

/* Entries that are not in use are zero, and libibverbs asks for their type as well. */
static int write_files(int directory, const union ibv_gid *gids, unsigned int num_gids,
		       const uint16_t *pkeys, unsigned int num_pkeys)
{
	const union ibv_gid none = {};
	int err = write_file(directory, MARK, "");

	if (!err && fchmod(directory, 0755))
		err = -errno;
	for (size_t i = 0; i < NUM_DIRECTORIES && !err; i++)
		err = make_directory(directory, directories[i]);
	for (unsigned int i = 0; i < VRDMA_MAX_GIDS && !err; i++)
		err = write_gid(directory, i, i < num_gids ? &gids[i] : &none);
	for (unsigned int i = 0; i < num_pkeys && !err; i++)
		err = write_pkey(directory, i, pkeys[i]);
	return err;
}

static void remove_files(int directory)
{
	char name[64];

	for (unsigned int i = 0; i < VRDMA_MAX_GIDS; i++) {
		snprintf(name, sizeof(name), "ports/1/gids/%u", i);
		unlinkat(directory, name, 0);
		snprintf(name, sizeof(name), "ports/1/gid_attrs/types/%u", i);
		unlinkat(directory, name, 0);
	}
	for (unsigned int i = 0; i < VRDMA_MAX_PKEYS; i++) {
		snprintf(name, sizeof(name), "ports/1/pkeys/%u", i);
		unlinkat(directory, name, 0);
	}
	for (size_t i = NUM_DIRECTORIES; i--;)
		unlinkat(directory, directories[i], AT_REMOVEDIR);
	unlinkat(directory, MARK, 0);
}

/* --- Locks --- */

/* Opens a directory of this user's and locks it; -1 if another process has it, or it is gone. */
static int open_locked(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat status;

	if (fd < 0)
		return -1;
	/* Before it was locked, another process may have taken it for a dead process's. */
	if (fstat(fd, &status) == 0 && status.st_uid == geteuid() &&
	    flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &status) == 0 && status.st_nlink > 0)
		return fd;
	close(fd);
	return -1;
}

static bool may_be_ours(const char *name)
{
	return strncmp(name, PREFIX, strlen(PREFIX)) == 0 && strlen(name) == strlen(PREFIX UNIQUE);
}

/* A directory that has other files as well stays. */
static void remove_stale(const char *path)
{
	DIR *parent = opendir(path);
	struct dirent *entry;

	while (parent && (entry = readdir(parent))) {
		int fd = may_be_ours(entry->d_name) ? open_locked(dirfd(parent), entry->d_name)
						    : -1;

		if (fd < 0)
			continue;
		if (faccessat(fd, MARK, F_OK, 0) == 0) {
			remove_files(fd);
			unlinkat(dirfd(parent), entry->d_name, AT_REMOVEDIR);
		}
		close(fd);
	}
	if (parent)
		closedir(parent);
}

static int make_locked(struct vrdma_sysfs *sysfs, const char *parent)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		if (snprintf(sysfs->path, sizeof(sysfs->path), "%s/" PREFIX UNIQUE, parent) >=
		    (int)sizeof(sysfs->path))
			return -ENAMETOOLONG;
		if (!mkdtemp(sysfs->path))
			return -errno;
		sysfs->fd = open_locked(AT_FDCWD, sysfs->path);
		if (sysfs->fd >= 0)
			return 0;
		rmdir(sysfs->path);
	}
	return -EBUSY;
}

/* A process of root may become another user, who must be able to search the directory. */
static const char *find_parent(void)
{
	const char *parent = secure_getenv("XDG_RUNTIME_DIR");
	struct stat status;

	if (!parent || access(parent, W_OK) || stat(parent, &status) ||
	    (geteuid() == 0 && !(status.st_mode & S_IXOTH)))
		return "/tmp";
	return parent;
}

/* Few programs print why a device cannot be opened, and none could name the file. */
static int complain(const char *path, int err)
{
	fprintf(stderr, "vrdma: %s: %s\n", path, strerror(-err));
	return err;
}

int vrdma_sysfs_make(struct vrdma_sysfs *sysfs, const union ibv_gid *gids, unsigned int num_gids,
		     const uint16_t *pkeys, unsigned int num_pkeys)
{
	const char *parent = find_parent();
	int err;

	remove_stale(parent);
	err = make_locked(sysfs, parent);
	if (err) {
		sysfs->path[0] = '\0';
		return complain(parent, err);
	}
	err = write_files(sysfs->fd, gids, num_gids, pkeys, num_pkeys);
	if (err) {
		complain(sysfs->path, err);
		vrdma_sysfs_remove(sysfs);
	}
	return err;
}

void vrdma_sysfs_remove(struct vrdma_sysfs *sysfs)
{
	if (!sysfs->path[0])
		return;
	remove_files(sysfs->fd);
	rmdir(sysfs->path);
	vrdma_sysfs_abandon(sysfs);
}

void vrdma_sysfs_abandon(struct vrdma_sysfs *sysfs)
{
	if (sysfs->path[0])
		close(sysfs->fd);
	sysfs->path[0] = '\0';
}
