/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What a client has given to its server, and gives to the next server again: its memory and its
 * interrupts. The caller serializes all calls.
 */
#ifndef VRDMA_DIRECT_GIVEN_H
#define VRDMA_DIRECT_GIVEN_H

#include <stdbool.h>
#include <vrdma/device.h>

#include "bus.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vrdma_given_file;

struct vrdma_given_map {
	struct vrdma_given_map *next;
	struct vrdma_given_file *file;
	uint64_t iova;
	uint64_t length;
	uint64_t offset;
};

struct vrdma_given {
	struct vrdma_given_map *maps;
	struct vrdma_given_file *files;
	bool incomplete; /* there was no memory or descriptor for one of the maps */
	int vectors[VRDMA_MAX_VECTORS];
	unsigned int num_vectors;
};

/* Keeps the map's file open, once for all its maps. */
void vrdma_given_add(struct vrdma_given *given, const struct vrdma_dma *dma);
void vrdma_given_remove(struct vrdma_given *given, uint64_t iova);
int vrdma_given_fd(const struct vrdma_given_map *map);
void vrdma_given_free(struct vrdma_given *given);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_DIRECT_GIVEN_H */
