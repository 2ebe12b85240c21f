/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Heaps of malloc() in the arena, across a fork().
 *
 * Before any handler runs in the child, glibc frees the heaps of the parent's other threads there.
 * For that, it writes to the first page of each heap, which must not be the parent's page. So the
 * child does not have these pages at first, and gets its own ones when it touches one.
 *
 * Callers other than the SIGSEGV handler hold the arena's lock.
 */
#ifndef VRDMA_DIRECT_HEAPS_H
#define VRDMA_DIRECT_HEAPS_H

#include <signal.h>
#include <stdbool.h>

/* Before the fork; and after it, in the parent. */
void vrdma_heaps_hide(void);
void vrdma_heaps_show(void);

/* After the fork, in the child. False if it failed. */
bool vrdma_heaps_take_back(void);

/* In the SIGSEGV handler. True if the thread is to retry the access. */
bool vrdma_heaps_resolve(const siginfo_t *info);

#endif /* VRDMA_DIRECT_HEAPS_H */
