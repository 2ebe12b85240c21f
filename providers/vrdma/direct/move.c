/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "move.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hold.h"
#include "reclaim.h"

/* What is moved at a time: a writer waits for no more than this. */
#define CHUNK ((uintptr_t)32 << 20)

/* From here on malloc() maps memory of its own, and realloc() uses mremap(). */
#define FENCE_MINIMUM ((uintptr_t)128 << 10)
#define HUGE_MINIMUM ((uintptr_t)2 << 20)

/* The stack that moving takes, generously. */
#define STACK_RESERVE ((uintptr_t)64 << 10)

/*
 * ThreadSanitizer knows nothing of holds: it calls pwrite() and mmap() races with their writers.
 * So what is held is read and replaced by the system calls themselves.
 */

/* Copies through the kernel: a page that cannot be read is an error, and no signal. */
static int copy_in(uintptr_t start, uintptr_t end)
{
	while (start < end) {
		const ssize_t n = syscall(SYS_pwrite64, vrdma_arena.fd, start, end - start, start);

		if (n > 0)
			start += (uintptr_t)n;
		else if (n == 0 || errno != EINTR)
			return n ? errno : EIO;
	}
	return 0;
}

static int replace(struct vrdma_range range, int prot)
{
	return syscall(SYS_mmap, range.start, range.end - range.start, prot, MAP_SHARED | MAP_FIXED,
		       vrdma_arena.fd, range.start) == -1
		       ? errno
		       : 0;
}

#define PAGEMAP_THERE (3ull << 62) /* present or swapped out */

/* Anonymous pages that were never touched are holes in the arena too. */
static int copy_touched(struct vrdma_range range)
{
	uint64_t entries[1024];

	while (range.start < range.end) {
		const uintptr_t left = (range.end - range.start) / PAGE;
		const uintptr_t want = left < 1024 ? left : 1024;
		const ssize_t n = pread(vrdma_arena.pagemap, entries, want * sizeof(*entries),
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

static int copy(const struct vrdma_mapping *m, struct vrdma_range range)
{
	return m->inode ? copy_in(range.start, range.end) : copy_touched(range);
}

/*
 * Between vrdma_hold() and vrdma_hold_end() nothing here may write to memory other than its stack:
 * the range may hold what any other thread needs to get on.
 */
static int move_chunk(const struct vrdma_mapping *m, struct vrdma_range range)
{
	void *const start = (void *)range.start;
	const size_t length = range.end - range.start;
	int error;

	error = vrdma_vacate(range);
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
		vrdma_arena_punch(range);
	return error;
}

int vrdma_move(const struct vrdma_mapping *m)
{
	struct vrdma_range chunk;
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

bool vrdma_move_uses(const struct vrdma_mapping *whole, struct vrdma_range range)
{
	const uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	const uintptr_t error = (uintptr_t)&errno;
	pthread_attr_t attributes;
	void *stack;
	size_t size;

	if (vrdma_range_overlaps(range, error, error + sizeof(errno)))
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
