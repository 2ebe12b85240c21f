/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Memory for queues: allocated by the driver, or by a parent domain's allocator. */
#include <string.h>

#include "vrdma.h"

static int take_custom(struct vrdma_context *context, struct vrdma_pd *domain,
		       struct vrdma_buffer *buffer, void *data)
{
	int ret = EINVAL;

	buffer->data = data;
	buffer->custom = true;
	if ((uintptr_t)data % VRDMA_PAGE_SIZE == 0) {
		memset(data, 0, buffer->size);
		ret = context->control->share_buffer(context, buffer);
	}
	if (ret)
		domain->free(&domain->base, domain->pd_context, data, buffer->resource_type);
	return ret;
}

static int fill(struct vrdma_context *context, struct vrdma_pd *domain, struct vrdma_buffer *buffer)
{
	void *data = IBV_ALLOCATOR_USE_DEFAULT;

	if (domain && domain->alloc)
		data = domain->alloc(&domain->base, domain->pd_context, buffer->size,
				     VRDMA_PAGE_SIZE, buffer->resource_type);
	if (!data)
		return ENOMEM;
	if (data == IBV_ALLOCATOR_USE_DEFAULT)
		return context->control->alloc_buffer(context, buffer, buffer->size);
	return take_custom(context, domain, buffer, data);
}

int vrdma_queue_alloc(struct vrdma_context *context, struct ibv_pd *pd, uint64_t resource_type,
		      struct vrdma_buffer *buffer, uint64_t size)
{
	struct vrdma_pd *domain = vrdma_is_parent_domain(pd) ? to_vrdma_pd(pd) : NULL;
	int ret;

	memset(buffer, 0, sizeof(*buffer));
	buffer->size = (size + VRDMA_PAGE_SIZE - 1) & ~(uint64_t)(VRDMA_PAGE_SIZE - 1);
	buffer->resource_type = resource_type;
	ret = fill(context, domain, buffer);
	if (ret)
		return ret;
	buffer->domain = domain;
	if (domain)
		vrdma_hold(&domain->users);
	return 0;
}

void vrdma_queue_free(struct vrdma_context *context, struct vrdma_buffer *buffer)
{
	struct vrdma_pd *domain = buffer->domain;

	if (buffer->custom) {
		context->control->unshare_buffer(context, buffer);
		domain->free(&domain->base, domain->pd_context, buffer->data,
			     buffer->resource_type);
	} else {
		context->control->free_buffer(context, buffer);
	}
	if (domain)
		vrdma_drop(&domain->users);
}
