/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The child of a fork() makes the arena's memory private; see share.h. */
#ifndef VRDMA_DIRECT_FORK_H
#define VRDMA_DIRECT_FORK_H

/* To be called under the arena's lock, before the arena is created. Returns 0 or an errno. */
int vrdma_fork_prepare(void);

#endif /* VRDMA_DIRECT_FORK_H */
