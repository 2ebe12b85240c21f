// SPDX-License-Identifier: GPL-2.0-only
/* The driver declares the size of a counter, which ib_core allocates, and initializes it. */
#include <rdma/ib_verbs.h>

#ifdef VRDMA_NEW
static inline void init(struct rdma_counter *counter)
{
}

static const struct ib_device_ops probe __maybe_unused = {
	.counter_init = init,
	.size_rdma_counter = sizeof(struct rdma_counter),
};
#else
struct probe {
	struct ib_device_ops;
	int counter_init;
};
#endif
