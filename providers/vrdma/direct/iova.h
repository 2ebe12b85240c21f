/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Allocates IOVAs of the device's window: first fit, in whole pages. The free ranges are a treap
 * that is ordered by address. Each node knows the longest range of its subtree. Not thread-safe.
 */
#ifndef VRDMA_DIRECT_IOVA_H
#define VRDMA_DIRECT_IOVA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vrdma_iova_node;

struct vrdma_iova_space {
	struct vrdma_iova_node *free;
	struct vrdma_iova_node *spare; /* one for each range that is taken */
	uint64_t start, end;
	uint32_t random;
};

/* At first, all of [start, end) is free: whole pages. Returns 0 or an errno. */
int vrdma_iova_init(struct vrdma_iova_space *space, uint64_t start, uint64_t end);
void vrdma_iova_destroy(struct vrdma_iova_space *space);

/* Rounds the length up to pages. Returns 0, EINVAL, ENOMEM or, if nothing fits, ENOSPC. */
int vrdma_iova_alloc(struct vrdma_iova_space *space, uint64_t length, uint64_t *iova);

/* Frees the range of one vrdma_iova_alloc(). Returns 0, or EINVAL if part of it is free. */
int vrdma_iova_free(struct vrdma_iova_space *space, uint64_t iova, uint64_t length);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_DIRECT_IOVA_H */
