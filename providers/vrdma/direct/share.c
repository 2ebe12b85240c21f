/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "share.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <vrdma/device.h>

#include "hold.h"
#include "maps.h"

#define PAGE ((uintptr_t)VRDMA_PAGE_SIZE)
#define ARENA_SIZE ((uintptr_t)1 << 48) /* no user address is higher without being asked for */

/* What is moved at a time: a writer waits for no more than this. */
#define CHUNK ((uintptr_t)32 << 20)

/* From here on malloc() maps memory of its own, and realloc() uses mremap(). */
#define FENCE_MINIMUM ((uintptr_t)128 << 10)
#define HUGE_MINIMUM ((uintptr_t)2 << 20)

/* Bytes whose last share ended until the arena is searched for what is mapped no more. */
#define SWEEP_AFTER ((uint64_t)64 << 20)

/* The stack that moving takes, generously. */
#define STACK_RESERVE ((uintptr_t)64 << 10)

/* The counters of 1 GiB of addresses; there when one of these pages has ever been shared. */
#define LEAF_PAGES ((uintptr_t)1 << 18)
#define LEAVES (ARENA_SIZE / PAGE / LEAF_PAGES)

struct range {
	uintptr_t start, end;
};

static struct {
	pthread_mutex_t mutex;
	bool has_fork_handlers;
	int fd; /* -1: no arena yet */
	dev_t device;
	ino_t inode;
	int pagemap;
	struct vrdma_maps maps;
	uint64_t released; /* bytes since the last sweep */
	uint32_t *shares[LEAVES];
	int cancel_state;
	int copied[2]; /* a pipe: its end is that the child has made its copy */
} arena = {.mutex = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static bool overlaps(struct range range, uintptr_t start, uintptr_t end)
{
	return start < range.end && end > range.start;
}

static bool is_in_arena(const struct vrdma_mapping *m)
{
	return m->shared && m->inode == arena.inode && m->device == arena.device;
}

/* At the offset that is its address: elsewhere only what mremap() has moved. */
static bool is_at_home(const struct vrdma_mapping *m)
{
	return is_in_arena(m) && m->offset == m->start;
}

static int punch(uintptr_t start, uintptr_t end)
{
	return fallocate(arena.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)start,
			 (off_t)(end - start))
		       ? errno
		       : 0;
}

/* --- The arena --- */

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
	arena.fd = fd;
	arena.device = status.st_dev;
	arena.inode = status.st_ino;
	return 0;
}

static void fork_prepare(void);
static void fork_parent(void);
static void fork_child(void);

static int open_maps(void)
{
	int error = vrdma_maps_open(&arena.maps);

	if (error)
		return error;
	arena.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (arena.pagemap >= 0)
		return 0;
	error = errno;
	vrdma_maps_close(&arena.maps);
	return error;
}

static void close_maps(void)
{
	close(arena.pagemap);
	vrdma_maps_close(&arena.maps);
}

static int create_arena(void)
{
	int error;

	if (arena.fd >= 0)
		return 0;
	if (!arena.has_fork_handlers) {
		error = pthread_atfork(fork_prepare, fork_parent, fork_child);
		if (error)
			return error;
		arena.has_fork_handlers = true;
	}
	error = open_maps();
	if (error)
		return error;
	error = create_file();
	if (error)
		close_maps();
	return error;
}

