// SPDX-License-Identifier: GPL-2.0-only
/* Memory of a process is pinned by a function that is named after what it takes: an address. */
#include <rdma/ib_umem.h>

static inline struct ib_umem *probe(struct ib_device *ibdev)
{
#ifdef VRDMA_NEW
	return ib_umem_get_va(ibdev, 0, 0, 0);
#else
	return ib_umem_get(ibdev, 0, 0, 0);
#endif
}
