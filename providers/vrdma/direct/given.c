/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "given.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct vrdma_given_file {
	struct vrdma_given_file *next;
	dev_t device;
	ino_t inode;
	int access; /* O_ACCMODE: the same file may be open for less */
	int fd;
	unsigned int maps;
};

static struct vrdma_given_file *find_file(struct vrdma_given *given, const struct stat *status,
					  int access)
{
	struct vrdma_given_file *file = given->files;

	while (file && (file->device != status->st_dev || file->inode != status->st_ino ||
			file->access != access))
		file = file->next;
	return file;
}

static struct vrdma_given_file *open_file(struct vrdma_given *given, int fd)
{
	struct vrdma_given_file *file;
	struct stat status;
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fstat(fd, &status))
		return NULL;
	file = find_file(given, &status, flags & O_ACCMODE);
	if (file)
		return file;
	file = calloc(1, sizeof(*file));
	if (!file)
		return NULL;
	file->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (file->fd < 0) {
		free(file);
		return NULL;
	}
	file->device = status.st_dev;
	file->inode = status.st_ino;
	file->access = flags & O_ACCMODE;
	file->next = given->files;
	given->files = file;
	return file;
}

static void close_file(struct vrdma_given *given, struct vrdma_given_file *file)
{
	struct vrdma_given_file **at = &given->files;

	if (file->maps)
		return;
	while (*at != file)
		at = &(*at)->next;
	*at = file->next;
	close(file->fd);
	free(file);
}

void vrdma_given_add(struct vrdma_given *given, const struct vrdma_dma *dma)
{
	struct vrdma_given_map *map = calloc(1, sizeof(*map));
	struct vrdma_given_file *file = map ? open_file(given, dma->fd) : NULL;

	if (!file) {
		free(map);
		given->incomplete = true;
		return;
	}
	file->maps++;
	map->file = file;
	map->iova = dma->iova;
	map->length = dma->length;
	map->offset = dma->offset;
	map->next = given->maps;
	given->maps = map;
}

void vrdma_given_remove(struct vrdma_given *given, uint64_t iova)
{
	struct vrdma_given_map **at = &given->maps;
	struct vrdma_given_map *map;

	while (*at && (*at)->iova != iova)
		at = &(*at)->next;
	map = *at;
	if (!map)
		return;
	*at = map->next;
	map->file->maps--;
	close_file(given, map->file);
	free(map);
}

int vrdma_given_fd(const struct vrdma_given_map *map)
{
	return map->file->fd;
}

void vrdma_given_free(struct vrdma_given *given)
{
	while (given->maps)
		vrdma_given_remove(given, given->maps->iova);
}
