/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the arena gives back: pages that nobody shares and that are not mapped. */
#ifndef VRDMA_DIRECT_RECLAIM_H
#define VRDMA_DIRECT_RECLAIM_H

#include "arena.h"

/* Frees what can be of the range. */
void vrdma_reclaim(struct vrdma_range range);

/* One share of the range has ended: frees what can be of it, and now and then of the arena. */
void vrdma_release(struct vrdma_range range);

/*
 * Makes room for what is moved here: what a former mapping at this address has left is of no use.
 * Returns 0, EBUSY where mremap() has moved it away, or why the kernel could not.
 */
int vrdma_vacate(const struct vrdma_arena_file *file, struct vrdma_range range);

#endif /* VRDMA_DIRECT_RECLAIM_H */
