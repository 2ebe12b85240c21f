// SPDX-License-Identifier: GPL-2.0-only
/* Memory windows. Work requests bind and unbind them. */
#include "vrdma_ib.h"

int vrdma_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct vrdma_mw *mw = to_vrdma_mw(ibmw);
	int err;

	err = vrdma_udata_none(udata);
	if (err)
		return err;

	err = vrdma_cmd_alloc_mw(to_vrdma_dev(ibmw->device), to_vrdma_pd(ibmw->pd)->handle,
				 ibmw->type, &mw->key);
	if (err)
		return err;
	ibmw->rkey = mw->key;
	return 0;
}

int vrdma_dealloc_mw(struct ib_mw *ibmw)
{
	return vrdma_cmd_destroy(to_vrdma_dev(ibmw->device), VRDMA_ADMIN_DEALLOC_MW,
				 to_vrdma_mw(ibmw)->key);
}
