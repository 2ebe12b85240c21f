/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "arena.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hold.h"

/* The kernel's name for memory of MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB. */
#define HUGE_NAME "/anon_hugepage"

/* The sizes of huge pages on all processors that Linux runs on. */
#define MIN_HUGE_SHIFT 14
#define MAX_HUGE_SHIFT 34

struct vrdma_arena vrdma_arena = {.mutex = PTHREAD_MUTEX_INITIALIZER};

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

/* A page that the kernel zeroes in each child. A child that reads 0 did not run fork's handlers. */
static char *mark;

static int set_mark(void)
{
	char *page;
	int error;

	if (mark)
		return 0;
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return errno;
	if (madvise(page, PAGE, MADV_WIPEONFORK)) {
		error = errno;
		munmap(page, PAGE);
		return error;
	}
	*page = 1;
	__atomic_store_n(&mark, page, __ATOMIC_RELEASE);
	return 0;
}

void vrdma_arena_forked(void)
{
	if (mark)
		*mark = 1;
}

bool vrdma_arena_is_parents(void)
{
	const char *const page = __atomic_load_n(&mark, __ATOMIC_ACQUIRE);

	return page && !*page;
}

/* 1 << `shift` is the size of huge pages; 0: small pages. */
static int create_file(unsigned int shift, struct vrdma_arena_file *file)
{
	const unsigned int huge = shift ? MFD_HUGETLB | shift << MFD_HUGE_SHIFT : 0;
	struct rlimit limit;
	struct stat status;
	int error;
	int fd;

	/* ftruncate() beyond it would kill the program. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < ARENA_SIZE)
		return EFBIG;
	fd = memfd_create("vrdma", MFD_CLOEXEC | MFD_ALLOW_SEALING | huge);
	if (fd < 0)
		return errno;
	if (ftruncate(fd, (off_t)ARENA_SIZE) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
	    fstat(fd, &status)) {
		error = errno;
		close(fd);
		return error;
	}
	*file = (struct vrdma_arena_file){
		.fd = fd,
		.device = status.st_dev,
		.inode = status.st_ino,
		.page = shift ? (uintptr_t)1 << shift : PAGE,
	};
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

	if (vrdma_arena.count)
		return 0;
	error = open_maps();
	if (error)
		return error;
	error = create_file(0, &vrdma_arena.files[0]);
	if (error)
		goto err_maps;
	error = set_mark();
	if (error)
		goto err_file;
	vrdma_hold_prepare();
	vrdma_arena.count = 1;
	return 0;

err_file:
	close(vrdma_arena.files[0].fd);
err_maps:
	close_maps();
	return error;
}

void vrdma_arena_close(void)
{
	while (vrdma_arena.count)
		close(vrdma_arena.files[--vrdma_arena.count].fd);
	close_maps();
	vrdma_hold_forget();
}

const struct vrdma_arena_file *vrdma_arena_file_of(const struct vrdma_mapping *m)
{
	unsigned int i;

	for (i = 0; m->shared && i < vrdma_arena.count; i++)
		if (m->inode == vrdma_arena.files[i].inode &&
		    m->device == vrdma_arena.files[i].device)
			return &vrdma_arena.files[i];
	return NULL;
}

bool vrdma_is_at_home(const struct vrdma_mapping *m)
{
	return vrdma_arena_file_of(m) && m->offset == m->start;
}

/* The kernel keeps all huge pages of one size, a program's or a memfd's, as files of one device. */
static const struct vrdma_arena_file *huge_home(dev_t device)
{
	struct vrdma_arena_file *file;
	unsigned int i, shift;

	for (i = 1; i < vrdma_arena.count; i++)
		if (vrdma_arena.files[i].device == device)
			return &vrdma_arena.files[i];
	if (i == VRDMA_ARENA_FILES)
		return NULL;
	file = &vrdma_arena.files[i];
	for (shift = MIN_HUGE_SHIFT; shift <= MAX_HUGE_SHIFT; shift++) {
		if (create_file(shift, file))
			continue;
		if (file->device == device) {
			vrdma_arena.count++;
			return file;
		}
		close(file->fd);
	}
	return NULL;
}

const struct vrdma_arena_file *vrdma_arena_home(const struct vrdma_mapping *m)
{
	const struct vrdma_arena_file *file = vrdma_arena_file_of(m);

	if (file)
		return file;
	if (strncmp(m->name, HUGE_NAME, strlen(HUGE_NAME)) == 0)
		return huge_home(m->device);
	return &vrdma_arena.files[0];
}

/* Finds the first page within the range. */
static bool find_page(const struct vrdma_arena_file *file, struct vrdma_range within,
		      uintptr_t *start)
{
	struct stat status;
	off_t found;

	/* hugetlbfs does not say where a file has pages, only how many it has. */
	if (file->page > PAGE) {
		*start = within.start;
		return within.start < within.end && fstat(file->fd, &status) == 0 &&
		       status.st_blocks;
	}
	found = lseek(file->fd, (off_t)within.start, SEEK_DATA);
	*start = (uintptr_t)found;
	return found >= 0 && *start < within.end;
}

bool vrdma_arena_has_data(const struct vrdma_arena_file *file, struct vrdma_range within)
{
	uintptr_t start;

	return find_page(file, within, &start);
}

bool vrdma_arena_data(const struct vrdma_arena_file *file, struct vrdma_range within,
		      struct vrdma_range *data)
{
	off_t end;

	*data = within;
	if (!find_page(file, within, &data->start))
		return false;
	if (file->page > PAGE)
		return true;
	end = lseek(file->fd, (off_t)data->start, SEEK_HOLE);
	if (end < 0)
		return false;
	if ((uintptr_t)end < within.end)
		data->end = (uintptr_t)end;
	return true;
}

bool vrdma_arena_read(const struct vrdma_arena_file *file, struct vrdma_range range, char *to)
{
	while (range.start < range.end) {
		const ssize_t n = pread(file->fd, to, range.end - range.start, (off_t)range.start);

		if (n > 0) {
			range.start += (uintptr_t)n;
			to += n;
		} else if (n == 0 || errno != EINTR) {
			return false;
		}
	}
	return true;
}

int vrdma_arena_punch(const struct vrdma_arena_file *file, struct vrdma_range range)
{
	return fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)range.start,
			 (off_t)(range.end - range.start))
		       ? errno
		       : 0;
}
