/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "arena.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct vrdma_arena vrdma_arena = {.mutex = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

void vrdma_arena_lock(void)
{
	int cancel_state;

	/* A thread that is cancelled must not leave with the lock, or in the middle of a move. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&vrdma_arena.mutex);
	vrdma_arena.cancel_state = cancel_state;
}

void vrdma_arena_unlock(void)
{
	const int cancel_state = vrdma_arena.cancel_state;

	pthread_mutex_unlock(&vrdma_arena.mutex);
	pthread_setcancelstate(cancel_state, NULL);
}

static int create_file(void)
{
	struct rlimit limit;
	struct stat status;
	int error;
	int fd;

	/* ftruncate() beyond it would kill the program. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < ARENA_SIZE)
		return EFBIG;
	fd = memfd_create("vrdma", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return errno;
	if (ftruncate(fd, (off_t)ARENA_SIZE) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
	    fstat(fd, &status)) {
		error = errno;
		close(fd);
		return error;
	}
	vrdma_arena.fd = fd;
	vrdma_arena.device = status.st_dev;
	vrdma_arena.inode = status.st_ino;
	return 0;
}

static int open_maps(void)
{
	int error = vrdma_maps_open(&vrdma_arena.maps);

	if (error)
		return error;
	vrdma_arena.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (vrdma_arena.pagemap >= 0)
		return 0;
	error = errno;
	vrdma_maps_close(&vrdma_arena.maps);
	return error;
}

static void close_maps(void)
{
	close(vrdma_arena.pagemap);
	vrdma_maps_close(&vrdma_arena.maps);
}

int vrdma_arena_open(void)
{
	int error;

	if (vrdma_arena.fd >= 0)
		return 0;
	error = open_maps();
	if (error)
		return error;
	error = create_file();
	if (error)
		close_maps();
	return error;
}

void vrdma_arena_close(void)
{
	close(vrdma_arena.fd);
	close_maps();
	vrdma_arena.fd = -1;
}

bool vrdma_is_in_arena(const struct vrdma_mapping *m)
{
	return m->shared && m->inode == vrdma_arena.inode && m->device == vrdma_arena.device;
}

bool vrdma_is_at_home(const struct vrdma_mapping *m)
{
	return vrdma_is_in_arena(m) && m->offset == m->start;
}

bool vrdma_arena_data(struct vrdma_range within, struct vrdma_range *data)
{
	off_t start = lseek(vrdma_arena.fd, (off_t)within.start, SEEK_DATA);
	off_t end;

	if (start < 0 || (uintptr_t)start >= within.end)
		return false;
	end = lseek(vrdma_arena.fd, start, SEEK_HOLE);
	if (end < 0)
		return false;
	*data = (struct vrdma_range){(uintptr_t)start, (uintptr_t)end};
	if (data->end > within.end)
		data->end = within.end;
	return true;
}

int vrdma_arena_punch(struct vrdma_range range)
{
	return fallocate(vrdma_arena.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			 (off_t)range.start, (off_t)(range.end - range.start))
		       ? errno
		       : 0;
}

bool vrdma_arena_read(struct vrdma_range data, char *to)
{
	while (data.start < data.end) {
		const ssize_t n = pread(vrdma_arena.fd, to, data.end - data.start,
					(off_t)data.start);

		if (n > 0) {
			data.start += (uintptr_t)n;
			to += n;
		} else if (n == 0 || errno != EINTR) {
			return false;
		}
	}
	return true;
}
