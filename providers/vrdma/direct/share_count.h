/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Counts how often each page is shared, and tells whether it has ever been moved into the arena's
 * first file. Callers hold the arena's lock, except for vrdma_moved_run().
 */
#ifndef VRDMA_DIRECT_SHARE_COUNT_H
#define VRDMA_DIRECT_SHARE_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"

/* Makes permanent room for the counters of the range. Returns 0 or an errno. */
int vrdma_share_count_reserve(struct vrdma_range range);

/* The range must have room. */
void vrdma_share_count_up(struct vrdma_range range);

/* Returns how many bytes are no longer shared. */
uint64_t vrdma_share_count_down(struct vrdma_range range);

bool vrdma_is_shared(uintptr_t address);

/* The end of the run of pages at the start of the range that are all shared, or all not shared. */
uintptr_t vrdma_share_run_end(struct vrdma_range range);

void vrdma_share_count_set_moved(struct vrdma_range range);

/* Finds the first run of moved pages in the range. False if there is none. Lock-free. */
bool vrdma_moved_run(struct vrdma_range range, struct vrdma_range *run);

/* Afterwards nothing counts as shared or moved. */
void vrdma_share_count_free(void);

#endif /* VRDMA_DIRECT_SHARE_COUNT_H */
