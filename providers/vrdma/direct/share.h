/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Memory of this process as files, which is how a vfio-user device sees it.
 *
 * Private memory is moved, when it is first shared, into the arena: one sparse memfd of the size of
 * the address space, in which each page lies at the offset that is its address; and one more for
 * each size of huge pages. So one fd serves all, neighbours stay one mapping, and whether a page is
 * in the arena is what the kernel says of its mapping: bookkeeping only counts the shares of each
 * page. Pages stay in the arena when they are shared no more; what the program has unmapped is
 * given back when its last share ends, when something else is shared at the same address, or when
 * enough has been released since.
 *
 * Moving keeps addresses, contents and protection. Other threads may use the pages meanwhile
 * (exceptions: see hold.h). What becomes of a page in the arena:
 *   - private.h has madvise() and mremap() for it. The kernel's mremap() must not make it grow, but
 *     it fails for 128 KiB or more and for what glibc's malloc() has mapped, and realloc() copies.
 *   - huge pages (MAP_HUGETLB) stay huge pages: to move takes one more of the pool than are mapped.
 *   - the kernel's madvise(MADV_DONTNEED) does not clear it; mlock(), MADV_* and NUMA settings are
 *     lost.
 *   - memory that is freed and mapped anew while still shared is the same pages of the file: a
 *     share that outlives its memory shows what is there now.
 *
 * fork(): the child gets a copy, as of the fork, of what is in the arena, in private memory of
 * small pages, and shares nothing yet; fork() returns in the parent when the copy is made. Writes
 * of the parent's other threads during that time may or may not be in it. Where there is no /proc
 * (in a chroot()), they must not unmap, move or protect what was shared, either. Memory under
 * MADV_DONTFORK is not in the child at all. vfork() and posix_spawn() copy nothing. A child of
 * clone() without fork() shows its parent's pages and must not write to them. It cannot be without
 * them instead (MADV_DONTFORK): most such children execute another program, whose name and
 * arguments the kernel reads in the heap.
 *
 * A share asks the kernel what is mapped: before Linux 6.11 that is to read /proc/self/maps, which
 * takes about 1 us a mapping.
 *
 * All functions are thread-safe, and not for signal handlers.
 */
#ifndef VRDMA_DIRECT_SHARE_H
#define VRDMA_DIRECT_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whole pages, contiguous in a file. */
struct vrdma_piece {
	void *address;
	size_t length;
	int fd; /* the arena's, or open only during the visit */
	uint64_t offset;
};

/* Returns 0 or an errno, which ends the visits. Must not call this file's functions, or fork(). */
typedef int vrdma_share_visit(const struct vrdma_piece *piece, void *arg);

/*
 * Shares the whole pages that cover the range, and visits their pieces in the order of their
 * addresses. A program's own shared memory (memfd, tmpfs, hugetlbfs, MAP_SHARED|MAP_ANONYMOUS) is
 * visited as it is.
 *
 * Returns 0, what a visit returned, or an errno, and then nothing is shared:
 *   EINVAL      nothing, or past the end of the address space
 *   EFAULT      not mapped, not readable or, for a device that writes, not writable
 *   EOPNOTSUPP  shared mappings of other files, of devices, or of files that may not be opened
 *               again (/proc/self/map_files wants CAP_CHECKPOINT_RESTORE); private mappings of
 *               hugetlbfs files; stacks; the kernel's
 *   EIO         in a child of clone() without fork()
 *   EBUSY       mremap() has moved away what was shared at this address
 *   EFBIG       the arena does not fit into RLIMIT_FSIZE
 * or why the kernel could not do it, as ENOMEM or ENOSPC.
 */
int vrdma_share(void *address, size_t length, bool device_writes, vrdma_share_visit *visit,
		void *arg);

/* Ends one share of exactly this range. */
void vrdma_unshare(void *address, size_t length);

/* Zeroed pages in the arena, for queues. Returns 0 or an errno. */
int vrdma_shared_alloc(size_t length, struct vrdma_piece *piece);
void vrdma_shared_free(const struct vrdma_piece *piece);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_DIRECT_SHARE_H */
