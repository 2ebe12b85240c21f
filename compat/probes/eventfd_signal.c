// SPDX-License-Identifier: GPL-2.0-only
/* An eventfd is raised by one, and not by any number. */
#include <linux/eventfd.h>

static inline void probe(struct eventfd_ctx *eventfd)
{
#ifdef VRDMA_NEW
	eventfd_signal(eventfd);
#else
	eventfd_signal(eventfd, 1);
#endif
}
