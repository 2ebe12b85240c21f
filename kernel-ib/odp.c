// SPDX-License-Identifier: GPL-2.0-only
/*
 * On-demand paging: regions whose pages the device asks for, and loses when the process loses them.
 *
 * ib_core follows the process's page tables (struct ib_umem_odp). A region with addresses has one
 * umem. A region without addresses has a child umem for each 2 MiB that were touched. Under
 * umem_mutex the umem has the same pages as the device. Invalidations take the mutex during memory
 * reclaim, so nothing may be allocated under it.
 */
#include <linux/dma-mapping.h>
#include <linux/mmu_notifier.h>

#include "vrdma_ib.h"

#define VRDMA_ODP_CHILD_SHIFT 21
#define VRDMA_ODP_CHILD_SIZE BIT(VRDMA_ODP_CHILD_SHIFT)

/* The addresses for one MAP_PAGES. */
struct vrdma_odp_table {
	struct vrdma_dev *dev;
	struct page *page;
	dma_addr_t dma;
};

struct vrdma_odp_work {
	struct work_struct work;
	struct vrdma_mr *mr; /* held */
	u64 detail;
};

/* The device's number of the page at a user address. */
static u64 vrdma_odp_page(const struct vrdma_mr *mr, unsigned long address)
{
	return (address - mr->odp_start) >> PAGE_SHIFT;
}

/*
 * Returns when the device does not use the pages any more. If it refuses to release them, it is
 * reset, which takes all memory from it: it must not write to memory that another process gets
 * next.
 */
static void vrdma_odp_take_back(struct vrdma_dev *dev, struct vrdma_mr *mr, u64 first, u64 count)
{
	int err = 0;

	down_read(&mr->odp_leaving);
	if (!mr->odp_forgotten)
		err = vrdma_cmd_unmap_pages(dev, mr->key, first, count);
	up_read(&mr->odp_leaving);
	if (!err)
		return;
	vrdma_dev_fail(dev, "UNMAP_PAGES failed");
	vrdma_dev_quiesce(dev);
}

/*
 * odp_leaving makes sure that the device knows the region while pages are taken back, so that it
 * has no reason to refuse UNMAP_PAGES.
 */
int vrdma_odp_forget_mr(struct vrdma_dev *dev, struct vrdma_mr *mr)
{
	int err;

	down_write(&mr->odp_leaving);
	err = vrdma_cmd_destroy(dev, VRDMA_ADMIN_DEREG_MR, mr->key);
	mr->odp_forgotten = !err;
	up_write(&mr->odp_leaving);
	return err;
}

static bool vrdma_odp_invalidate(struct mmu_interval_notifier *notifier,
				 const struct mmu_notifier_range *range, unsigned long seq)
{
	struct ib_umem_odp *umem = container_of(notifier, struct ib_umem_odp, notifier);
	struct vrdma_mr *mr = umem->private;
	unsigned long start, end;

	if (!mmu_notifier_range_blockable(range))
		return false;

	mutex_lock(&umem->umem_mutex);
	mmu_interval_set_seq(notifier, seq);
	if (umem->npages) {
		start = max(ib_umem_start(umem), ALIGN_DOWN(range->start, BIT(umem->page_shift)));
		end = min(ib_umem_end(umem), ALIGN(range->end, BIT(umem->page_shift)));
		start = max_t(unsigned long, start, mr->odp_start);
		vrdma_odp_take_back(to_vrdma_dev(umem->umem.ibdev), mr, vrdma_odp_page(mr, start),
				    (end - start) >> PAGE_SHIFT);
		ib_umem_odp_unmap_dma_pages(umem, range->start, range->end);
	}
	mutex_unlock(&umem->umem_mutex);
	return true;
}

static const struct mmu_interval_notifier_ops vrdma_odp_notifier_ops = {
	.invalidate = vrdma_odp_invalidate,
};

static int vrdma_odp_table_init(struct vrdma_dev *dev, struct vrdma_odp_table *table)
{
	table->dev = dev;
	table->page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!table->page)
		return -ENOMEM;
	table->dma = dma_map_page(&dev->fn->pdev->dev, table->page, 0, PAGE_SIZE, DMA_TO_DEVICE);
	if (dma_mapping_error(&dev->fn->pdev->dev, table->dma)) {
		__free_page(table->page);
		return -ENOMEM;
	}
	return 0;
}

static void vrdma_odp_table_cleanup(struct vrdma_odp_table *table)
{
	dma_unmap_page(&table->dev->fn->pdev->dev, table->dma, PAGE_SIZE, DMA_TO_DEVICE);
	__free_page(table->page);
}

