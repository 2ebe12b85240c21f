/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Memory of this process in place, for a device that reaches it through the process's page tables
 * (Linux VFIO). This is the counterpart of share.h.
 *
 * Nothing is moved or counted. A range is one piece, and in no file. The kernel pins the pages that
 * the device touches, for writing. A registration that outlives its memory keeps the pages that are
 * pinned, as with any HCA.
 *
 * fork() copies pinned pages for the child at once (Linux 5.12). A page that is pinned later first
 * becomes the parent's own. So the parent and its device still see the same pages, and the child
 * has a copy, as of any other memory.
 */
#ifndef VRDMA_DIRECT_IN_PLACE_H
#define VRDMA_DIRECT_IN_PLACE_H

#include "share.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Visits the whole pages that cover the range. Returns 0, what the visit returned, or an errno:
 *   EINVAL      empty, or past the end of the address space
 *   EFAULT      not mapped, not readable or, for a device that writes, not writable
 *   EOPNOTSUPP  not writable: the kernel cannot pin it
 */
int vrdma_in_place_share(void *address, size_t length, bool device_writes, vrdma_share_visit *visit,
			 void *arg);
void vrdma_in_place_unshare(void *address, size_t length);

/* Zeroed pages, for queues. Returns 0 or an errno. */
int vrdma_in_place_alloc(size_t length, struct vrdma_piece *piece);
void vrdma_in_place_free(const struct vrdma_piece *piece);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_DIRECT_IN_PLACE_H */
