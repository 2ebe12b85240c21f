/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Heaps of malloc() in the arena, across a fork().
 *
 * Before any handler runs in the child, glibc sets the heaps of the parent's other threads free
 * there. What it writes for that stands in the first page of each, which must not be the parent's
 * then. So the child does not have these pages at first, and gets its own when it touches one.
 *
 * For who holds the arena's lock.
 */
#ifndef VRDMA_DIRECT_HEAPS_H
#define VRDMA_DIRECT_HEAPS_H

#include <signal.h>
#include <stdbool.h>

/* Before the fork; and after it, in the parent. */
void vrdma_heaps_hide(void);
void vrdma_heaps_show(void);

/* After the fork, in the child. False where it could not. */
bool vrdma_heaps_take_back(void);

/* In the SIGSEGV handler. True where the access is to be made again. */
bool vrdma_heaps_resolve(const siginfo_t *info);

#endif /* VRDMA_DIRECT_HEAPS_H */
