/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What becomes of the arena in the child of a fork(): private memory; see share.h. */
#ifndef VRDMA_DIRECT_FORK_H
#define VRDMA_DIRECT_FORK_H

/* To be called under the arena's lock, before there is one. Returns 0 or an errno. */
int vrdma_fork_prepare(void);

#endif /* VRDMA_DIRECT_FORK_H */
