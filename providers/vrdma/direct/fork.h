/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The child of a fork() makes the arena's memory private; see share.h. */
#ifndef VRDMA_DIRECT_FORK_H
#define VRDMA_DIRECT_FORK_H

/*
 * To be called before the arena is created, and before handlers of forks are registered for what
 * uses it. Any thread may call it again. Returns 0 or an errno.
 */
int vrdma_fork_prepare(void);

#endif /* VRDMA_DIRECT_FORK_H */
