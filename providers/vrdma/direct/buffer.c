/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Memory for queues. */
#include <errno.h>
#include <stdlib.h>

#include "verbs.h"

int vrdma_direct_alloc_buffer(struct vrdma_context *context, struct vrdma_buffer *buffer,
			      uint64_t size)
{
	return vrdma_memory_alloc(&context->dev->memory, buffer, size);
}

void vrdma_direct_free_buffer(struct vrdma_context *context, struct vrdma_buffer *buffer)
{
	vrdma_memory_free(&context->dev->memory, buffer);
}

/* Shares the buffer like memory that a program registers. */
int vrdma_direct_share_buffer(struct vrdma_context *context, struct vrdma_buffer *buffer)
{
	int ret;

	buffer->region = calloc(1, sizeof(*buffer->region));
	if (!buffer->region)
		return ENOMEM;
	ret = vrdma_region_map(&context->dev->memory, buffer->region, buffer->data, buffer->size,
			       true);
	if (ret)
		free(buffer->region);
	else
		buffer->address = buffer->region->iova;
	return ret;
}

void vrdma_direct_unshare_buffer(struct vrdma_context *context, struct vrdma_buffer *buffer)
{
	vrdma_region_unmap(&context->dev->memory, buffer->region);
	free(buffer->region);
}
