/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between kernels, as compat/probes found them for the target kernel. Only this file
 * and compat_ops.h depend on the kernel's version.
 */
#ifndef VRDMA_IB_COMPAT_H
#define VRDMA_IB_COMPAT_H

#include <rdma/ib_umem.h>
#include <rdma/ib_umem_odp.h>

#include "probed.h"
#include "vma.h"

static inline struct ib_umem *vrdma_umem_get(struct ib_device *ibdev, unsigned long address,
					     size_t size, int access)
{
#if VRDMA_HAVE_UMEM_GET_VA
	return ib_umem_get_va(ibdev, address, size, access);
#else
	return ib_umem_get(ibdev, address, size, access);
#endif
}

/*
 * On-demand paging. vrdma_odp_dma() is called under umem_mutex, after
 * ib_umem_odp_map_dma_and_lock() with vrdma_odp_wanted(). It returns whether there is a page at the
 * address, or an error.
 */
#if VRDMA_HAVE_ODP_HMM_MAP

#include <linux/hmm.h>
#include <linux/pci-p2pdma.h>

static inline u64 vrdma_odp_wanted(bool write)
{
	return write ? HMM_PFN_WRITE : 0;
}

/* ib_core has two indexes of a map, by CPU pages and by the region's pages: they must be equal. */
static inline int vrdma_odp_umem_access(int access)
{
	return access & ~IB_ACCESS_HUGETLB;
}

static inline int vrdma_odp_dma(struct ib_umem_odp *umem, unsigned long address, dma_addr_t *dma,
				bool *writable)
{
	struct device *dma_dev = umem->umem.ibdev->dma_device;
	const size_t index = (address - ib_umem_start(umem)) >> PAGE_SHIFT;
	const unsigned long pfn = umem->map.pfn_list[index];
	struct pci_p2pdma_map_state p2pdma = {};

	if (!(pfn & HMM_PFN_VALID))
		return 0;
	*dma = hmm_dma_map_pfn(dma_dev, &umem->map, index, &p2pdma);
	if (dma_mapping_error(dma_dev, *dma))
		return -ENOMEM;
	*writable = pfn & HMM_PFN_WRITE;
	/* ib_core counts down for pages that it unmaps, and expects the driver to count up. */
	if (!(pfn & HMM_PFN_DMA_MAPPED))
		umem->npages++;
	return 1;
}

#else

static inline u64 vrdma_odp_wanted(bool write)
{
	return ODP_READ_ALLOWED_BIT | (write ? ODP_WRITE_ALLOWED_BIT : 0);
}

static inline int vrdma_odp_umem_access(int access)
{
	return access;
}

static inline int vrdma_odp_dma(struct ib_umem_odp *umem, unsigned long address, dma_addr_t *dma,
				bool *writable)
{
	const unsigned long offset = address - ib_umem_start(umem);
	const u64 entry = umem->dma_list[offset >> umem->page_shift];

	if (!entry)
		return 0;
	*dma = (entry & ODP_DMA_ADDR_MASK) + (offset & (BIT(umem->page_shift) - 1) & PAGE_MASK);
	*writable = entry & ODP_WRITE_ALLOWED_BIT;
	return 1;
}

#endif

#endif /* VRDMA_IB_COMPAT_H */
