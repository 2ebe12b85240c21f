// SPDX-License-Identifier: GPL-2.0-only
/* ib_core derives the port's state from the netdev's state, unless the driver does. */
#include <rdma/ib_verbs.h>

#ifdef VRDMA_NEW
static inline void report(struct ib_device *ibdev, struct net_device *netdev, unsigned long event)
{
}

static const struct ib_device_ops probe __maybe_unused = {
	.report_port_event = report,
};
#else
struct probe {
	struct ib_device_ops;
	int report_port_event;
};
#endif
