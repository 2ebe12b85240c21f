/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Memory of this process where it is, for a device that reaches it through the process's page
 * tables (Linux VFIO): the counterpart of share.h.
 *
 * Nothing is moved and nothing counted: a range is one piece, in no file, of which the kernel pins
 * the pages that the device touches, for writing. A registration that outlives its memory keeps the
 * pages that are pinned, as with any HCA.
 *
 * fork(): what is pinned is copied for the child at once (Linux 5.12), and what is pinned later is
 * made the parent's own; so the parent and its device go on to see the same pages, and the child
 * has a copy as of any other memory.
 */
#ifndef VRDMA_DIRECT_IN_PLACE_H
#define VRDMA_DIRECT_IN_PLACE_H

#include "share.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Visits the whole pages that cover the range. Returns 0, what the visit returned, or an errno:
 *   EINVAL      nothing, or past the end of the address space
 *   EFAULT      not mapped, not readable or, for a device that writes, not writable
 *   EOPNOTSUPP  not writable, which it has to be for being pinned
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
