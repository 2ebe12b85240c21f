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
	uint64_t address; /* what the device, or the kernel for it, is told */
	int fd;           /* without a kernel: the file that it is, and where in it */
	uint64_t offset;
	bool in_chunk; /* see direct/memory.h */

	struct vrdma_pd *domain;     /* the parent domain that it is of, or NULL */
	uint64_t resource_type;      /* what its allocator was told */
	bool custom;                 /* allocated by that */
	struct vrdma_region *region; /* without a kernel: as what custom memory is shared */
};

/* In the process's own memory. Returns 0 or an errno. */
int vrdma_buffer_init(struct vrdma_buffer *buffer, uint64_t size);
void vrdma_buffer_destroy(struct vrdma_buffer *buffer);

#endif /* VRDMA_SHARED_BUFFER_H */
