// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory regions.
 */
#include "vrdma_ib.h"

static int vrdma_mr_check(struct vrdma_dev *dev, u64 length, int access_flags)
{
	if (access_flags & ~(VRDMA_MR_ACCESS | IB_ACCESS_OPTIONAL))
		return -EOPNOTSUPP;
	if (!length || length > dev->ibdev.attrs.max_mr_size)
		return -EINVAL;
	return 0;
}

/* The device's address of the first byte. */
static u64 vrdma_mr_start(u64 virt_addr, int access_flags)
{
	return access_flags & IB_ZERO_BASED ? 0 : virt_addr;
}

static int vrdma_mr_register(struct vrdma_dev *dev, struct vrdma_mr *mr, u32 pd, u64 virt_addr)
{
	struct vrdma_cmd_reg_mr arg = {
		.start = cpu_to_le64(vrdma_mr_start(virt_addr, mr->access_flags)),
		.length = cpu_to_le64(mr->umem->length),
		.pd = cpu_to_le32(pd),
		.access_flags = cpu_to_le32(mr->access_flags),
	};
	struct vrdma_pages pages;
	u32 key;
	int err;

	err = vrdma_pages_init(dev, &pages, mr->umem, mr->umem->address);
	if (err)
		return err;
	arg.pages = pages.list;
	arg.first_offset = cpu_to_le32(pages.first_offset);
	err = vrdma_cmd_reg_mr(dev, &arg, &key);
	vrdma_pages_cleanup(dev, &pages);
	if (err)
		return err;
	vrdma_mr_set_key(mr, key);
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

	if (access_flags & IB_ACCESS_ON_DEMAND)
		return vrdma_odp_reg_mr(ibpd, start, length,
					vrdma_mr_start(virt_addr, access_flags),
					access_flags & ~IB_ACCESS_OPTIONAL);
	err = vrdma_mr_check(dev, length, access_flags);
	if (err)
		return ERR_PTR(err);

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	mr->access_flags = access_flags & ~IB_ACCESS_OPTIONAL;
	mr->umem = vrdma_umem_get(&dev->ibdev, start, length, access_flags);
	if (IS_ERR(mr->umem)) {
		err = PTR_ERR(mr->umem);
		goto err_free;
	}

	err = vrdma_mr_register(dev, mr, to_vrdma_pd(ibpd)->handle, virt_addr);
	if (err)
		goto err_umem;
	return &mr->ibmr;

err_umem:
	ib_umem_release(mr->umem);
err_free:
	kfree(mr);
	return ERR_PTR(err);
}

/* Changes the region in the device. umem is the new memory, or NULL. */
static int vrdma_mr_change(struct vrdma_dev *dev, struct vrdma_mr *mr, struct ib_umem *umem,
			   struct vrdma_cmd_rereg_mr *arg)
{
	struct vrdma_pages pages;
	int err;

	if (!umem)
		return vrdma_cmd_rereg_mr(dev, arg);

	err = vrdma_pages_init(dev, &pages, umem, umem->address);
	if (err)
		return err;
	arg->pages = pages.list;
	arg->first_offset = cpu_to_le32(pages.first_offset);
	arg->length = cpu_to_le64(umem->length);
	arg->flags |= cpu_to_le32(VRDMA_REREG_TRANSLATION);
	err = vrdma_cmd_rereg_mr(dev, arg);
	vrdma_pages_cleanup(dev, &pages);
	return err;
}

/* Pins the memory anew if necessary. NULL if the region keeps its pages as they are pinned. */
static struct ib_umem *vrdma_mr_pin_again(struct vrdma_dev *dev, struct vrdma_mr *mr, int flags,
					  u64 start, u64 length, int access_flags)
{
	if (flags & IB_MR_REREG_TRANS)
		return vrdma_umem_get(&dev->ibdev, start, length, access_flags);
	if (ib_access_writable(access_flags) && !mr->umem->writable)
		return vrdma_umem_get(&dev->ibdev, mr->umem->address, mr->umem->length,
				      access_flags);
	return NULL;
}

