// SPDX-License-Identifier: GPL-2.0-only
/*
 * User contexts and the pages that each may map: its own doorbell page, and the kick page and the
 * status page that all share.
 */
#include <rdma/uverbs_ioctl.h>

#include "vrdma_ib.h"

enum vrdma_mmap_kind {
	VRDMA_MMAP_BAR,	   /* uncached if the hypervisor allows: stores stay in order */
	VRDMA_MMAP_STATUS, /* guest memory that the device writes */
	VRDMA_MMAP_DM,	   /* guest memory that both write; the entry owns it */
};

struct vrdma_mmap_entry {
	struct rdma_user_mmap_entry entry;
	enum vrdma_mmap_kind kind;
	unsigned long pfn;
	struct vrdma_dm_pages *dm;
};

static struct vrdma_mmap_entry *to_vrdma_mmap_entry(struct rdma_user_mmap_entry *entry)
{
	return container_of(entry, struct vrdma_mmap_entry, entry);
}

static struct rdma_user_mmap_entry *
vrdma_mmap_entry_add(struct vrdma_ucontext *ucontext, enum vrdma_mmap_kind kind, unsigned long pfn)
{
	struct vrdma_mmap_entry *entry = kzalloc(sizeof(*entry), GFP_KERNEL);
	int err;

	if (!entry)
		return NULL;
	entry->kind = kind;
	entry->pfn = pfn;
	err = rdma_user_mmap_entry_insert(&ucontext->ibucontext, &entry->entry, PAGE_SIZE);
	if (err) {
		kfree(entry);
		return NULL;
	}
	return &entry->entry;
}

struct rdma_user_mmap_entry *vrdma_mmap_dm(struct ib_ucontext *ibucontext,
					   struct vrdma_dm_pages *pages)
{
	struct vrdma_mmap_entry *entry = kzalloc(sizeof(*entry), GFP_KERNEL);

	if (!entry)
		return NULL;
	entry->kind = VRDMA_MMAP_DM;
	entry->pfn = page_to_pfn(pages->first);
	entry->dm = pages;
	if (rdma_user_mmap_entry_insert(ibucontext, &entry->entry, pages->size)) {
		kfree(entry);
		return NULL;
	}
	return &entry->entry;
}

void vrdma_mmap_free(struct rdma_user_mmap_entry *rdma_entry)
{
	struct vrdma_mmap_entry *entry = to_vrdma_mmap_entry(rdma_entry);

	if (entry->dm)
		vrdma_dm_pages_free(entry->dm);
	kfree(entry);
}

/* Entries that were never added are NULL, which is nothing to remove. */
static void vrdma_mmap_entries_remove(struct vrdma_ucontext *ucontext)
{
	rdma_user_mmap_entry_remove(ucontext->status);
	rdma_user_mmap_entry_remove(ucontext->kick);
	rdma_user_mmap_entry_remove(ucontext->doorbell);
}

static int vrdma_mmap_entries_add(struct vrdma_dev *dev, struct vrdma_ucontext *ucontext,
				  u32 doorbell_page)
{
	struct pci_dev *pdev = dev->fn->pdev;
	unsigned long registers = PHYS_PFN(pci_resource_start(pdev, VRDMA_BAR_REGISTERS));
	unsigned long doorbells = PHYS_PFN(pci_resource_start(pdev, VRDMA_BAR_DOORBELLS));

	ucontext->doorbell =
		vrdma_mmap_entry_add(ucontext, VRDMA_MMAP_BAR, doorbells + doorbell_page);
	ucontext->kick = vrdma_mmap_entry_add(ucontext, VRDMA_MMAP_BAR,
					      registers + PHYS_PFN(VRDMA_BAR0_KICK_OFFSET));
	ucontext->status =
		vrdma_mmap_entry_add(ucontext, VRDMA_MMAP_STATUS, page_to_pfn(dev->status_page));
	if (!ucontext->doorbell || !ucontext->kick || !ucontext->status) {
		vrdma_mmap_entries_remove(ucontext);
		return -ENOMEM;
	}
	return 0;
}

