// SPDX-License-Identifier: GPL-2.0-only
/* eventfd_signal() adds one, and not a number that the caller chooses. */
#include <linux/eventfd.h>

static inline void probe(struct eventfd_ctx *eventfd)
{
#ifdef VRDMA_NEW
	eventfd_signal(eventfd);
#else
	eventfd_signal(eventfd, 1);
#endif
}
