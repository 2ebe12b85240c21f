/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Imports through the kernel: our driver adds attributes to ib_core's methods (uverbs.h). */
#include "uverbs_ioctl.h"
#include "vrdma.h"

static int query_context(struct vrdma_context *context, int fd)
{
	struct verbs_device *device = (struct verbs_device *)context->base.context.device;
	struct vrdma_uverbs_alloc_ucontext_resp ucontext = {};
	uint32_t vectors = 0;
	const struct ib_uverbs_attr attrs[] = {
		vrdma_uverbs_answer(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, &vectors,
				    sizeof(vectors)),
		vrdma_uverbs_answer(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, &device->core_support,
				    sizeof(device->core_support)),
		vrdma_uverbs_answer(VRDMA_UVERBS_ATTR_QUERY_CONTEXT_RESP, &ucontext,
				    sizeof(ucontext)),
	};
	int ret = vrdma_uverbs_call(fd, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT, attrs,
				    3);

	if (ret)
		return ret;
	context->base.context.num_comp_vectors = (int)vectors;
	return vrdma_take_ucontext(context, fd, &ucontext);
}

struct verbs_context *vrdma_import_context(struct ibv_device *device, int fd)
{
	return vrdma_new_context(device, fd, query_context);
}

int vrdma_uverbs_query_pd(struct ibv_context *context, uint32_t handle)
{
	struct vrdma_uverbs_alloc_pd_resp pd = {};
	const struct ib_uverbs_attr attrs[] = {
		vrdma_uverbs_handle(VRDMA_UVERBS_ATTR_QUERY_PD_HANDLE, handle),
		vrdma_uverbs_answer(VRDMA_UVERBS_ATTR_QUERY_PD_RESP, &pd, sizeof(pd)),
	};

	return vrdma_uverbs_call(context->cmd_fd, UVERBS_OBJECT_PD, VRDMA_UVERBS_METHOD_QUERY_PD,
				 attrs, 2);
}
