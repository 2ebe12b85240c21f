/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Memory that is shared with the device: page-aligned, zeroed, and not copied by fork(). */
#ifndef VRDMA_SHARED_BUFFER_H
#define VRDMA_SHARED_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vrdma_pd;
struct vrdma_region;

struct vrdma_buffer {
	void *data;
	size_t size;      /* whole pages */
	uint64_t address; /* given to the device, or to the kernel for the device */
	int fd;           /* without a kernel: the file of the memory, and the offset in the file */
	uint64_t offset;
	bool in_chunk; /* see direct/memory.h */

	struct vrdma_pd *domain;     /* the parent domain of the queue, or NULL */
	uint64_t resource_type;      /* argument of the domain's allocator */
	bool custom;                 /* allocated by the domain's allocator */
	struct vrdma_region *region; /* without a kernel: the region that shares custom memory */
};

/* Allocates the buffer in the process's own memory. Returns 0 or an errno. */
int vrdma_buffer_init(struct vrdma_buffer *buffer, uint64_t size);
void vrdma_buffer_destroy(struct vrdma_buffer *buffer);

#endif /* VRDMA_SHARED_BUFFER_H */
