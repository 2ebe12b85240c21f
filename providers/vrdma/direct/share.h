/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Memory of this process as files. A vfio-user device sees it that way.
 *
 * Private memory is moved into the arena when it is first shared. The arena is one sparse memfd of
 * the size of the address space, in which each page lies at the offset that equals its address; and
 * one more memfd for each size of huge pages. So one fd serves all, neighbours stay one mapping,
 * and the kernel's list of mappings tells whether a page is in the arena. Bookkeeping only counts
 * the shares of each page. Pages stay in the arena when they are no longer shared. Pages that the
 * program has unmapped are freed when their last share ends, when something else is shared at the
 * same address, or when enough has been released since.
 *
 * Moving keeps addresses, contents and protection. Other threads may use the pages meanwhile
 * (exceptions: see hold.h). Pages in the arena differ from others:
 *   - private.h has madvise() and mremap() for them. The kernel's mremap() must not make them grow.
 *     It fails for 128 KiB or more and for mappings of glibc's malloc(), and realloc() copies then.
 *   - huge pages (MAP_HUGETLB) stay huge pages: to move them takes one more page of the pool than
 *     are mapped.
 *   - the kernel's madvise(MADV_DONTNEED) does not clear them; mlock(), MADV_* and NUMA settings
 *     are lost.
 *   - memory that is freed and mapped anew while still shared is the same pages of the file: a
 *     share that outlives its memory shows what is there now.
 *
 * fork(): the child gets a copy of the arena's memory as of the fork, in private memory of small
 * pages. It shares nothing yet. fork() returns in the parent when the copy is made. The copy may or
 * may not have what the parent's other threads write during that time. If there is no /proc (in a
 * chroot()), these threads also must not unmap, move or protect shared memory then. Memory under
 * MADV_DONTFORK is not in the child at all. vfork() and posix_spawn() copy nothing. A child of
 * clone() without fork() shows its parent's pages and must not write to them. MADV_DONTFORK could
 * not take the pages away from such a child: most such children execute another program, and the
 * kernel reads that program's name and arguments in the heap.
 *
 * A share asks the kernel for mappings. Before Linux 6.11, that means to read /proc/self/maps,
 * which takes about 1 us per mapping.
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

/* Returns 0, or an errno to end the visits. Must not call this file's functions, or fork(). */
typedef int vrdma_share_visit(const struct vrdma_piece *piece, void *arg);

/*
 * Shares the whole pages that cover the range, and visits their pieces in the order of their
 * addresses. A program's own shared memory (memfd, tmpfs, hugetlbfs, MAP_SHARED|MAP_ANONYMOUS) is
 * visited as it is.
 *
 * Returns 0, what a visit returned, or an errno. After an error, nothing is shared:
 *   EINVAL      empty, or past the end of the address space
 *   EFAULT      not mapped, not readable or, for a device that writes, not writable
 *   EOPNOTSUPP  shared mappings of other files, of devices, or of files that may not be opened
 *               again (/proc/self/map_files needs CAP_CHECKPOINT_RESTORE); private mappings of
 *               hugetlbfs files; stacks; mappings of the kernel
 *   EIO         in a child of clone() without fork()
 *   EBUSY       mremap() has moved away memory that was shared at this address
 *   EFBIG       the arena does not fit into RLIMIT_FSIZE
 *   others      errors of the kernel, such as ENOMEM or ENOSPC
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
