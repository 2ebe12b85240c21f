// SPDX-License-Identifier: GPL-2.0-only
/* The function that pins memory of a process is named after its argument, an address. */
#include <rdma/ib_umem.h>

static inline struct ib_umem *probe(struct ib_device *ibdev)
{
#ifdef VRDMA_NEW
	return ib_umem_get_va(ibdev, 0, 0, 0);
#else
	return ib_umem_get(ibdev, 0, 0, 0);
#endif
}