/* Finds consecutive pages with the same access. Returns their number. */
static int vrdma_odp_find_run(struct vrdma_odp_table *table, struct ib_umem_odp *umem,
			      unsigned long address, unsigned int count, bool *writable)
{
	__le64 *entries = page_address(table->page);
	unsigned int i;

	for (i = 0; i < count; i++, address += PAGE_SIZE) {
		bool may_write;
		dma_addr_t dma;
		int ret = vrdma_odp_dma(umem, address, &dma, &may_write);

		if (ret < 0)
			return ret;
		if (!ret || (i && may_write != *writable))
			break;
		*writable = may_write;
		entries[i] = cpu_to_le64(dma);
	}
	return i;
}

/* Maps the table's pages in the device. */
static int vrdma_odp_send_run(struct vrdma_odp_table *table, const struct vrdma_mr *mr,
			      unsigned long address, unsigned int count, bool writable)
{
	__le64 *entries = page_address(table->page);
	struct vrdma_cmd_map_pages arg = {
		.pages.page_shift = VRDMA_PAGE_SHIFT,
		.pages.levels = 1,
		.pages.root = cpu_to_le64(table->dma),
		.pages.count = cpu_to_le32(count),
		.first = cpu_to_le64(vrdma_odp_page(mr, address)),
		.key = cpu_to_le32(mr->key),
		.flags = cpu_to_le32(writable ? VRDMA_MAP_WRITABLE : 0),
	};

	memset(entries + count, 0, VRDMA_PAGE_SIZE - count * sizeof(*entries));
	dma_sync_single_for_device(&table->dev->fn->pdev->dev, table->dma, VRDMA_PAGE_SIZE,
				   DMA_TO_DEVICE);
	return vrdma_cmd_map_pages(table->dev, &arg);
}

/* The caller holds umem_mutex. */
static int vrdma_odp_send(struct vrdma_odp_table *table, const struct vrdma_mr *mr,
			  struct ib_umem_odp *umem, unsigned long address, unsigned int count)
{
	bool writable = false;
	int run, err = 0;

	while (!err && count) {
		run = vrdma_odp_find_run(table, umem, address, count, &writable);
		if (run < 0)
			return run;
		if (run)
			err = vrdma_odp_send_run(table, mr, address, run, writable);
		else
			run = 1; /* there is no page */
		address += run * PAGE_SIZE;
		count -= run;
	}
	return err;
}

/* count is at most the number of entries of a table. */
static int vrdma_odp_map(struct vrdma_odp_table *table, struct vrdma_mr *mr,
			 struct ib_umem_odp *umem, unsigned long address, unsigned int count,
			 bool write, bool fault)
{
	int ret;

	if (write && !umem->umem.writable)
		return -EFAULT;
	ret = ib_umem_odp_map_dma_and_lock(umem, address, (u64)count << PAGE_SHIFT,
					   vrdma_odp_wanted(write), fault);
	if (ret < 0)
		return ret;
	ret = vrdma_odp_send(table, mr, umem, address, count);
	mutex_unlock(&umem->umem_mutex);
	return ret;
}

/* The caller holds odp_lock. */
static struct ib_umem_odp *vrdma_odp_child(struct vrdma_mr *mr, unsigned long address)
{
	unsigned long index = address >> VRDMA_ODP_CHILD_SHIFT;
	struct ib_umem_odp *child = xa_load(&mr->odp_children, index);
	int err;

	if (child)
		return child;
	child = ib_umem_odp_alloc_child(to_ib_umem_odp(mr->umem), index << VRDMA_ODP_CHILD_SHIFT,
					VRDMA_ODP_CHILD_SIZE, &vrdma_odp_notifier_ops);
	if (IS_ERR(child))
		return child;
	child->private = mr;
	err = xa_err(xa_store(&mr->odp_children, index, child, GFP_KERNEL));
	if (err) {
		ib_umem_odp_release(child);
		return ERR_PTR(err);
	}
	return child;
}

/* A process that names random addresses must not make the kernel keep an empty child for each. */
static void vrdma_odp_drop_empty_child(struct vrdma_mr *mr, unsigned long address)
{
	unsigned long index = address >> VRDMA_ODP_CHILD_SHIFT;
	struct ib_umem_odp *child = xa_load(&mr->odp_children, index);

	if (child && !READ_ONCE(child->npages)) {
		xa_erase(&mr->odp_children, index);
		ib_umem_odp_release(child);
	}
}

/* The caller holds odp_lock. Maps the pages of one child, or of one table, at a time. */
static int vrdma_odp_map_range(struct vrdma_odp_table *table, struct vrdma_mr *mr,
			       unsigned long address, u64 count, bool write, bool fault)
{
	struct ib_umem_odp *umem = to_ib_umem_odp(mr->umem);
	unsigned long room;
	unsigned int part;
	int err = 0;

	while (!err && count) {
		room = (VRDMA_ODP_CHILD_SIZE - address % VRDMA_ODP_CHILD_SIZE) >> PAGE_SHIFT;
		part = min_t(u64, count, room);
		if (mr->odp_implicit)
			umem = vrdma_odp_child(mr, address);
		if (IS_ERR(umem))
			return PTR_ERR(umem);
		err = vrdma_odp_map(table, mr, umem, address, part, write, fault);
		if (err && mr->odp_implicit)
			vrdma_odp_drop_empty_child(mr, address);
		address += part * PAGE_SIZE;
		count -= part;
	}
	return err;
}

