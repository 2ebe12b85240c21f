/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Tells the device's poller about new WQEs: the producer's side of the protocol in queue.h. */
#ifndef VRDMA_DOORBELL_H
#define VRDMA_DOORBELL_H

#include <unistd.h>
#include <vrdma/barrier.h>
#include <vrdma/queue.h>

struct vrdma_doorbell {
	struct vrdma_doorbell_page *page;
	const struct vrdma_status_page *status;
	__le32 *kick_page; /* in a guest: each store is a VM exit. NULL if stores are not trapped */
	int kick_fd;       /* if kick_page is NULL: a file to write at kick_offset, or an eventfd */
	off_t kick_offset; /* negative: kick_fd is a non-blocking eventfd */
	uint32_t slot;
};

/* Ignores errors of write(): an eventfd whose counter is full wakes the poller as well. */
static inline void vrdma_kick(const struct vrdma_doorbell *doorbell)
{
	const uint64_t one = 1;
	ssize_t written;

	if (doorbell->kick_page) {
		__atomic_store_n(doorbell->kick_page, 1, __ATOMIC_RELAXED);
		return;
	}
	if (doorbell->kick_offset < 0)
		written = write(doorbell->kick_fd, &one, sizeof(one));
	else
		written = pwrite(doorbell->kick_fd, &one, sizeof(one), doorbell->kick_offset);
	(void)written;
}

static inline void vrdma_ring_doorbell(const struct vrdma_doorbell *doorbell)
{
	struct vrdma_doorbell_page *page = doorbell->page;
	uint32_t slot = doorbell->slot;

	__atomic_store_n(&page->slot[slot], 1, __ATOMIC_RELAXED);
	__atomic_store_n(&page->line[slot >> VRDMA_DOORBELL_LINE_SHIFT], 1, __ATOMIC_RELEASE);
	vrdma_full_fence();
	if (vrdma_load(&doorbell->status->need_kick))
		vrdma_kick(doorbell);
}

/* After WQEs of the SQ became valid. */
static inline void vrdma_announce_sends(const struct vrdma_qp_control *control,
					const struct vrdma_doorbell *doorbell)
{
	vrdma_full_fence();
	if (!vrdma_load(&control->sq_polled))
		vrdma_ring_doorbell(doorbell);
}

/* After WQEs of the RQ became valid. */
static inline void vrdma_announce_receives(const struct vrdma_qp_control *control,
					   const struct vrdma_doorbell *doorbell)
{
	vrdma_full_fence();
	if (vrdma_load(&control->rq_wanted))
		vrdma_ring_doorbell(doorbell);
}

#endif /* VRDMA_DOORBELL_H */
