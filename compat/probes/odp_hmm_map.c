// SPDX-License-Identifier: GPL-2.0-only
/* ib_core finds the pages that are used on demand, and the driver maps them for DMA. */
#include <linux/hmm.h>
#include <linux/pci-p2pdma.h>
#include <rdma/ib_umem_odp.h>

static inline u64 probe(struct ib_umem_odp *umem)
{
#ifdef VRDMA_NEW
	struct pci_p2pdma_map_state p2pdma = {};

	if (!(umem->map.pfn_list[0] & (HMM_PFN_VALID | HMM_PFN_WRITE | HMM_PFN_DMA_MAPPED)))
		return 0;
	return hmm_dma_map_pfn(NULL, &umem->map, 0, &p2pdma);
#else
	return umem->dma_list[0] & (ODP_READ_ALLOWED_BIT | ODP_WRITE_ALLOWED_BIT);
#endif
}
