/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "move.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "hold.h"
#include "reclaim.h"

/*
 * Memory is moved in chunks of this size, which end at a multiple of it. So a thread that uses the
 * memory waits for one chunk at most. The page tables of a chunk are moved as a whole.
 */
#define CHUNK ((uintptr_t)16 << 20)

/* From this size on, it pays to move the first and the last page separately. */
#define EDGES_MINIMUM ((uintptr_t)1 << 20)

/* From this size on, malloc() maps memory for one allocation, and realloc() uses mremap(). */
#define FENCE_MINIMUM ((uintptr_t)128 << 10)
#define HUGE_MINIMUM ((uintptr_t)2 << 20)

/* Upper bound of the stack that moving takes; lower bound of the C library's data of a thread. */
#define STACK_RESERVE ((uintptr_t)64 << 10)
#define THREAD_SIZE ((uintptr_t)2304)

/*
 * ThreadSanitizer does not know holds. It would report that pwrite() and mmap() race with writers
 * to the held memory. So held memory is read and replaced by system calls that bypass the C
 * library.
 */

/* A part of a mapping on its way to its file. */
struct chunk {
	const struct vrdma_arena_file *file;
	struct vrdma_range range;
	int prot;
	bool is_anonymous;
	const char *content; /* where its bytes are while it is held */
	char *window;        /* for huge pages: maps the file's range meanwhile */
};

static const char *content_of(const struct chunk *chunk, uintptr_t start)
{
	return chunk->content + (start - chunk->range.start);
}

/* write() cannot write huge pages. */
static ssize_t write_window(const struct chunk *chunk, uintptr_t start, size_t length)
{
	const struct iovec from = {(void *)content_of(chunk, start), length};
	const struct iovec to = {chunk->window + (start - chunk->range.start), length};

	return syscall(SYS_process_vm_readv, getpid(), &to, 1, &from, 1, 0);
}

static ssize_t write_file(const struct chunk *chunk, uintptr_t start, size_t length)
{
	return syscall(SYS_pwrite64, chunk->file->fd, content_of(chunk, start), length, start);
}

/* Copies through the kernel: a page that cannot be read causes an error, and no signal. */
static int copy_in(const struct chunk *chunk, uintptr_t start, uintptr_t end)
{
	while (start < end) {
		const ssize_t n = (chunk->window ? write_window : write_file)(chunk, start,
									      end - start);

		if (n > 0)
			start += (uintptr_t)n;
		else if (n == 0 || errno != EINTR)
			return n ? errno : EIO;
	}
	return 0;
}

#define PAGEMAP_THERE (3ull << 62) /* present or swapped out */

/* Anonymous pages that were never touched become holes in the arena. */
static int copy_touched(const struct chunk *chunk)
{
	struct vrdma_range range = chunk->range;
	uint64_t entries[1024];

	while (range.start < range.end) {
		const uintptr_t left = (range.end - range.start) / PAGE;
		const uintptr_t want = left < 1024 ? left : 1024;
		const uintptr_t first_page = (uintptr_t)content_of(chunk, range.start) / PAGE;
		const ssize_t n = pread(vrdma_arena.pagemap, entries, want * sizeof(*entries),
					(off_t)(first_page * sizeof(*entries)));
		const uintptr_t known = n > 0 ? (uintptr_t)n / sizeof(*entries) : 0;
		uintptr_t i, first;

		if (!known)
			return n < 0 ? errno : EIO;
		for (i = 0; i < known; i++) {
			int error;

			for (first = i; i < known && entries[i] & PAGEMAP_THERE; i++)
				;
			error = copy_in(chunk, range.start + first * PAGE, range.start + i * PAGE);
			if (error)
				return error;
		}
		range.start += known * PAGE;
	}
	return 0;
}

static int copy(const struct chunk *chunk)
{
	return chunk->is_anonymous ? copy_touched(chunk)
				   : copy_in(chunk, chunk->range.start, chunk->range.end);
}

static int replace(const struct chunk *chunk)
{
	const struct vrdma_range range = chunk->range;

	return syscall(SYS_mmap, range.start, range.end - range.start, chunk->prot,
		       MAP_SHARED | MAP_FIXED, chunk->file->fd, range.start) == -1
		       ? errno
		       : 0;
}

/*
 * Between vrdma_hold() and vrdma_hold_end(), this code may touch only its stack and the arena's
 * memory. The range may contain data that another thread needs to proceed.
 */
static int move_chunk(struct chunk *chunk)
{
	void *const start = (void *)chunk->range.start;
	const size_t length = chunk->range.end - chunk->range.start;
	int error;

	error = vrdma_hold(start, length, chunk->prot, chunk->is_anonymous && !chunk->window,
			   &chunk->content);
	if (error)
		return error;
	error = copy(chunk);
	if (!error)
		error = replace(chunk);
	if (error)
		vrdma_hold_undo();
	else
		vrdma_hold_end();
	if (error)
		vrdma_arena_punch(chunk->file, chunk->range);
	return error;
}

/* The window reserves huge pages of the pool for good: else replacing could fail halfway. */
static int move_huge_chunk(struct chunk *chunk)
{
	const size_t length = chunk->range.end - chunk->range.start;
	void *const window = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, chunk->file->fd,
				  (off_t)chunk->range.start);
	int error;

	if (window == MAP_FAILED)
		return errno;
	chunk->window = window;
	error = move_chunk(chunk);
	munmap(window, length);
	return error;
}

