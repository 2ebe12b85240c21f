/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The event queues of the device, for both drivers of the PCI function. */
#ifndef VRDMA_EVENT_QUEUE_H
#define VRDMA_EVENT_QUEUE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#endif

#include "barrier.h"
#include "device.h"
#include "ring.h"

#define VRDMA_EQ_DEPTH 1024 /* a power of two; more events wait in the device */
#define VRDMA_EQ_SIZE (sizeof(struct vrdma_eq_control) + VRDMA_EQ_DEPTH * sizeof(struct vrdma_eqe))

/* Returns whether events go on: not after one that ends the device. */
typedef bool vrdma_event_handler(void *context, __u32 type, __u32 id, __u64 detail);

/*
 * Hands over the events that have arrived, and returns what their handler did. buffer has
 * VRDMA_EQ_SIZE bytes. The device writes no more entries than the consumer index leaves room for.
 * The index moves once, at the end, so this ends within one pass over the ring. Later entries raise
 * another interrupt.
 *
 * If interrupts is not NULL, it counts the interrupts that have come. Events of later interrupts
 * stay in the ring, so no interrupt comes for events that are gone. An interrupt whose events are
 * handed over is subtracted. When the ring is empty, the count becomes zero.
 */
static inline bool vrdma_take_events(void *buffer, __u32 *consumer, __u32 *interrupts,
				     vrdma_event_handler *handle, void *context)
{
	struct vrdma_eq_control *control = (struct vrdma_eq_control *)buffer;
	const struct vrdma_eqe *ring = (const struct vrdma_eqe *)(control + 1);
	__u32 budget = VRDMA_EQ_DEPTH;
	bool go_on = true;

	for (; budget && go_on; budget--) {
		const struct vrdma_eqe *eqe = &ring[vrdma_ring_slot(*consumer, VRDMA_EQ_DEPTH)];
		__u32 header = vrdma_load_acquire(&eqe->header);

		if (!vrdma_ring_valid(header, *consumer, VRDMA_EQ_DEPTH, VRDMA_EQE_PHASE)) {
			if (interrupts)
				*interrupts = 0;
			break;
		}
		if (interrupts && header & VRDMA_EQE_INTERRUPT) {
			if (!*interrupts)
				break;
			--*interrupts;
		}
		++*consumer;
		go_on = handle(context, VRDMA_GET(VRDMA_EQE_TYPE, header), __le32_to_cpu(eqe->id),
			       __le64_to_cpu(eqe->detail));
	}
	vrdma_store_release(&control->consumer, *consumer);
	return go_on;
}

/* The number of event queues for completions: one per vector, if the device has so many. */
static inline __u32 vrdma_num_comp_eqs(__u32 comp_vectors, __u32 max_eq)
{
	__u32 room = max_eq ? max_eq - 1 : 0;

	return comp_vectors < room ? comp_vectors : room;
}

#endif /* VRDMA_EVENT_QUEUE_H */
