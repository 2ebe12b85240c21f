/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Memory of this process that the device sees. Bus addresses of a range are contiguous, so
 * its page list is never more than the first block.
 */
#ifndef VRDMA_DIRECT_MEMORY_H
#define VRDMA_DIRECT_MEMORY_H

#include <pthread.h>
#include <stdbool.h>
#include <vrdma/device.h>

#include "../shared_buffer.h"
#include "bus.h"
#include "iova.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a device reaches memory: as files (share.h), or in place (in_place.h). */
struct vrdma_memory_source;

/*
 * Shared memory lies in one file (share.h), at the offsets that equal its addresses. The bus maps
 * that file in large chunks, which stay mapped. So a registration does not involve the bus, and the
 * number of the device's mappings does not grow with what is registered.
 */
#define VRDMA_CHUNK_SIZE ((uint64_t)1 << 30)

struct vrdma_chunk {
	struct vrdma_chunk *next;
	uint64_t start; /* its address, a multiple of its size */
	uint64_t iova;
};

struct vrdma_memory {
	struct vrdma_bus *bus;
	const struct vrdma_memory_source *source;
	int file;             /* that one file, once there are queues in it; else -1 */
	pthread_mutex_t lock; /* all below */
	struct vrdma_iova_space space;
	struct vrdma_chunk *chunks;
};

/* The bus addresses of one mapping of the bus. */
struct vrdma_extent {
	uint64_t iova;
	uint64_t length;
};

/* A range of the program's memory. If it is in no chunk, it has mappings of its own. */
struct vrdma_region {
	void *start;
	size_t length;
	uint64_t iova; /* of start */
	bool in_chunk;
	struct vrdma_extent range; /* bus addresses that the region takes */
	struct vrdma_extent *extents;
	unsigned int count;
};

/* Functions return 0 or an errno. */
int vrdma_memory_init(struct vrdma_memory *memory, struct vrdma_bus *bus);
void vrdma_memory_destroy(struct vrdma_memory *memory);

/* Zeroed memory for queues. buffer->address is a bus address. */
int vrdma_memory_alloc(struct vrdma_memory *memory, struct vrdma_buffer *buffer, uint64_t size);
void vrdma_memory_free(struct vrdma_memory *memory, struct vrdma_buffer *buffer);

int vrdma_region_map(struct vrdma_memory *memory, struct vrdma_region *region, void *start,
		     size_t length, bool device_writes);
void vrdma_region_unmap(struct vrdma_memory *memory, struct vrdma_region *region);

/* The region as few large blocks, and its offset in the first one. */
struct vrdma_page_list vrdma_region_pages(const struct vrdma_region *region,
					  uint32_t *first_offset);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_DIRECT_MEMORY_H */
