// SPDX-License-Identifier: GPL-2.0-only
/*
 * The data that the provider and this driver exchange beside the uverbs commands (uverbs.h). Its
 * length is fixed. A newer provider may send more, which must be zero: zero asks for nothing.
 */
#include <rdma/uverbs_ioctl.h>

#include "vrdma_ib.h"

int vrdma_udata_none(struct ib_udata *udata)
{
	if (udata && udata->inlen && !ib_is_udata_cleared(udata, 0, udata->inlen))
		return -EINVAL;
	return 0;
}

int vrdma_udata_in(struct ib_udata *udata, void *req, size_t size)
{
	if (udata->inlen < size)
		return -EINVAL;
	if (udata->inlen > size && !ib_is_udata_cleared(udata, size, udata->inlen - size))
		return -EINVAL;
	return ib_copy_from_udata(req, udata, size);
}

int vrdma_udata_out(struct ib_udata *udata, void *resp, size_t size)
{
	if (!udata)
		return 0;
	if (udata->outlen < size)
		return -EINVAL;
	return ib_copy_to_udata(udata, resp, size);
}

/* The user context that owns the new object; 0 is the kernel's. */
u32 vrdma_udata_owner(struct ib_udata *udata)
{
	struct vrdma_ucontext *ucontext =
		rdma_udata_to_drv_context(udata, struct vrdma_ucontext, ibucontext);

	return ucontext ? ucontext->handle : 0;
}