/*
 * Returns the end of the chunk that begins at `start`. The first and the last page of a region may
 * also have data that is not in the region. Its users must not wait until the rest is moved.
 */
static uintptr_t chunk_end(struct vrdma_range range, uintptr_t start, uintptr_t size)
{
	const bool has_edges = size == CHUNK && range.end - range.start >= EDGES_MINIMUM;
	const uintptr_t last = has_edges ? range.end - PAGE : range.end;
	const uintptr_t end = (start / size + 1) * size;

	if (has_edges && start == range.start)
		return start + PAGE;
	if (start == last)
		return range.end;
	return end < last ? end : last;
}

static int move_range(const struct vrdma_mapping *m, const struct vrdma_arena_file *file,
		      struct vrdma_range range)
{
	const bool is_huge = file->page > PAGE;
	const uintptr_t size = is_huge ? file->page : CHUNK;
	struct chunk chunk = {
		.file = file,
		.range.start = range.start,
		.prot = m->prot,
		.is_anonymous = !m->shared && (is_huge || !m->inode),
	};
	int error = 0;

	for (; !error && chunk.range.start < range.end; chunk.range.start = chunk.range.end) {
		chunk.range.end = chunk_end(range, chunk.range.start, size);
		error = vrdma_vacate(file, chunk.range);
		if (!error)
			error = is_huge ? move_huge_chunk(&chunk) : move_chunk(&chunk);
	}
	return error;
}

/*
 * If mremap() made a mapping grow, the mapping would take pages of the arena that belong to the
 * addresses behind it. But mremap() fails for a range of two mappings of different kinds. So the
 * last page becomes one of another kind. So does the first page, which remains when the mapping
 * becomes smaller. The advice itself has no effect on a memfd.
 */
static void fence(uintptr_t end)
{
	madvise((void *)(end - PAGE), PAGE, MADV_RANDOM);
}

static void fence_both_ends(struct vrdma_range range)
{
	fence(range.end);
	if (range.end - range.start > 2 * PAGE) /* of two, one is of another kind than the other */
		fence(range.start + PAGE);
}

/*
 * Finds the end of a mapping that glibc's malloc() has made for one allocation, if the mapping
 * begins at the start of the range and ends within it. It has at least FENCE_MINIMUM bytes unless
 * the program has lowered M_MMAP_THRESHOLD.
 */
static bool find_chunk(const struct vrdma_arena_file *file, struct vrdma_range range,
		       uintptr_t *end)
{
	const size_t is_mapped = 2, flags = 7;
	struct {
		size_t padding, size;
	} header;

	if (pread(file->fd, &header, sizeof(header), (off_t)range.start) != sizeof(header))
		return false;
	*end = range.start + (header.size & ~flags);
	return !header.padding && (header.size & flags) == is_mapped && *end % PAGE == 0 &&
	       *end > range.start && *end <= range.end;
}

/* Sets up moved memory that malloc() or the program has mapped. */
static void advise(const struct vrdma_arena_file *file, struct vrdma_range range)
{
	uintptr_t end;

	if (range.end - range.start >= HUGE_MINIMUM)
		madvise((void *)range.start, range.end - range.start, MADV_HUGEPAGE);
	if (find_chunk(file, range, &end))
		fence_both_ends((struct vrdma_range){range.start, end});
	if (range.end - range.start >= FENCE_MINIMUM)
		fence_both_ends(range);
}

int vrdma_move(const struct vrdma_mapping *m)
{
	const struct vrdma_arena_file *const file = vrdma_arena_home(m);
	struct vrdma_range range = {m->start, m->end};
	sigset_t all, saved;
	int error;

	if (!file)
		return EOPNOTSUPP;
	range = vrdma_range_outward(range, file->page);
	/* A handler that writes to the range would wait for the thread that it interrupts. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &saved);
	error = move_range(m, file, range);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	if (error == EINVAL) /* it would split a huge page of a file */
		return EOPNOTSUPP;
	if (!error && file->page == PAGE) /* mremap() does not make huge pages grow */
		advise(file, range);
	return error;
}

bool vrdma_move_uses(const struct vrdma_mapping *whole, struct vrdma_range range)
{
	const uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	const uintptr_t error = (uintptr_t)&errno;
	const uintptr_t self = (uintptr_t)pthread_self();
	pthread_attr_t attributes;
	void *stack;
	size_t size;

	if (vrdma_range_overlaps(range, error, error + sizeof(errno)) ||
	    vrdma_range_overlaps(range, self, self + THREAD_SIZE))
		return true;
	if (!vrdma_range_overlaps((struct vrdma_range){whole->start, whole->end},
				  frame - STACK_RESERVE, frame))
		return false;
	if (pthread_getattr_np(pthread_self(), &attributes))
		return true;
	pthread_attr_getstack(&attributes, &stack, &size);
	pthread_attr_destroy(&attributes);
	return vrdma_range_overlaps(range, (uintptr_t)stack, (uintptr_t)stack + size) ||
	       vrdma_range_overlaps(range, frame - STACK_RESERVE, frame + PAGE);
}
