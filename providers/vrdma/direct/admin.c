/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The admin queue. Commands of many threads may be in flight at once. The device answers each on
 * its own, in any order.
 *
 * One of the waiting threads polls the vector's eventfd, and takes all answers that have arrived.
 * So an answer to a lone command wakes only its caller. A command ends with the device's answer. If
 * the device makes no step of any command for VRDMA_ADMIN_TIMEOUT_MS, the whole device fails.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "../barrier.h"
#include "clock.h"
#include "device.h"

/* After this time, a waiting thread checks the queue without an interrupt. */
#define POLL_MS 100
#define MAX_ERRNO 4095

static void finish(struct vrdma_admin *admin, struct vrdma_admin_slot *slot,
		   const struct vrdma_admin_cpl *cpl)
{
	memcpy(slot->cpl, cpl, sizeof(*cpl));
	slot->cpl = NULL;
	pthread_cond_broadcast(&admin->changed);
}

/* Takes the answers that have arrived. False if one answers no command that is in flight. */
static bool reap(struct vrdma_admin *admin)
{
	const struct vrdma_admin_cpl *ring = admin->acq.data;

	for (unsigned int budget = VRDMA_ADMIN_DEPTH; budget && !admin->dead; budget--) {
		uint32_t slot = vrdma_ring_slot(admin->consumer, VRDMA_ADMIN_DEPTH);
		const struct vrdma_admin_cpl *cpl = &ring[slot];
		uint32_t header = vrdma_load_acquire(&cpl->header);
		uint32_t id = VRDMA_GET(VRDMA_ADMIN_ID, header);

		if (!vrdma_ring_valid(header, admin->consumer, VRDMA_ADMIN_DEPTH,
				      VRDMA_ADMIN_PHASE))
			return true;
		if (id >= VRDMA_ADMIN_DEPTH || !admin->slots[id].cpl)
			return false;
		admin->consumer++;
		finish(admin, &admin->slots[id], cpl);
	}
	return true;
}

static unsigned int take_slot(struct vrdma_admin *admin)
{
	unsigned int id = 0;

	while (admin->slots[id].taken)
		id++;
	admin->slots[id].taken = true;
	admin->taken++;
	return id;
}

static void give_slot(struct vrdma_admin *admin, unsigned int id)
{
	admin->slots[id].taken = false;
	admin->taken--;
	pthread_cond_broadcast(&admin->changed);
}

/*
 * The entry is free, because the caller has a slot. The device takes commands in order: had it not
 * taken the last command of this entry, all later ones would be in flight too, and no slot free.
 */
static void queue_command(struct vrdma_admin *admin, uint32_t opcode, unsigned int id,
			  const struct vrdma_admin_cmd *cmd)
{
	uint32_t phase = vrdma_ring_phase(admin->producer, VRDMA_ADMIN_DEPTH, VRDMA_ADMIN_PHASE);
	struct vrdma_admin_cmd *ring = admin->asq.data;
	struct vrdma_admin_cmd *entry = &ring[vrdma_ring_slot(admin->producer, VRDMA_ADMIN_DEPTH)];

	entry->reserved = 0;
	memcpy(entry->bytes, cmd->bytes, sizeof(entry->bytes));
	vrdma_store_release(&entry->header, vrdma_admin_header(phase, opcode, id));
	admin->producer++;
}

/* Waits until something may have changed. The caller has the lock; it is released meanwhile. */
static void wait_for_change(struct vrdma_dev *dev)
{
	struct vrdma_admin *admin = &dev->admin;
	struct pollfd fd = {.fd = admin->event_fd, .events = POLLIN};
	uint64_t count;

	if (admin->watched) {
		pthread_cond_wait(&admin->changed, &admin->lock);
		return;
	}
	admin->watched = true;
	pthread_mutex_unlock(&admin->lock);
	if (poll(&fd, 1, POLL_MS) == 1 && read(admin->event_fd, &count, sizeof(count)) > 0 &&
	    vrdma_admin_vector(dev->fn.id.num_vectors) ==
		    vrdma_comp_vector(dev->fn.id.num_vectors, 0))
		vrdma_events_wake(&dev->events); /* the interrupt may be for event queues */
	pthread_mutex_lock(&admin->lock);
	admin->watched = false;
	pthread_cond_broadcast(&admin->changed);
}

