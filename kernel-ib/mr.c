// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory regions.
 */
#include "vrdma_ib.h"

#define VRDMA_MR_ACCESS                                                                            \
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ |                  \
	 IB_ACCESS_REMOTE_ATOMIC)

static int vrdma_mr_register(struct vrdma_dev *dev, struct vrdma_mr *mr, u32 pd, u64 start,
			     u64 length, int access_flags)
{
	struct vrdma_cmd_reg_mr arg = {
		.start = cpu_to_le64(start),
		.length = cpu_to_le64(length),
		.pd = cpu_to_le32(pd),
		.access_flags = cpu_to_le32(access_flags),
	};
	struct vrdma_pages pages;
	u32 key;
	int err;

	err = vrdma_pages_init(dev, &pages, mr->umem, start);
	if (err)
		return err;
	arg.pages = pages.list;
	arg.first_offset = cpu_to_le32(pages.first_offset);
	err = vrdma_cmd_reg_mr(dev, &arg, &key);
	vrdma_pages_cleanup(dev, &pages);
	if (err)
		return err;
	mr->ibmr.lkey = key;
	mr->ibmr.rkey = key;
	return 0;
}

struct ib_mr *vrdma_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 virt_addr,
				int access_flags, struct ib_udata *udata)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibpd->device);
	struct vrdma_mr *mr;
	int err;

	err = vrdma_udata_none(udata);
	if (err)
		return ERR_PTR(err);

	access_flags &= ~IB_ACCESS_OPTIONAL;
	if (access_flags & ~VRDMA_MR_ACCESS)
		return ERR_PTR(-EOPNOTSUPP);
	if (!length || length > dev->ibdev.attrs.max_mr_size)
		return ERR_PTR(-EINVAL);

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	mr->umem = ib_umem_get(&dev->ibdev, start, length, access_flags);
	if (IS_ERR(mr->umem)) {
		err = PTR_ERR(mr->umem);
		goto err_free;
	}

	err = vrdma_mr_register(dev, mr, to_vrdma_pd(ibpd)->handle, virt_addr, length,
				access_flags);
	if (err)
		goto err_umem;
	return &mr->ibmr;

err_umem:
	ib_umem_release(mr->umem);
err_free:
	kfree(mr);
	return ERR_PTR(err);
}

int vrdma_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct vrdma_mr *mr = to_vrdma_mr(ibmr);
	int err;

	err = vrdma_cmd_destroy(to_vrdma_dev(ibmr->device), VRDMA_ADMIN_DEREG_MR, ibmr->lkey);
	if (err)
		return err;
	ib_umem_release(mr->umem);
	kfree(mr);
	return 0;
}
