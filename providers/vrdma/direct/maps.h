/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Lists the mappings of this process, without allocating memory. */
#ifndef VRDMA_DIRECT_MAPS_H
#define VRDMA_DIRECT_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vrdma_mapping {
	uintptr_t start, end;
	uint64_t offset; /* of start, in the file */
	dev_t device;
	ino_t inode; /* 0: no file */
	int prot;
	bool shared;
	char name[128]; /* cut off where longer */
};

/* Passes in address order over /proc/self/maps. In the child of a fork(), that is the parent's. */
struct vrdma_maps {
	int fd;
	bool has_query;
	size_t at, filled;
	char text[4096];
};

/* Returns 0 or an errno. */
int vrdma_maps_open(struct vrdma_maps *maps);
void vrdma_maps_close(struct vrdma_maps *maps);

/* Starts a pass. */
void vrdma_maps_rewind(struct vrdma_maps *maps);

/*
 * Finds the first mapping that ends above `address`, which must not decrease in a pass.
 * Returns false if there is none.
 */
bool vrdma_maps_find(struct vrdma_maps *maps, uintptr_t address, struct vrdma_mapping *mapping);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_DIRECT_MAPS_H */