/* Waits until the slot is answered. Returns NULL, or why the device failed. */
static const char *wait_for_answer(struct vrdma_dev *dev, struct vrdma_admin_slot *slot)
{
	struct vrdma_admin *admin = &dev->admin;
	const struct vrdma_status_page *status = dev->status_page.data;
	uint32_t steps = vrdma_load_acquire(&status->admin_steps);
	uint64_t deadline = vrdma_now_ms() + VRDMA_ADMIN_TIMEOUT_MS;

	for (;;) {
		uint32_t now = vrdma_load_acquire(&status->admin_steps);

		if (!reap(admin))
			return "it answered a command that it was not given";
		if (!slot->cpl)
			return NULL;
		if (now != steps) {
			steps = now;
			deadline = vrdma_now_ms() + VRDMA_ADMIN_TIMEOUT_MS;
		}
		if (vrdma_now_ms() > deadline)
			return "it did not answer a command in time";
		wait_for_change(dev);
	}
}

static int execute(struct vrdma_dev *dev, uint32_t opcode, struct vrdma_admin_cmd *cmd,
		   struct vrdma_admin_cpl *cpl)
{
	struct vrdma_admin *admin = &dev->admin;
	const char *failure;
	unsigned int id;
	uint32_t status;

	if (dev->forked)
		return -EIO;
	pthread_mutex_lock(&admin->lock);
	while (admin->taken == VRDMA_ADMIN_DEPTH && !admin->dead)
		pthread_cond_wait(&admin->changed, &admin->lock);
	if (admin->dead) {
		pthread_mutex_unlock(&admin->lock);
		return -EIO;
	}
	id = take_slot(admin);
	admin->slots[id].cpl = cpl;
	queue_command(admin, opcode, id, cmd);
	pthread_mutex_unlock(&admin->lock);

	dev->fn.bus->ops->post(dev->fn.bus, VRDMA_REG_ADMIN_DOORBELL, 1);

	pthread_mutex_lock(&admin->lock);
	failure = wait_for_answer(dev, &admin->slots[id]);
	pthread_mutex_unlock(&admin->lock);
	if (failure)
		vrdma_dev_fail(dev, failure);

	pthread_mutex_lock(&admin->lock);
	give_slot(admin, id);
	pthread_mutex_unlock(&admin->lock);
	status = le32toh(cpl->status);
	return status <= MAX_ERRNO ? -(int)status : -EIO;
}

int vrdma_admin_exec(struct vrdma_dev *dev, __u32 opcode, struct vrdma_admin_cmd *cmd,
		     struct vrdma_admin_cpl *cpl)
{
	int err = execute(dev, opcode, cmd, cpl);

	if (err && vrdma_dev_failed(dev))
		vrdma_dev_quiesce(dev);
	return err;
}

/* Ends all commands, now and later, with EIO. True for the first call. */
bool vrdma_admin_kill(struct vrdma_admin *admin)
{
	const struct vrdma_admin_cpl eio = {.status = htole32(EIO)};
	const uint64_t one = 1;
	ssize_t written;
	bool first;

	pthread_mutex_lock(&admin->lock);
	first = !admin->dead;
	__atomic_store_n(&admin->dead, true, __ATOMIC_RELAXED); /* read without the lock too */
	for (unsigned int id = 0; id < VRDMA_ADMIN_DEPTH; id++)
		if (admin->slots[id].cpl)
			finish(admin, &admin->slots[id], &eio);
	pthread_cond_broadcast(&admin->changed);
	pthread_mutex_unlock(&admin->lock);
	written = write(admin->event_fd, &one, sizeof(one)); /* wakes the thread that polls it */
	(void)written;
	return first;
}

int vrdma_admin_init(struct vrdma_dev *dev)
{
	struct vrdma_admin *admin = &dev->admin;
	int ret;

	pthread_mutex_init(&admin->lock, NULL);
	pthread_cond_init(&admin->changed, NULL);
	admin->event_fd = dev->fn.vector_fds[vrdma_admin_vector(dev->fn.id.num_vectors)];
	ret = vrdma_memory_alloc(&dev->memory, &admin->asq,
				 VRDMA_ADMIN_DEPTH * sizeof(struct vrdma_admin_cmd));
	if (ret)
		return ret;
	ret = vrdma_memory_alloc(&dev->memory, &admin->acq,
				 VRDMA_ADMIN_DEPTH * sizeof(struct vrdma_admin_cpl));
	if (ret)
		vrdma_memory_free(&dev->memory, &admin->asq);
	return ret;
}

/* To be called when the device is quiet and no verb is running. */
void vrdma_admin_cleanup(struct vrdma_dev *dev)
{
	vrdma_memory_free(&dev->memory, &dev->admin.acq);
	vrdma_memory_free(&dev->memory, &dev->admin.asq);
	pthread_cond_destroy(&dev->admin.changed);
	pthread_mutex_destroy(&dev->admin.lock);
}
