// SPDX-License-Identifier: GPL-2.0-only
/* Device memory: pages of the guest, which the device accesses as any other memory. */
#include <linux/dma-mapping.h>
#include <rdma/uverbs_ioctl.h>

#include "vrdma_ib.h"

/* The macros paste the name, so it must not be a macro itself. */
enum {
	VRDMA_METHOD_QUERY_DM = VRDMA_UVERBS_METHOD_QUERY_DM,
};

#define UVERBS_MODULE_NAME vrdma_ib
#include <rdma/uverbs_named_ioctl.h>

static struct vrdma_dm *to_vrdma_dm(struct ib_dm *ibdm)
{
	return container_of(ibdm, struct vrdma_dm, ibdm);
}

static int vrdma_dm_charge(struct vrdma_dev *dev, size_t size)
{
	if (atomic_long_add_return(size, &dev->dm_size) <= VRDMA_MAX_DM_SIZE)
		return 0;
	atomic_long_sub(size, &dev->dm_size);
	return -ENOMEM;
}

static struct vrdma_dm_pages *vrdma_dm_pages_alloc(struct vrdma_dev *dev, size_t size)
{
	struct vrdma_dm_pages *pages = kzalloc(sizeof(*pages), GFP_KERNEL);

	if (!pages)
		return NULL;
	pages->dev = dev;
	pages->size = size;
	if (vrdma_dm_charge(dev, size))
		goto err_free;
	pages->first = dma_alloc_pages(&dev->fn->pdev->dev, size, &pages->dma, DMA_BIDIRECTIONAL,
				       GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN);
	if (!pages->first)
		goto err_charge;
	return pages;

err_charge:
	atomic_long_sub(size, &dev->dm_size);
err_free:
	kfree(pages);
	return NULL;
}

void vrdma_dm_pages_free(struct vrdma_dm_pages *pages)
{
	struct vrdma_dev *dev = pages->dev;

	dma_free_pages(&dev->fn->pdev->dev, pages->size, pages->first, pages->dma,
		       DMA_BIDIRECTIONAL);
	atomic_long_sub(pages->size, &dev->dm_size);
	kfree(pages);
}

struct ib_dm *vrdma_alloc_dm(struct ib_device *ibdev, struct ib_ucontext *ibucontext,
			     struct ib_dm_alloc_attr *attr, struct uverbs_attr_bundle *attrs)
{
	struct vrdma_dm *dm;

	if (!attr->length || attr->alignment > PAGE_SHIFT)
		return ERR_PTR(-EINVAL);
	if (attr->length > VRDMA_MAX_DM_SIZE)
		return ERR_PTR(-ENOMEM);

	dm = kzalloc(sizeof(*dm), GFP_KERNEL);
	if (!dm)
		return ERR_PTR(-ENOMEM);
	dm->pages = vrdma_dm_pages_alloc(to_vrdma_dev(ibdev), PAGE_ALIGN(attr->length));
	if (!dm->pages)
		goto err_free;
	dm->entry = vrdma_mmap_dm(ibucontext, dm->pages);
	if (!dm->entry)
		goto err_pages;
	return &dm->ibdm;

err_pages:
	vrdma_dm_pages_free(dm->pages);
err_free:
	kfree(dm);
	return ERR_PTR(-ENOMEM);
}

/* The last mapping of the pages frees them. */
int vrdma_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs)
{
	struct vrdma_dm *dm = to_vrdma_dm(ibdm);

	rdma_user_mmap_entry_remove(dm->entry);
	kfree(dm);
	return 0;
}

/* ib_core has checked the bounds. */
struct ib_mr *vrdma_reg_dm_mr(struct ib_pd *ibpd, struct ib_dm *ibdm, struct ib_dm_mr_attr *attr,
			      struct uverbs_attr_bundle *attrs)
{
	u64 dma = to_vrdma_dm(ibdm)->pages->dma + attr->offset;
	struct vrdma_cmd_reg_mr arg = {
		.length = cpu_to_le64(attr->length),
		.pd = cpu_to_le32(to_vrdma_pd(ibpd)->handle),
	};
	u32 access_flags = attr->access_flags & ~(IB_ZERO_BASED | IB_ACCESS_OPTIONAL);

	if (access_flags & ~VRDMA_MR_ACCESS)
		return ERR_PTR(-EOPNOTSUPP);
	arg.access_flags = cpu_to_le32(access_flags);
	if (attr->length) { /* a region of no bytes has no pages */
		arg.first_offset = cpu_to_le32(offset_in_page(dma));
		arg.pages = vrdma_contiguous_pages(ALIGN_DOWN(dma, PAGE_SIZE),
						   offset_in_page(dma) + attr->length);
	}

	return vrdma_reg_bus_mr(to_vrdma_dev(ibpd->device), &arg);
}

static int UVERBS_HANDLER(VRDMA_METHOD_QUERY_DM)(struct uverbs_attr_bundle *attrs)
{
	struct ib_dm *ibdm = uverbs_attr_get_obj(attrs, VRDMA_UVERBS_ATTR_QUERY_DM_HANDLE);
	struct vrdma_uverbs_query_dm_resp resp = {
		.mmap_offset = rdma_user_mmap_get_offset(to_vrdma_dm(ibdm)->entry),
		.length = ibdm->length,
	};

	return uverbs_copy_to(attrs, VRDMA_UVERBS_ATTR_QUERY_DM_RESP, &resp, sizeof(resp));
}

DECLARE_UVERBS_NAMED_METHOD(VRDMA_METHOD_QUERY_DM,
			    UVERBS_ATTR_IDR(VRDMA_UVERBS_ATTR_QUERY_DM_HANDLE, UVERBS_OBJECT_DM,
					    UVERBS_ACCESS_READ, UA_MANDATORY),
			    UVERBS_ATTR_PTR_OUT(VRDMA_UVERBS_ATTR_QUERY_DM_RESP,
						UVERBS_ATTR_TYPE(struct vrdma_uverbs_query_dm_resp),
						UA_MANDATORY));

ADD_UVERBS_METHODS(vrdma_dm_object, UVERBS_OBJECT_DM, &UVERBS_METHOD(VRDMA_METHOD_QUERY_DM));

const struct uapi_definition vrdma_dm_methods[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &vrdma_dm_object),
	{},
};