static int lock(void)
{
	int cancel_state;
	int error;

	/* A thread that is cancelled must not leave with the lock, or in the middle of a move. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&arena.mutex);
	arena.cancel_state = cancel_state;
	error = create_arena();
	if (error) {
		pthread_mutex_unlock(&arena.mutex);
		pthread_setcancelstate(cancel_state, NULL);
	}
	return error;
}

static void unlock(void)
{
	const int cancel_state = arena.cancel_state;

	pthread_mutex_unlock(&arena.mutex);
	pthread_setcancelstate(cancel_state, NULL);
}

/* --- How often each page is shared --- */

static uint32_t **leaf_of(uintptr_t address)
{
	return &arena.shares[address / PAGE / LEAF_PAGES];
}

static uint32_t *shares_of(uintptr_t address)
{
	uint32_t *leaf = *leaf_of(address);

	return leaf ? &leaf[address / PAGE % LEAF_PAGES] : NULL;
}

static int reserve_counters(struct range range)
{
	uintptr_t at;

	for (at = range.start - range.start % (LEAF_PAGES * PAGE); at < range.end;
	     at += LEAF_PAGES * PAGE) {
		void *leaf;

		if (*leaf_of(at))
			continue;
		leaf = mmap(NULL, LEAF_PAGES * sizeof(uint32_t), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (leaf == MAP_FAILED)
			return errno;
		*leaf_of(at) = leaf;
	}
	return 0;
}

static void count(struct range range)
{
	uintptr_t at;

	for (at = range.start; at < range.end; at += PAGE)
		++*shares_of(at);
}

/* Returns the bytes that are shared no more. */
static uint64_t discount(struct range range)
{
	uint64_t released = 0;
	uintptr_t at;

	for (at = range.start; at < range.end; at += PAGE) {
		uint32_t *shares = shares_of(at);

		/* 0: what the parent of this process has shared. */
		if (shares && *shares && --*shares == 0)
			released += PAGE;
	}
	return released;
}

static void free_counters(void)
{
	uintptr_t i;

	for (i = 0; i < LEAVES; i++) {
		if (arena.shares[i])
			munmap(arena.shares[i], LEAF_PAGES * sizeof(uint32_t));
		arena.shares[i] = NULL;
	}
}

/* --- Giving back --- */

/* The next range at or after `start` that holds pages. */
static bool next_data(struct range within, struct range *data)
{
	off_t start = lseek(arena.fd, (off_t)within.start, SEEK_DATA);
	off_t end;

	if (start < 0 || (uintptr_t)start >= within.end)
		return false;
	end = lseek(arena.fd, start, SEEK_HOLE);
	if (end < 0)
		return false;
	*data = (struct range){(uintptr_t)start, (uintptr_t)end};
	if (data->end > within.end)
		data->end = within.end;
	return true;
}

/* Does a mapping that mremap() has moved still show these pages? In a pass of its own. */
static bool is_shown_elsewhere(struct range range)
{
	struct vrdma_mapping m = {.end = 0};
	struct vrdma_maps maps;
	bool shown = false;

	if (vrdma_maps_open(&maps))
		return true;
	while (!shown && vrdma_maps_find(&maps, m.end, &m))
		shown = is_in_arena(&m) && !is_at_home(&m) &&
			overlaps(range, m.offset, m.offset + (m.end - m.start));
	vrdma_maps_close(&maps);
	return shown;
}

static bool is_shared(uintptr_t address)
{
	const uint32_t *shares = shares_of(address);

	return shares && *shares;
}

/* Frees the pages that nobody shares, of a range that is not mapped at home. */
static void reclaim_unmapped(struct range range)
{
	struct range data;

	for (; next_data(range, &data); range.start = data.end) {
		uintptr_t start, end;

		if (is_shown_elsewhere(data))
			continue;
		for (start = data.start; start < data.end; start = end) {
			end = start + PAGE;
			while (end < data.end && is_shared(end) == is_shared(start))
				end += PAGE;
			if (!is_shared(start))
				punch(start, end);
		}
	}
}

/* Frees the pages that nobody shares and that are not mapped. */
static void reclaim(struct range range)
{
	struct vrdma_mapping m;

	vrdma_maps_rewind(&arena.maps);
	while (range.start < range.end) {
		const bool found = vrdma_maps_find(&arena.maps, range.start, &m);
		struct range unmapped = range;

		if (found && m.start < unmapped.end)
			unmapped.end = is_at_home(&m) ? m.start : m.end;
		if (unmapped.end > range.end)
			unmapped.end = range.end;
		if (unmapped.start < unmapped.end)
			reclaim_unmapped(unmapped);
		range.start = found && m.end < range.end ? m.end : range.end;
	}
}

/* Room for what is moved here: what a former mapping at this address has left is of no use. */
static int vacate(struct range range)
{
	struct range data;

	if (!next_data(range, &data))
		return 0;
	return is_shown_elsewhere(range) ? EBUSY : punch(range.start, range.end);
}

static void release(struct range range)
{
	arena.released += discount(range);
	if (arena.released >= SWEEP_AFTER) {
		arena.released = 0;
		range = (struct range){0, ARENA_SIZE};
	}
	reclaim(range);
}

/* --- Moving --- */

/*
 * ThreadSanitizer knows nothing of holds: it calls pwrite() and mmap() races with their writers.
 * So what is held is read and replaced by the system calls themselves.
 */

/* Copies through the kernel: a page that cannot be read is an error, and no signal. */
static int copy_in(uintptr_t start, uintptr_t end)
{
	while (start < end) {
		const ssize_t n = syscall(SYS_pwrite64, arena.fd, start, end - start, start);

		if (n > 0)
			start += (uintptr_t)n;
		else if (n == 0 || errno != EINTR)
			return n ? errno : EIO;
	}
	return 0;
}

static int replace(struct range range, int prot)
{
	return syscall(SYS_mmap, range.start, range.end - range.start, prot, MAP_SHARED | MAP_FIXED,
		       arena.fd, range.start) == -1
		       ? errno
		       : 0;
}

#define PAGEMAP_THERE (3ull << 62) /* present or swapped out */

/* Anonymous pages that were never touched are holes in the arena too. */
static int copy_touched(struct range range)
{
	uint64_t entries[1024];

	while (range.start < range.end) {
		const uintptr_t left = (range.end - range.start) / PAGE;
		const uintptr_t want = left < 1024 ? left : 1024;
		const ssize_t n = pread(arena.pagemap, entries, want * sizeof(*entries),
					(off_t)(range.start / PAGE * sizeof(*entries)));
		const uintptr_t known = n > 0 ? (uintptr_t)n / sizeof(*entries) : 0;
		uintptr_t i, first;

		if (!known)
			return n < 0 ? errno : EIO;
		for (i = 0; i < known; i++) {
			int error;

			for (first = i; i < known && entries[i] & PAGEMAP_THERE; i++)
				;
			error = copy_in(range.start + first * PAGE, range.start + i * PAGE);
			if (error)
				return error;
		}
		range.start += known * PAGE;
	}
	return 0;
}

static int copy(const struct vrdma_mapping *m, struct range range)
{
	return m->inode ? copy_in(range.start, range.end) : copy_touched(range);
}

/*
 * Between vrdma_hold() and vrdma_hold_end() nothing here may write to memory other than its stack:
 * the range may hold what any other thread needs to get on.
 */
static int move_chunk(const struct vrdma_mapping *m, struct range range)
{
	void *const start = (void *)range.start;
	const size_t length = range.end - range.start;
	int error;

	error = vacate(range);
	if (error)
		return error;
	error = vrdma_hold(start, length, m->prot);
	if (error)
		return error;
	error = copy(m, range);
	if (!error)
		error = replace(range, m->prot);
	if (error && mprotect(start, length, m->prot))
		abort(); /* it was split before: it needs no memory to be as it was */
	vrdma_hold_end();
	if (error)
		punch(range.start, range.end);
	return error;
}

static int move(const struct vrdma_mapping *m)
{
	struct range chunk;
	sigset_t all, saved;
	int error = 0;

	/* A handler that writes to the range would wait for the thread that it interrupts. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &saved);
	for (chunk.start = m->start; !error && chunk.start < m->end; chunk.start = chunk.end) {
		chunk.end = m->end - chunk.start > CHUNK ? chunk.start + CHUNK : m->end;
		error = move_chunk(m, chunk);
	}
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	if (error)
		return error;
	if (m->end - m->start >= HUGE_MINIMUM)
		madvise((void *)m->start, m->end - m->start, MADV_HUGEPAGE);
	/*
	 * A mapping that mremap() makes grow would grow into the pages that belong to the
	 * addresses behind it. But it makes nothing grow across mappings of different kinds, so the
	 * last page becomes one of another kind; the advice itself means nothing to a memfd.
	 */
	if (m->end - m->start >= FENCE_MINIMUM)
		madvise((void *)(m->end - PAGE), PAGE, MADV_RANDOM);
	return 0;
}

/* --- What may be shared --- */

/* What this thread writes to while it moves memory; other threads' stacks cannot be told. */
static bool is_mine(const struct vrdma_mapping *m, struct range range)
{
	const uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	const uintptr_t error = (uintptr_t)&errno;
	pthread_attr_t attributes;
	void *stack;
	size_t size;

	if (overlaps(range, error, error + sizeof(errno)))
		return true;
	if (!overlaps((struct range){m->start, m->end}, frame - STACK_RESERVE, frame))
		return false;
	if (pthread_getattr_np(pthread_self(), &attributes))
		return true;
	pthread_attr_getstack(&attributes, &stack, &size);
	pthread_attr_destroy(&attributes);
	return overlaps(range, (uintptr_t)stack, (uintptr_t)stack + size) ||
	       overlaps(range, frame - STACK_RESERVE, frame + PAGE);
}

static bool is_kernels(const struct vrdma_mapping *m)
{
	return strncmp(m->name, "[v", 2) == 0 || strcmp(m->name, "[uprobes]") == 0;
}

/* The file behind a shared mapping, checked to be that one and to be memory. */
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
	bool moves; /* found in the check */
	vrdma_share_visit *visit;
	void *arg;
	struct vrdma_piece piece;  /* not visited yet: the next part may continue it */
	struct vrdma_mapping file; /* of the piece */
};

/* `whole` is a mapping, `part` what of it is to be shared. */
typedef int step(struct walk *walk, const struct vrdma_mapping *whole,
		 const struct vrdma_mapping *part);

static int check_step(struct walk *walk, const struct vrdma_mapping *whole,
		      const struct vrdma_mapping *part)
{
	int error;
	int fd;

	if (!(part->prot & PROT_READ) || (walk->device_writes && !(part->prot & PROT_WRITE)))
		return EFAULT;
	if (is_at_home(part))
		return 0;
	if (part->shared && !is_in_arena(part)) {
		error = open_file(whole, &fd);
		if (!error)
			close(fd);
		return error;
	}
	if (is_kernels(part) || strcmp(part->name, "[stack]") == 0 ||
	    is_mine(whole, (struct range){part->start, part->end}))
		return EOPNOTSUPP;
	/* Moved by mremap() by less than its length: its copy would overwrite itself. */
	if (is_in_arena(part) && overlaps((struct range){part->start, part->end}, part->offset,
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
	return is_at_home(part) || (part->shared && !is_in_arena(part)) ? 0 : move(part);
}

static int visit_piece(struct walk *walk)
{
	int error;

	if (!walk->piece.length)
		return 0;
	error = walk->visit(&walk->piece, walk->arg);
	if (walk->piece.fd != arena.fd)
		close(walk->piece.fd);
	walk->piece.length = 0;
	return error;
}

static int visit_step(struct walk *walk, const struct vrdma_mapping *whole,
		      const struct vrdma_mapping *part)
{
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
	piece->fd = arena.fd;
	if (!is_in_arena(part)) {
		error = open_file(whole, &piece->fd);
		if (error)
			return error;
	}
	piece->address = (void *)part->start;
	piece->length = part->end - part->start;
	piece->offset = part->offset;
	walk->file = *part;
	return 0;
}

static int walk_mappings(struct range range, step *take, struct walk *walk)
{
	struct vrdma_mapping whole, part;
	int error = 0;

	vrdma_maps_rewind(&arena.maps);
	while (!error && range.start < range.end) {
		if (!vrdma_maps_find(&arena.maps, range.start, &whole) || whole.start > range.start)
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

static int share(struct range range, struct walk *walk)
{
	int error = walk_mappings(range, check_step, walk);

	if (!error)
		error = reserve_counters(range);
	if (!error && walk->moves)
		error = walk_mappings(range, move_step, walk);
	if (error)
		return error;
	count(range);
	error = walk_mappings(range, visit_step, walk);
	if (error && walk->piece.length && walk->piece.fd != arena.fd)
		close(walk->piece.fd);
	if (!error)
		error = visit_piece(walk);
	if (error)
		release(range);
	return error;
}

static bool whole_pages(const void *address, size_t length, struct range *range)
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
	struct range range;
	int error;

	if (!whole_pages(address, length, &range))
		return EINVAL;
	error = lock();
	if (error)
		return error;
	error = share(range, &walk);
	unlock();
	return error;
}

void vrdma_unshare(void *address, size_t length)
{
	struct range range;

	if (!whole_pages(address, length, &range) || lock())
		return;
	release(range);
	unlock();
}

/* --- Memory that is shared from the start --- */

int vrdma_shared_alloc(size_t length, struct vrdma_piece *piece)
{
	struct range range;
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
	range = (struct range){(uintptr_t)start, (uintptr_t)start + length};
	error = vacate(range);
	if (!error && mmap(start, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, arena.fd,
			   (off_t)range.start) == MAP_FAILED)
		error = errno;
	if (error)
		munmap(start, length);
	*piece = (struct vrdma_piece){start, length, arena.fd, range.start};
	unlock();
	return error;
}

void vrdma_shared_free(const struct vrdma_piece *piece)
{
	const uintptr_t start = (uintptr_t)piece->address;

	munmap(piece->address, piece->length);
	if (lock())
		return;
	reclaim((struct range){start, start + piece->length});
	unlock();
}

/* --- fork() --- */

static void fork_prepare(void)
{
	pthread_mutex_lock(&arena.mutex);
	arena.copied[0] = arena.copied[1] = -1;
	/* Without a pipe the parent does not wait, and writes early. */
	if (arena.fd >= 0 && pipe2(arena.copied, O_CLOEXEC))
		arena.copied[0] = arena.copied[1] = -1;
}

static void fork_parent(void)
{
	ssize_t n;
	char byte;

	if (arena.copied[0] >= 0) {
		close(arena.copied[1]);
		do
			n = read(arena.copied[0], &byte, 1);
		while (n < 0 && errno == EINTR);
		close(arena.copied[0]);
	}
	pthread_mutex_unlock(&arena.mutex);
}

static bool copy_out(struct range data, char *to)
{
	while (data.start < data.end) {
		const ssize_t n = pread(arena.fd, to, data.end - data.start, (off_t)data.start);

		if (n > 0) {
			data.start += (uintptr_t)n;
			to += n;
		} else if (n == 0 || errno != EINTR) {
			return false;
		}
	}
	return true;
}

/* Makes it anonymous and private again. */
static bool take_back(const struct vrdma_mapping *m)
{
	const size_t length = m->end - m->start;
	struct range file = {m->offset, m->offset + length};
	struct range data;
	char *copy = mmap(NULL, length, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (copy == MAP_FAILED)
		return false;
	for (; next_data(file, &data); file.start = data.end)
		if (!copy_out(data, copy + (data.start - m->offset)))
			return false;
	return mprotect(copy, length, m->prot) == 0 &&
	       mremap(copy, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)m->start) !=
		       MAP_FAILED;
}

static bool take_all_back(void)
{
	struct vrdma_mapping m = {.end = 0};
	struct vrdma_maps maps;
	bool done = true;

	if (vrdma_maps_open(&maps))
		return false;
	while (done && vrdma_maps_find(&maps, m.end, &m))
		done = !is_in_arena(&m) || take_back(&m);
	vrdma_maps_close(&maps);
	return done;
}

static void fork_child(void)
{
	if (arena.fd >= 0) {
		/* Without a copy of its own the child would write to its parent's memory. */
		if (!take_all_back())
			abort();
		close(arena.fd);
		close_maps();
		arena.fd = -1;
		arena.released = 0;
		free_counters();
	}
	if (arena.copied[0] >= 0) {
		close(arena.copied[0]);
		close(arena.copied[1]);
	}
	pthread_mutex_unlock(&arena.mutex);
}
