/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How often each page is shared, and whether it has ever been moved into the arena's first file.
 * For who holds the arena's lock, but for vrdma_moved_run().
 */
#ifndef VRDMA_DIRECT_SHARE_COUNT_H
#define VRDMA_DIRECT_SHARE_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"

/* Makes room for the counters of the range, for good. Returns 0 or an errno. */
int vrdma_share_count_reserve(struct vrdma_range range);

/* Of what has room. */
void vrdma_share_count_up(struct vrdma_range range);

/* Returns the bytes that are shared no more. */
uint64_t vrdma_share_count_down(struct vrdma_range range);

bool vrdma_is_shared(uintptr_t address);

/* Where the pages from the start of the range on that are as shared as the first one end. */
uintptr_t vrdma_share_run_end(struct vrdma_range range);

void vrdma_share_count_set_moved(struct vrdma_range range);

/* The first pages of the range that have been moved; false: none. Lock-free. */
bool vrdma_moved_run(struct vrdma_range range, struct vrdma_range *run);

/* Nothing is shared, nor moved. */
void vrdma_share_count_free(void);

#endif /* VRDMA_DIRECT_SHARE_COUNT_H */
