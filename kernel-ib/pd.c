// SPDX-License-Identifier: GPL-2.0-only
/*
 * Protection domains.
 */
#include "vrdma_ib.h"

int vrdma_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibpd->device);
	struct vrdma_uverbs_alloc_pd_resp resp = {};
	struct vrdma_pd *pd = to_vrdma_pd(ibpd);
	int err;

	err = vrdma_udata_none(udata);
	if (err)
		return err;

	err = vrdma_cmd_alloc_pd(dev, vrdma_udata_owner(udata), &pd->handle);
	if (err)
		return err;

	resp.pd = pd->handle;
	err = vrdma_udata_out(udata, &resp, sizeof(resp));
	if (err)
		vrdma_cmd_destroy(dev, VRDMA_ADMIN_DEALLOC_PD, pd->handle);
	return err;
}

int vrdma_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	return vrdma_cmd_destroy(to_vrdma_dev(ibpd->device), VRDMA_ADMIN_DEALLOC_PD,
				 to_vrdma_pd(ibpd)->handle);
}
