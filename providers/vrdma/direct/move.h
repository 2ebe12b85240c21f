/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Moving memory into the arena, under the feet of the threads that use it. */
#ifndef VRDMA_DIRECT_MOVE_H
#define VRDMA_DIRECT_MOVE_H

#include <stdbool.h>

#include "arena.h"

/*
 * Moves (a part of) a mapping to its home, with its contents and protection. Returns 0 or an
 * errno, and then some of it has been moved, which shows as two mappings.
 */
int vrdma_move(const struct vrdma_mapping *part);

/*
 * Does this thread touch it while it moves memory? `whole` is the mapping that the range is in.
 * Other threads' stacks cannot be told.
 */
bool vrdma_move_uses(const struct vrdma_mapping *whole, struct vrdma_range range);

#endif /* VRDMA_DIRECT_MOVE_H */
