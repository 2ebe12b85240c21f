/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Which IOVAs of the device's window are taken: first fit, in whole pages. The free ranges are a
 * treap by address, in which each node knows the longest range below it. Not thread-safe.
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

/* All of [start, end), whole pages, is free. Returns 0 or an errno. */
int vrdma_iova_init(struct vrdma_iova_space *space, uint64_t start, uint64_t end);
void vrdma_iova_destroy(struct vrdma_iova_space *space);

/* Rounds the length up to pages. Returns 0, EINVAL, ENOMEM or, where nothing fits, ENOSPC. */
int vrdma_iova_alloc(struct vrdma_iova_space *space, uint64_t length, uint64_t *iova);

/* The range of one vrdma_iova_alloc(). Returns 0, or EINVAL where part of it is free. */
int vrdma_iova_free(struct vrdma_iova_space *space, uint64_t iova, uint64_t length);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_DIRECT_IOVA_H */
