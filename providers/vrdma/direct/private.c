/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "private.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arena.h"
#include "share_count.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24 /* Linux 5.18 */
#endif

/* Direct system calls: the callers of this file replace the C library's madvise() and mremap(). */
static int stock_madvise(const void *address, size_t length, int advice)
{
	return (int)syscall(SYS_madvise, address, length, advice);
}

static void *stock_mremap(const void *old, size_t old_length, size_t length, int flags,
			  const void *address)
{
	return (void *)syscall(SYS_mremap, old, old_length, length, flags, address);
}

static bool pages_of(const void *address, size_t length, struct vrdma_range *range)
{
	const uintptr_t start = (uintptr_t)address;

	if (start % PAGE || !length || start >= ARENA_SIZE || length > ARENA_SIZE - start)
		return false;
	*range = (struct vrdma_range){start, (start + length + PAGE - 1) / PAGE * PAGE};
	return true;
}

static bool discards(int advice)
{
	return advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_DONTNEED_LOCKED;
}

int vrdma_private_madvise(void *address, size_t length, int advice)
{
	struct vrdma_range range, moved;
	int error;

	if (!discards(advice) || vrdma_arena_is_parents() || !pages_of(address, length, &range) ||
	    !vrdma_moved_run(range, &moved))
		return stock_madvise(address, length, advice);
	/* MADV_FREE is for private pages only. */
	error = stock_madvise(address, length, advice == MADV_FREE ? MADV_DONTNEED : advice) ? errno
											     : 0;
	if (error && error != ENOMEM) /* ENOMEM: another part of the range is not mapped */
		return -1;
	for (; vrdma_moved_run(range, &moved); range.start = moved.end) {
		const int failed = vrdma_arena_punch(&vrdma_arena.files[0], moved);

		error = failed ? failed : error;
	}
	errno = error ? error : errno;
	return error ? -1 : 0;
}

/* --- mremap() --- */

/* A range of whole pages that is being remapped. */
struct journey {
	struct vrdma_maps maps;
	struct vrdma_range from;
	int prot;
	char *to;
};

static bool is_ours(const struct vrdma_mapping *m)
{
	const struct vrdma_arena_file *const file = &vrdma_arena.files[0];

	return m->shared && m->inode == file->inode && m->device == file->device;
}

/* Takes the first part of the range, which is in one mapping. */
static bool next_part(struct journey *journey, struct vrdma_range *left, struct vrdma_mapping *m)
{
	if (left->start >= left->end || !vrdma_maps_find(&journey->maps, left->start, m) ||
	    m->start > left->start)
		return false;
	m->offset += left->start - m->start;
	m->start = left->start;
	if (m->end > left->end)
		m->end = left->end;
	left->start = m->end;
	return true;
}

/* Whether it was one private mapping before some of it was moved. If not, the kernel decides. */
static bool was_private(struct journey *journey)
{
	struct vrdma_range left = journey->from;
	struct vrdma_mapping m;
	bool ours = false;

	journey->prot = -1;
	vrdma_maps_rewind(&journey->maps);
	while (next_part(journey, &left, &m)) {
		if (!is_ours(&m) && (m.shared || m.inode))
			return false;
		if (!(m.prot & PROT_READ) || (journey->prot >= 0 && m.prot != journey->prot))
			return false;
		journey->prot = m.prot;
		ours |= is_ours(&m);
	}
	return ours && left.start == left.end;
}

/* Skips pages of zeros: their new place is zero already, and should not take memory. */
static void copy_pages(const char *from, char *to, size_t length)
{
	static const char zero[PAGE];
	size_t at;

	for (at = 0; at < length; at += PAGE)
		if (memcmp(from + at, zero, PAGE) != 0)
			memcpy(to + at, from + at, PAGE);
}