/* If not all of the message's pages exist, the first one may. */
static void vrdma_odp_resolve(struct vrdma_mr *mr, u64 first, u64 count, bool write)
{
	struct vrdma_dev *dev = to_vrdma_dev(mr->ibmr.device);
	unsigned long address = mr->odp_start + (first << PAGE_SHIFT);
	struct vrdma_odp_table table;
	int err;

	if (first >= mr->odp_pages || !count)
		return;
	count = min(count, mr->odp_pages - first);
	if (vrdma_odp_table_init(dev, &table))
		return; /* the device asks again */
	mutex_lock(&mr->odp_lock);
	err = vrdma_odp_map_range(&table, mr, address, count, write, true);
	if (err && count > 1)
		err = vrdma_odp_map_range(&table, mr, address, 1, write, true);
	mutex_unlock(&mr->odp_lock);
	vrdma_odp_table_cleanup(&table);
	if (err && err != -EBUSY && err != -EAGAIN)
		vrdma_cmd_refuse_pages(dev, mr->key, first, 1);
}

static void vrdma_odp_work(struct work_struct *work)
{
	struct vrdma_odp_work *fault = container_of(work, struct vrdma_odp_work, work);

	vrdma_odp_resolve(fault->mr, VRDMA_GET(VRDMA_FAULT_PAGE, fault->detail),
			  VRDMA_GET(VRDMA_FAULT_COUNT, fault->detail),
			  fault->detail & VRDMA_FAULT_WRITE);
	vrdma_event_target_put(&fault->mr->target);
	kfree(fault);
}

/* Called in an interrupt. The device repeats a fault that is dropped. */
void vrdma_odp_event(struct vrdma_dev *dev, u32 key, u64 detail)
{
	struct vrdma_odp_work *fault = kmalloc(sizeof(*fault), GFP_ATOMIC);
	struct vrdma_event_target *target;

	if (!fault)
		return;
	target = vrdma_event_target_get(&dev->odp_mrs, key);
	if (!target) {
		kfree(fault);
		return;
	}
	INIT_WORK(&fault->work, vrdma_odp_work);
	fault->mr = container_of(target, struct vrdma_mr, target);
	fault->detail = detail;
	queue_work(dev->odp_wq, &fault->work);
}

static int vrdma_odp_umem(struct vrdma_dev *dev, struct vrdma_mr *mr, u64 start, u64 length,
			  int access_flags)
{
	struct ib_umem_odp *umem;

	access_flags = vrdma_odp_umem_access(access_flags);
	if (mr->odp_implicit)
		umem = ib_umem_odp_alloc_implicit(&dev->ibdev, access_flags);
	else
		umem = ib_umem_odp_get(&dev->ibdev, start, length, access_flags,
				       &vrdma_odp_notifier_ops);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	umem->private = mr;
	mr->umem = &umem->umem;
	return 0;
}

struct ib_mr *vrdma_odp_reg_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova,
			       int access_flags)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibpd->device);
	bool implicit = !start && length == U64_MAX;
	struct vrdma_cmd_reg_mr arg = {
		.start = cpu_to_le64(iova),
		.pd = cpu_to_le32(to_vrdma_pd(ibpd)->handle),
		.access_flags = cpu_to_le32(access_flags),
		.first_offset = cpu_to_le32(offset_in_page(start)),
	};
	struct vrdma_mr *mr;
	u32 key;
	int err;

	if (access_flags & ~(VRDMA_MR_ACCESS | IB_ACCESS_ON_DEMAND) || vrdma_copies_memory(dev))
		return ERR_PTR(-EOPNOTSUPP);
	if (implicit ? iova : length > dev->ibdev.attrs.max_mr_size)
		return ERR_PTR(-EINVAL);
	if (implicit)
		length = VRDMA_ON_DEMAND_MAX_SIZE;
	arg.length = cpu_to_le64(length);

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mutex_init(&mr->odp_lock);
	init_rwsem(&mr->odp_leaving);
	xa_init(&mr->odp_children);
	mr->access_flags = access_flags;
	mr->odp = true;
	mr->odp_implicit = implicit;
	mr->odp_first_offset = offset_in_page(start);
	mr->odp_start = start - mr->odp_first_offset;
	mr->odp_pages = (mr->odp_first_offset + length + PAGE_SIZE - 1) >> PAGE_SHIFT;
	mr->odp_iova = iova;
	mr->odp_length = length;
	mr->ibmr.device = &dev->ibdev; /* faults may come before ib_core sets it */
	err = vrdma_odp_umem(dev, mr, start, length, access_flags);
	if (err)
		goto err_free;
	err = vrdma_cmd_reg_mr(dev, &arg, &key);
	if (err)
		goto err_umem;
	vrdma_mr_set_key(mr, key);
	err = vrdma_event_target_add(&dev->odp_mrs, key, &mr->target);
	if (err)
		goto err_dereg;
	return &mr->ibmr;