/* Changes the region in place: the key stays. After an error the region is unchanged. */
struct ib_mr *vrdma_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length,
				  u64 virt_addr, int access_flags, struct ib_pd *ibpd,
				  struct ib_udata *udata)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibmr->device);
	struct vrdma_mr *mr = to_vrdma_mr(ibmr);
	struct vrdma_cmd_rereg_mr arg = {};
	struct ib_umem *umem;
	int err;

	err = vrdma_udata_none(udata);
	if (err)
		return ERR_PTR(err);

	if (mr->odp)
		return ERR_PTR(-EOPNOTSUPP);
	if (!(flags & IB_MR_REREG_ACCESS))
		access_flags = mr->access_flags;
	if (!(flags & IB_MR_REREG_TRANS)) {
		virt_addr = ibmr->iova;
		length = ibmr->length;
	}
	err = vrdma_mr_check(dev, length, access_flags);
	if (err)
		return ERR_PTR(err);

	umem = vrdma_mr_pin_again(dev, mr, flags, start, length, access_flags);
	if (IS_ERR(umem))
		return ERR_CAST(umem);

	access_flags &= ~IB_ACCESS_OPTIONAL;
	arg.key = cpu_to_le32(mr->key);
	if (umem)
		arg.start = cpu_to_le64(vrdma_mr_start(virt_addr, access_flags));
	if (flags & IB_MR_REREG_PD)
		arg.pd = cpu_to_le32(to_vrdma_pd(ibpd)->handle);
	if (flags & IB_MR_REREG_ACCESS)
		arg.access_flags = cpu_to_le32(access_flags);
	arg.flags = cpu_to_le32(flags & (IB_MR_REREG_PD | IB_MR_REREG_ACCESS));
	err = vrdma_mr_change(dev, mr, umem, &arg);
	if (err) {
		ib_umem_release(umem);
		return ERR_PTR(err);
	}

	mr->access_flags = access_flags;
	if (umem) {
		swap(mr->umem, umem);
		ib_umem_release(umem);
	}
	return NULL;
}

struct ib_mr *vrdma_reg_bus_mr(struct vrdma_dev *dev, const struct vrdma_cmd_reg_mr *arg)
{
	struct vrdma_mr *mr;
	u32 key;
	int err;

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	err = vrdma_cmd_reg_mr(dev, arg, &key);
	if (err) {
		kfree(mr);
		return ERR_PTR(err);
	}
	vrdma_mr_set_key(mr, key);
	return &mr->ibmr;
}

/*
 * A region of all bus addresses that the device can reach: the kernel's users map memory for DMA.
 */
struct ib_mr *vrdma_get_dma_mr(struct ib_pd *ibpd, int access_flags)
{
	const struct vrdma_cmd_reg_mr arg = {
		.pd = cpu_to_le32(to_vrdma_pd(ibpd)->handle),
		.access_flags = cpu_to_le32(access_flags & VRDMA_MR_ACCESS),
		.flags = cpu_to_le32(VRDMA_MR_DMA),
	};

	return vrdma_reg_bus_mr(to_vrdma_dev(ibpd->device), &arg);
}

int vrdma_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibmr->device);
	struct vrdma_mr *mr = to_vrdma_mr(ibmr);
	int err;

	if (mr->odp)
		err = vrdma_odp_forget_mr(dev, mr);
	else
		err = vrdma_cmd_destroy(dev, VRDMA_ADMIN_DEREG_MR, mr->key);
	if (err)
		return err;
	if (mr->odp)
		vrdma_odp_cleanup_mr(dev, mr);
	ib_umem_release(mr->umem); /* NULL for device memory */
	vrdma_fast_list_free(dev, mr);
	kfree(mr);
	return 0;
}
