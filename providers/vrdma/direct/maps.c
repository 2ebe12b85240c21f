/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Linux 6.11; Debian 12's headers do not have it. */
struct procmap_query {
	uint64_t size;
	uint64_t query_flags;
	uint64_t query_addr;
	uint64_t vma_start;
	uint64_t vma_end;
	uint64_t vma_flags;
	uint64_t vma_page_size;
	uint64_t vma_offset;
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint32_t vma_name_size;
	uint32_t build_id_size;
	uint64_t vma_name_addr;
	uint64_t build_id_addr;
};

#define PROCMAP_QUERY _IOWR('f', 17, struct procmap_query)
#define PROCMAP_READABLE 0x01u
#define PROCMAP_WRITABLE 0x02u
#define PROCMAP_EXECUTABLE 0x04u
#define PROCMAP_SHARED 0x08u
#define PROCMAP_COVERING_OR_NEXT 0x10u

/* Returns 0, ENOENT if nothing is mapped at or above `address`, or why the kernel cannot say. */
static int query(int fd, uintptr_t address, struct vrdma_mapping *mapping)
{
	struct procmap_query q = {
		.size = sizeof(q),
		.query_flags = PROCMAP_COVERING_OR_NEXT,
		.query_addr = address,
		.vma_name_addr = (uintptr_t)mapping->name,
		.vma_name_size = sizeof(mapping->name),
	};

	if (ioctl(fd, PROCMAP_QUERY, &q)) {
		if (errno != ENAMETOOLONG)
			return errno;
		q.vma_name_addr = 0;
		q.vma_name_size = 0;
		if (ioctl(fd, PROCMAP_QUERY, &q))
			return errno;
	}
	if (!q.vma_name_size)
		mapping->name[0] = '\0';
	mapping->start = q.vma_start;
	mapping->end = q.vma_end;
	mapping->offset = q.vma_offset;
	mapping->device = makedev(q.dev_major, q.dev_minor);
	mapping->inode = q.inode;
	mapping->prot = (q.vma_flags & PROCMAP_READABLE ? PROT_READ : 0) |
			(q.vma_flags & PROCMAP_WRITABLE ? PROT_WRITE : 0) |
			(q.vma_flags & PROCMAP_EXECUTABLE ? PROT_EXEC : 0);
	mapping->shared = q.vma_flags & PROCMAP_SHARED;
	return 0;
}

/* Parses a number, and moves `at` past the character that ends it. */
static uint64_t number(const char **at, int base)
{
	char *end;
	const uint64_t value = strtoull(*at, &end, base);

	*at = *end ? end + 1 : end;
	return value;
}

/* "start-end rwxp offset major:minor inode     name" */
static bool parse(const char *line, struct vrdma_mapping *mapping)
{
	unsigned int device_major, device_minor;
	const char *at = line;

	mapping->start = number(&at, 16);
	mapping->end = number(&at, 16);
	if (strlen(at) < strlen("rwxp "))
		return false;
	mapping->prot = (at[0] == 'r' ? PROT_READ : 0) | (at[1] == 'w' ? PROT_WRITE : 0) |
			(at[2] == 'x' ? PROT_EXEC : 0);
	mapping->shared = at[3] == 's';
	at += strlen("rwxp ");
	mapping->offset = number(&at, 16);
	device_major = (unsigned int)number(&at, 16);
	device_minor = (unsigned int)number(&at, 16);
	mapping->device = makedev(device_major, device_minor);
	mapping->inode = number(&at, 10);
	at += strspn(at, " ");
	strncpy(mapping->name, at, sizeof(mapping->name) - 1);
	mapping->name[sizeof(mapping->name) - 1] = '\0';
	return true;
}

/* Returns the line that starts at maps->at. NULL at the end of the file. */
static char *current_line(struct vrdma_maps *maps, char **next)
{
	char *end = memchr(maps->text + maps->at, '\n', maps->filled - maps->at);

	while (!end) {
		ssize_t n;

		memmove(maps->text, maps->text + maps->at, maps->filled - maps->at);
		maps->filled -= maps->at;
		maps->at = 0;
		/* A line has a path and some fields before it. Cut one that fills the buffer. */
		if (maps->filled == sizeof(maps->text))
			maps->filled /= 2;
		n = read(maps->fd, maps->text + maps->filled, sizeof(maps->text) - maps->filled);
		if (n <= 0)
			return NULL;
		end = memchr(maps->text + maps->filled, '\n', (size_t)n);
		maps->filled += (size_t)n;
	}
	*end = '\0';
	*next = end + 1;
	return maps->text + maps->at;
}

static uintptr_t end_of(const char *line)
{
	const char *dash = strchr(line, '-');

	return dash ? strtoul(dash + 1, NULL, 16) : 0;
}

static bool read_on(struct vrdma_maps *maps, uintptr_t address, struct vrdma_mapping *mapping)
{
	char *next;
	char *line;

	while ((line = current_line(maps, &next))) {
		/* The caller may ask for this mapping again, with a higher address inside it. */
		if (end_of(line) > address) {
			const bool parsed = parse(line, mapping);

			next[-1] = '\n';
			return parsed;
		}
		maps->at = (size_t)(next - maps->text);
	}
	return false;
}

int vrdma_maps_open(struct vrdma_maps *maps)
{
	struct vrdma_mapping first;

	maps->fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (maps->fd < 0)
		return errno;
	maps->has_query = query(maps->fd, 0, &first) == 0;
	vrdma_maps_rewind(maps);
	return 0;
}

void vrdma_maps_close(struct vrdma_maps *maps)
{
	close(maps->fd);
}

void vrdma_maps_rewind(struct vrdma_maps *maps)
{
	maps->at = 0;
	maps->filled = 0;
	if (!maps->has_query)
		lseek(maps->fd, 0, SEEK_SET);
}

bool vrdma_maps_find(struct vrdma_maps *maps, uintptr_t address, struct vrdma_mapping *mapping)
{
	if (maps->has_query)
		return query(maps->fd, address, mapping) == 0;
	return read_on(maps, address, mapping);
}