void vrdma_ucontext_describe(struct vrdma_ucontext *ucontext,
			     struct vrdma_uverbs_alloc_ucontext_resp *resp)
{
	struct vrdma_dev *dev = to_vrdma_dev(ucontext->ibucontext.device);
	const struct ib_device_attr *attrs = &dev->ibdev.attrs;

	*resp = (struct vrdma_uverbs_alloc_ucontext_resp){
		.doorbell_mmap_offset = rdma_user_mmap_get_offset(ucontext->doorbell),
		.kick_mmap_offset = rdma_user_mmap_get_offset(ucontext->kick),
		.status_mmap_offset = rdma_user_mmap_get_offset(ucontext->status),
		.max_inline = le32_to_cpu(dev->caps.max_inline),
		.max_send_sge = attrs->max_send_sge,
		.max_recv_sge = attrs->max_recv_sge,
		.max_qp_wr = attrs->max_qp_wr,
		.max_cqe = attrs->max_cqe,
		.max_srq_wr = attrs->max_srq_wr,
		.max_srq_sge = attrs->max_srq_sge,
	};
}

int vrdma_alloc_ucontext(struct ib_ucontext *ibucontext, struct ib_udata *udata)
{
	struct vrdma_ucontext *ucontext = to_vrdma_ucontext(ibucontext);
	struct vrdma_dev *dev = to_vrdma_dev(ibucontext->device);
	struct vrdma_uverbs_alloc_ucontext_resp resp;
	u32 doorbell_page;
	int err;

	err = vrdma_udata_none(udata);
	if (err)
		return err;

	err = vrdma_cmd_alloc_ucontext(dev, &ucontext->handle, &doorbell_page);
	if (err)
		return err;

	/* Page 0 is the kernel's own. */
	if (!doorbell_page || doorbell_page >= dev->fn->id.num_doorbell_pages) {
		err = -EIO;
		goto err_dealloc;
	}

	err = vrdma_mmap_entries_add(dev, ucontext, doorbell_page);
	if (err)
		goto err_dealloc;

	vrdma_ucontext_describe(ucontext, &resp);
	err = vrdma_udata_out(udata, &resp, sizeof(resp));
	if (err)
		goto err_entries;
	return 0;

err_entries:
	vrdma_mmap_entries_remove(ucontext);
err_dealloc:
	vrdma_cmd_destroy(dev, VRDMA_ADMIN_DEALLOC_UCONTEXT, ucontext->handle);
	return err;
}

void vrdma_dealloc_ucontext(struct ib_ucontext *ibucontext)
{
	struct vrdma_ucontext *ucontext = to_vrdma_ucontext(ibucontext);

	vrdma_mmap_entries_remove(ucontext);
	vrdma_cmd_destroy(to_vrdma_dev(ibucontext->device), VRDMA_ADMIN_DEALLOC_UCONTEXT,
			  ucontext->handle);
}

/*
 * If this exists, ib_core lets the device go while a process has it open. It need not do anything:
 * ib_core takes the mapped pages away, and a provider that goes on sees zeroes.
 */
void vrdma_disassociate_ucontext(struct ib_ucontext *ibucontext)
{
}

int vrdma_mmap(struct ib_ucontext *ibucontext, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *rdma_entry;
	struct vrdma_mmap_entry *entry;
	pgprot_t prot = vma->vm_page_prot;
	size_t size = PAGE_SIZE;
	int err = -EPERM;

	rdma_entry = rdma_user_mmap_entry_get(ibucontext, vma);
	if (!rdma_entry)
		return -EINVAL;
	entry = to_vrdma_mmap_entry(rdma_entry);

	if (vma->vm_flags & VM_EXEC)
		goto out;
	vm_flags_clear(vma, VM_MAYEXEC);

	switch (entry->kind) {
	case VRDMA_MMAP_BAR:
		prot = pgprot_noncached(prot);
		break;
	case VRDMA_MMAP_STATUS:
		if (vma->vm_flags & VM_WRITE)
			goto out;
		vm_flags_clear(vma, VM_MAYWRITE);
		break;
	case VRDMA_MMAP_DM:
		size = entry->dm->size;
		break;
	}
	err = rdma_user_mmap_io(ibucontext, vma, entry->pfn, size, prot, rdma_entry);
out:
	rdma_user_mmap_entry_put(rdma_entry);
	return err;
}