static bool move_part(const struct journey *journey, const struct vrdma_mapping *m)
{
	char *const to = journey->to + (m->start - journey->from.start);
	const size_t length = m->end - m->start;
	struct vrdma_range left = {m->offset, m->offset + length};
	struct vrdma_range data;

	if (!is_ours(m)) {
		copy_pages((const char *)m->start, to, length);
		return true;
	}
	for (; vrdma_arena_data(&vrdma_arena.files[0], left, &data); left.start = data.end)
		if (!vrdma_arena_read(&vrdma_arena.files[0], data, to + (data.start - m->offset)))
			return false;
	return true;
}

/* The new place must be mapped, and writable. */
static bool move_all(struct journey *journey)
{
	struct vrdma_range left = journey->from;
	struct vrdma_mapping m;

	vrdma_maps_rewind(&journey->maps);
	while (next_part(journey, &left, &m))
		if (!move_part(journey, &m))
			return false;
	return left.start == left.end;
}

static void *move_to(struct journey *journey, size_t length, int flags, void *address)
{
	const size_t old_length = journey->from.end - journey->from.start;

	journey->to = mmap(address, length, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | (flags & MREMAP_FIXED ? MAP_FIXED : 0), -1,
			   0);
	if (journey->to == MAP_FAILED)
		return MAP_FAILED;
	if (!move_all(journey) || mprotect(journey->to, length, journey->prot)) {
		munmap(journey->to, length);
		errno = ENOMEM;
		return MAP_FAILED;
	}
	munmap((void *)journey->from.start, old_length);
	return journey->to;
}

static void *remap(struct journey *journey, size_t length, int flags, void *address)
{
	const struct vrdma_range from = journey->from;
	const size_t old_length = from.end - from.start;
	void *more;

	if (!(flags & MREMAP_FIXED)) {
		more = mmap((void *)from.end, length - old_length, journey->prot,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (more == (void *)from.end)
			return (void *)from.start;
		address = NULL;
	}
	if (flags & MREMAP_MAYMOVE)
		return move_to(journey, length, flags, address);
	errno = ENOMEM;
	return MAP_FAILED;
}

/* Whether it grows or moves. The arena's pages cannot do that, because they belong to addresses. */
static bool is_journey(struct vrdma_range old, struct vrdma_range new, int flags)
{
	if (flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED))
		return false;
	if (!(flags & MREMAP_FIXED))
		return new.end - new.start > old.end - old.start;
	return flags & MREMAP_MAYMOVE && !vrdma_range_overlaps(old, new.start, new.end);
}

/* The kernel's mremap() also shrinks first. */
static bool shrink(struct vrdma_range *range, size_t length)
{
	if (range->end - range->start <= length)
		return true;
	if (munmap((void *)(range->start + length), range->end - range->start - length))
		return false;
	range->end = range->start + length;
	return true;
}

static void *mremap_moved(struct vrdma_range from, struct vrdma_range new, int flags)
{
	const size_t old_length = from.end - from.start, length = new.end - new.start;
	struct journey journey = {.from = from};
	void *result = MAP_FAILED;

	/* The mappings are unknown, and the kernel's mremap() could make one page appear twice. */
	if (vrdma_maps_open(&journey.maps)) {
		errno = EFAULT;
		return MAP_FAILED;
	}
	if (!was_private(&journey))
		result = stock_mremap((void *)from.start, old_length, length, flags,
				      (void *)new.start);
	else if (shrink(&journey.from, length))
		result = remap(&journey, length, flags, (void *)new.start);
	vrdma_maps_close(&journey.maps);
	return result;
}

void *vrdma_private_mremap(void *old, size_t old_length, size_t length, int flags, void *address)
{
	struct vrdma_range from, new, moved;

	if (!pages_of(old, old_length, &from) ||
	    !pages_of(flags & MREMAP_FIXED ? address : NULL, length, &new) ||
	    !is_journey(from, new, flags) || !vrdma_moved_run(from, &moved))
		return stock_mremap(old, old_length, length, flags, address);
	return mremap_moved(from, new, flags);
}
