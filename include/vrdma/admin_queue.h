/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The rings of the admin queue, for both drivers of the PCI function. Commands of many threads may
 * be in flight at once. The device answers each on its own, in any order.
 *
 * The caller of these functions has the driver's lock of the queue. A driver lets at most
 * VRDMA_ADMIN_DEPTH threads issue a command, so there is an id for each.
 */
#ifndef VRDMA_ADMIN_QUEUE_H
#define VRDMA_ADMIN_QUEUE_H

#ifdef __KERNEL__
#include <linux/errno.h>
#include <linux/string.h>
#else
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#endif

#include "barrier.h"
#include "device.h"
#include "ring.h"

#define VRDMA_ADMIN_DEPTH 64 /* commands in flight; a power of two */

struct vrdma_admin_queue {
	struct vrdma_admin_cmd *commands; /* the rings, which the device sees */
	struct vrdma_admin_cpl *answers;
	struct vrdma_admin_cpl *answer_to[VRDMA_ADMIN_DEPTH]; /* by id; NULL: not in flight */
	bool taken[VRDMA_ADMIN_DEPTH];			      /* ids, also answered ones */
	__u32 producer;					      /* free-running */
	__u32 consumer;					      /* free-running */
};

/* The header of a command. phase is the one of its entry. */
static inline __u32 vrdma_admin_header(__u32 phase, __u32 opcode, __u32 id)
{
	return phase | VRDMA_SET(VRDMA_ADMIN_OPCODE, opcode) | VRDMA_SET(VRDMA_ADMIN_ID, id);
}

static inline __u32 vrdma_admin_take_id(struct vrdma_admin_queue *queue)
{
	__u32 id = 0;

	while (queue->taken[id])
		id++;
	queue->taken[id] = true;
	return id;
}

static inline void vrdma_admin_give_id(struct vrdma_admin_queue *queue, __u32 id)
{
	queue->taken[id] = false;
}

/*
 * Queues a command, whose answer goes to *cpl. The entry is free, because the caller has an id. The
 * device takes commands in order: had it not taken the last command of this entry, all later ones
 * would be in flight too, and no id free.
 */
static inline void vrdma_admin_queue_command(struct vrdma_admin_queue *queue, __u32 opcode,
					     __u32 id, const struct vrdma_admin_cmd *cmd,
					     struct vrdma_admin_cpl *cpl)
{
	__u32 phase = vrdma_ring_phase(queue->producer, VRDMA_ADMIN_DEPTH, VRDMA_ADMIN_PHASE);
	__u32 slot = vrdma_ring_slot(queue->producer, VRDMA_ADMIN_DEPTH);
	struct vrdma_admin_cmd *entry = &queue->commands[slot];

	queue->answer_to[id] = cpl;
	entry->reserved = 0;
	memcpy(entry->bytes, cmd->bytes, sizeof(entry->bytes));
	vrdma_store_release(&entry->header, vrdma_admin_header(phase, opcode, id));
	queue->producer++;
}

static inline void vrdma_admin_answer(struct vrdma_admin_queue *queue, __u32 id,
				      const struct vrdma_admin_cpl *cpl)
{
	memcpy(queue->answer_to[id], cpl, sizeof(*cpl));
	queue->answer_to[id] = NULL;
}

/*
 * Takes the next answer, and returns the id of its command. -EAGAIN: none has arrived. -EPROTO: it
 * answers no command in flight.
 */
static inline int vrdma_admin_take_answer(struct vrdma_admin_queue *queue)
{
	__u32 slot = vrdma_ring_slot(queue->consumer, VRDMA_ADMIN_DEPTH);
	const struct vrdma_admin_cpl *cpl = &queue->answers[slot];
	__u32 header = vrdma_load_acquire(&cpl->header);
	__u32 id = VRDMA_GET(VRDMA_ADMIN_ID, header);

	if (!vrdma_ring_valid(header, queue->consumer, VRDMA_ADMIN_DEPTH, VRDMA_ADMIN_PHASE))
		return -EAGAIN;
	if (id >= VRDMA_ADMIN_DEPTH || !queue->answer_to[id])
		return -EPROTO;
	queue->consumer++;
	vrdma_admin_answer(queue, id, cpl);
	return (int)id;
}

/* 0 or the negative errno that the device answered. */
static inline int vrdma_admin_error(const struct vrdma_admin_cpl *cpl)
{
	__u32 status = __le32_to_cpu(cpl->status);
	const __u32 max_errno = 4095;

	return status <= max_errno ? -(int)status : -EIO;
}

#endif /* VRDMA_ADMIN_QUEUE_H */
