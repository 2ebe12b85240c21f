/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "share.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "arena.h"
#include "fork.h"
#include "move.h"
#include "reclaim.h"
#include "share_count.h"

static int lock(void)
{
	int error;

	if (vrdma_arena_is_parents())
		return EIO;
	vrdma_arena_lock();
	error = vrdma_fork_prepare();
	if (!error)
		error = vrdma_arena_open();
	if (error)
		vrdma_arena_unlock();
	return error;
}

static bool is_kernels(const struct vrdma_mapping *m)
{
	return strncmp(m->name, "[v", 2) == 0 || strcmp(m->name, "[uprobes]") == 0;
}

/* Opens the file of a shared mapping, and checks that it is that file, and memory. */
static int open_file(const struct vrdma_mapping *m, int *fd)
{
	const int mode = (m->prot & PROT_WRITE ? O_RDWR : O_RDONLY) | O_CLOEXEC;
	struct statfs filesystem;
	struct stat status;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", (unsigned long)m->start,
		 (unsigned long)m->end);
	*fd = open(path, mode);
	if (*fd < 0 && m->name[0] == '/')
		*fd = open(m->name, mode | O_NONBLOCK | O_NOCTTY);
	if (*fd < 0)
		return EOPNOTSUPP;
	if (fstat(*fd, &status) == 0 && status.st_ino == m->inode && status.st_dev == m->device &&
	    fstatfs(*fd, &filesystem) == 0 &&
	    (filesystem.f_type == TMPFS_MAGIC || filesystem.f_type == HUGETLBFS_MAGIC))
		return 0;
	close(*fd);
	return EOPNOTSUPP;
}

struct walk {
	bool device_writes;
	bool moves; /* the check has found memory to move */
	vrdma_share_visit *visit;
	void *arg;
	struct vrdma_piece piece;  /* not visited yet: the next part may continue it */
	bool opened;               /* the piece's fd must be closed */
	struct vrdma_mapping file; /* of the piece */
};

/* `whole` is a mapping, and `part` its part that is to be shared. */
typedef int step(struct walk *walk, const struct vrdma_mapping *whole,
		 const struct vrdma_mapping *part);

static int check_step(struct walk *walk, const struct vrdma_mapping *whole,
		      const struct vrdma_mapping *part)
{
	const struct vrdma_arena_file *file = vrdma_arena_file_of(part);
	int error;
	int fd;

	if (!(part->prot & PROT_READ) || (walk->device_writes && !(part->prot & PROT_WRITE)))
		return EFAULT;
	if (vrdma_is_at_home(part))
		return 0;
	if (part->shared && !file) {
		error = open_file(whole, &fd);
		if (!error)
			close(fd);
		return error;
	}
	if (is_kernels(part) || strcmp(part->name, "[stack]") == 0 ||
	    vrdma_move_uses(whole, (struct vrdma_range){part->start, part->end}))
		return EOPNOTSUPP;
	/* mremap() has moved it by less than its length: a copy would overwrite its source. */
	if (file && vrdma_range_overlaps((struct vrdma_range){part->start, part->end}, part->offset,
					 part->offset + (part->end - part->start)))
		return EOPNOTSUPP;
	walk->moves = true;
	return 0;
}

static int move_step(struct walk *walk, const struct vrdma_mapping *whole,
		     const struct vrdma_mapping *part)
{
	(void)walk;
	(void)whole;
	if (vrdma_is_at_home(part) || (part->shared && !vrdma_arena_file_of(part)))
		return 0;
	if (vrdma_arena_home(part) == &vrdma_arena.files[0])
		vrdma_share_count_set_moved((struct vrdma_range){part->start, part->end});
	return vrdma_move(part);
}

static int visit_piece(struct walk *walk)
{
	int error;

	if (!walk->piece.length)
		return 0;
	error = walk->visit(&walk->piece, walk->arg);
	if (walk->opened)
		close(walk->piece.fd);
	walk->piece.length = 0;
	return error;
}

