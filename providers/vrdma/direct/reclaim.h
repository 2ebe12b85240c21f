/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Frees pages of the arena that are neither shared nor mapped. */
#ifndef VRDMA_DIRECT_RECLAIM_H
#define VRDMA_DIRECT_RECLAIM_H

#include "arena.h"

/* Frees such pages of the range. */
void vrdma_reclaim(struct vrdma_range range);

/* One share of the range has ended. Frees such pages of it, and now and then of the whole arena. */
void vrdma_release(struct vrdma_range range);

/*
 * Makes room for memory that is to be moved here: frees pages that a former mapping at this address
 * has left. Returns 0, EBUSY if mremap() has moved that mapping away, or an errno of the kernel.
 */
int vrdma_vacate(const struct vrdma_arena_file *file, struct vrdma_range range);

#endif /* VRDMA_DIRECT_RECLAIM_H */