err_dereg:
	vrdma_cmd_destroy(dev, VRDMA_ADMIN_DEREG_MR, key);
err_umem:
	ib_umem_release(mr->umem);
err_free:
	kfree(mr);
	return ERR_PTR(err);
}

/* The device has forgotten the region; the caller then releases its umem. */
void vrdma_odp_cleanup_mr(struct vrdma_dev *dev, struct vrdma_mr *mr)
{
	struct ib_umem_odp *child;
	unsigned long index;

	vrdma_event_target_remove(&dev->odp_mrs, mr->key, &mr->target);
	xa_for_each(&mr->odp_children, index, child)
		ib_umem_odp_release(child);
	xa_destroy(&mr->odp_children);
}

static int vrdma_odp_prefetch_mr(struct vrdma_odp_table *table, struct vrdma_mr *mr,
				 enum ib_uverbs_advise_mr_advice advice, const struct ib_sge *sge)
{
	bool fault = advice != IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
	bool write = advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	u64 offset = sge->addr - mr->odp_iova;
	u64 first, last;
	int err;

	if (sge->addr < mr->odp_iova || offset > mr->odp_length ||
	    sge->length > mr->odp_length - offset)
		return -EFAULT;
	if (!sge->length)
		return 0;
	offset += mr->odp_first_offset;
	first = offset >> PAGE_SHIFT;
	last = (offset + sge->length - 1) >> PAGE_SHIFT;
	mutex_lock(&mr->odp_lock);
	err = vrdma_odp_map_range(table, mr, mr->odp_start + (first << PAGE_SHIFT),
				  last - first + 1, write, fault);
	mutex_unlock(&mr->odp_lock);
	return fault || err != -EFAULT ? err : 0;
}

static int vrdma_odp_prefetch(struct vrdma_odp_table *table, struct ib_pd *ibpd,
			      enum ib_uverbs_advise_mr_advice advice, const struct ib_sge *sge)
{
	struct vrdma_event_target *target = vrdma_event_target_get(&table->dev->odp_mrs, sge->lkey);
	struct vrdma_mr *mr;
	int err = -EINVAL;

	if (!target)
		return -EFAULT;
	mr = container_of(target, struct vrdma_mr, target);
	if (mr->ibmr.pd == ibpd)
		err = vrdma_odp_prefetch_mr(table, mr, advice, sge);
	vrdma_event_target_put(target);
	return err;
}

/* Always synchronous, even without IB_UVERBS_ADVISE_MR_FLAG_FLUSH. */
int vrdma_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		    struct ib_sge *list, u32 count, struct uverbs_attr_bundle *attrs)
{
	struct vrdma_odp_table table;
	int err;
	u32 i;

	if (advice != IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH &&
	    advice != IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
	    advice != IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return -EOPNOTSUPP;
	err = vrdma_odp_table_init(to_vrdma_dev(ibpd->device), &table);
	if (err)
		return err;
	for (i = 0; !err && i < count; i++)
		err = vrdma_odp_prefetch(&table, ibpd, advice, &list[i]);
	vrdma_odp_table_cleanup(&table);
	return err;
}

void vrdma_odp_caps(struct ib_device_attr *props)
{
	props->kernel_cap_flags |= IBK_ON_DEMAND_PAGING;
	props->odp_caps.general_caps = IB_ODP_SUPPORT | IB_ODP_SUPPORT_IMPLICIT;
	props->odp_caps.per_transport_caps.rc_odp_caps = VRDMA_ODP_RC;
	props->odp_caps.per_transport_caps.xrc_odp_caps = VRDMA_ODP_RC;
	props->odp_caps.per_transport_caps.uc_odp_caps = VRDMA_ODP_UC;
	props->odp_caps.per_transport_caps.ud_odp_caps = VRDMA_ODP_UD;
}

int vrdma_odp_init(struct vrdma_dev *dev)
{
	dev->odp_wq = alloc_workqueue("vrdma-odp", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return dev->odp_wq ? 0 : -ENOMEM;
}

/* All regions are gone. */
void vrdma_odp_cleanup(struct vrdma_dev *dev)
{
	destroy_workqueue(dev->odp_wq);
}
