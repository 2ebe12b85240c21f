// SPDX-License-Identifier: GPL-2.0-only
/* Queries for a process that imports a command file and its objects from another process. */
#include <rdma/uverbs_ioctl.h>
#include <rdma/uverbs_std_types.h>

#include "vrdma_ib.h"

#define UVERBS_MODULE_NAME vrdma_ib
#include <rdma/uverbs_named_ioctl.h>

int vrdma_query_ucontext(struct ib_ucontext *ibucontext, struct uverbs_attr_bundle *attrs)
{
	struct vrdma_uverbs_alloc_ucontext_resp resp;

	vrdma_ucontext_describe(to_vrdma_ucontext(ibucontext), &resp);
	return uverbs_copy_to(attrs, VRDMA_UVERBS_ATTR_QUERY_CONTEXT_RESP, &resp, sizeof(resp));
}

static int UVERBS_HANDLER(VRDMA_UVERBS_METHOD_QUERY_PD)(struct uverbs_attr_bundle *attrs)
{
	struct ib_pd *ibpd = uverbs_attr_get_obj(attrs, VRDMA_UVERBS_ATTR_QUERY_PD_HANDLE);
	struct vrdma_uverbs_alloc_pd_resp resp = {
		.pd = to_vrdma_pd(ibpd)->handle,
	};

	return uverbs_copy_to(attrs, VRDMA_UVERBS_ATTR_QUERY_PD_RESP, &resp, sizeof(resp));
}

#define VRDMA_UCONTEXT UVERBS_ATTR_TYPE(struct vrdma_uverbs_alloc_ucontext_resp)

ADD_UVERBS_ATTRIBUTES_SIMPLE(vrdma_query_context, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT,
			     UVERBS_ATTR_PTR_OUT(VRDMA_UVERBS_ATTR_QUERY_CONTEXT_RESP,
						 VRDMA_UCONTEXT, UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(VRDMA_UVERBS_METHOD_QUERY_PD,
			    UVERBS_ATTR_IDR(VRDMA_UVERBS_ATTR_QUERY_PD_HANDLE, UVERBS_OBJECT_PD,
					    UVERBS_ACCESS_READ, UA_MANDATORY),
			    UVERBS_ATTR_PTR_OUT(VRDMA_UVERBS_ATTR_QUERY_PD_RESP,
						UVERBS_ATTR_TYPE(struct vrdma_uverbs_alloc_pd_resp),
						UA_MANDATORY));

ADD_UVERBS_METHODS(vrdma_query_pd, UVERBS_OBJECT_PD, &UVERBS_METHOD(VRDMA_UVERBS_METHOD_QUERY_PD));

const struct uapi_definition vrdma_uapi_definitions[] = {
	UAPI_DEF_CHAIN(vrdma_dm_methods),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DEVICE, &vrdma_query_context),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_PD, &vrdma_query_pd),
	{},
};
