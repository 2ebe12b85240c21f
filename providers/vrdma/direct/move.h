/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Moves memory into the arena while other threads use it. */
#ifndef VRDMA_DIRECT_MOVE_H
#define VRDMA_DIRECT_MOVE_H

#include <stdbool.h>

#include "arena.h"

/*
 * Moves (a part of) a mapping to its home, with its contents and protection. Returns 0 or an errno.
 * After an error, some of it may have been moved, and there are two mappings then.
 */
int vrdma_move(const struct vrdma_mapping *part);

/*
 * Whether this thread touches the range while it moves memory. `whole` is the mapping that the
 * range is in. Stacks of other threads cannot be recognized.
 */
bool vrdma_move_uses(const struct vrdma_mapping *whole, struct vrdma_range range);

#endif /* VRDMA_DIRECT_MOVE_H */