static int visit_step(struct walk *walk, const struct vrdma_mapping *whole,
		      const struct vrdma_mapping *part)
{
	const struct vrdma_arena_file *file = vrdma_arena_file_of(part);
	struct vrdma_piece *piece = &walk->piece;
	int error;

	if (piece->length && walk->file.inode == part->inode && walk->file.device == part->device &&
	    piece->offset + piece->length == part->offset) {
		piece->length += part->end - part->start;
		return 0;
	}
	error = visit_piece(walk);
	if (error)
		return error;
	walk->opened = !file;
	if (walk->opened)
		error = open_file(whole, &piece->fd);
	else
		piece->fd = file->fd;
	if (error)
		return error;
	piece->address = (void *)part->start;
	piece->length = part->end - part->start;
	piece->offset = part->offset;
	walk->file = *part;
	return 0;
}

static int walk_mappings(struct vrdma_range range, step *take, struct walk *walk)
{
	struct vrdma_mapping whole, part;
	int error = 0;

	vrdma_maps_rewind(&vrdma_arena.maps);
	while (!error && range.start < range.end) {
		if (!vrdma_maps_find(&vrdma_arena.maps, range.start, &whole) ||
		    whole.start > range.start)
			return EFAULT;
		part = whole;
		part.start = range.start;
		part.offset += range.start - whole.start;
		if (part.end > range.end)
			part.end = range.end;
		error = take(walk, &whole, &part);
		range.start = part.end;
	}
	return error;
}

static int share(struct vrdma_range range, struct walk *walk)
{
	int error = walk_mappings(range, check_step, walk);

	if (!error)
		error = vrdma_share_count_reserve(range);
	if (!error && walk->moves)
		error = walk_mappings(range, move_step, walk);
	if (error)
		return error;
	vrdma_share_count_up(range);
	error = walk_mappings(range, visit_step, walk);
	if (error && walk->piece.length && walk->opened)
		close(walk->piece.fd);
	if (!error)
		error = visit_piece(walk);
	if (error)
		vrdma_release(range);
	return error;
}

static bool whole_pages(const void *address, size_t length, struct vrdma_range *range)
{
	const uintptr_t start = (uintptr_t)address;

	if (!length || start >= ARENA_SIZE || length > ARENA_SIZE - start)
		return false;
	range->start = start - start % PAGE;
	range->end = (start + length + PAGE - 1) / PAGE * PAGE;
	return true;
}

int vrdma_share(void *address, size_t length, bool device_writes, vrdma_share_visit *visit,
		void *arg)
{
	struct walk walk = {.device_writes = device_writes, .visit = visit, .arg = arg};
	struct vrdma_range range;
	int error;

	if (!whole_pages(address, length, &range))
		return EINVAL;
	error = lock();
	if (error)
		return error;
	error = share(range, &walk);
	vrdma_arena_unlock();
	return error;
}

void vrdma_unshare(void *address, size_t length)
{
	struct vrdma_range range;

	if (!whole_pages(address, length, &range) || lock())
		return;
	vrdma_release(range);
	vrdma_arena_unlock();
}

int vrdma_shared_alloc(size_t length, struct vrdma_piece *piece)
{
	const struct vrdma_arena_file *const file = &vrdma_arena.files[0];
	struct vrdma_range range;
	void *start;
	int error;

	if (!whole_pages(NULL, length, &range))
		return EINVAL;
	length = range.end;
	start = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (start == MAP_FAILED)
		return errno;
	error = lock();
	if (error) {
		munmap(start, length);
		return error;
	}
	range = (struct vrdma_range){(uintptr_t)start, (uintptr_t)start + length};
	error = vrdma_vacate(file, range);
	if (!error && mmap(start, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file->fd,
			   (off_t)range.start) == MAP_FAILED)
		error = errno;
	if (error)
		munmap(start, length);
	*piece = (struct vrdma_piece){start, length, file->fd, range.start};
	vrdma_arena_unlock();
	return error;
}

/* Only its own mapping shows the memory, so there is no search of the program's mappings. */
void vrdma_shared_free(const struct vrdma_piece *piece)
{
	const uintptr_t start = (uintptr_t)piece->address;

	if (!lock()) {
		vrdma_arena_punch(&vrdma_arena.files[0],
				  (struct vrdma_range){start, start + piece->length});
		vrdma_arena_unlock();
	}
	munmap(piece->address, piece->length);
}
