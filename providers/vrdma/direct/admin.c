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

#include "clock.h"
#include "device.h"

/* After this time, a waiting thread checks the queue without an interrupt. */
#define POLL_MS 100

/* Takes the answers that have arrived. False if one answers no command that is in flight. */
static bool reap(struct vrdma_admin *admin)
{
	int id = 0;

	for (unsigned int budget = VRDMA_ADMIN_DEPTH; budget && !admin->dead; budget--) {
		id = vrdma_admin_take_answer(&admin->queue);
		if (id < 0)
			break;
		pthread_cond_broadcast(&admin->changed);
	}
	return id >= 0 || id == -EAGAIN;
}

static uint32_t take_id(struct vrdma_admin *admin)
{
	admin->taken++;
	return vrdma_admin_take_id(&admin->queue);
}

static void give_id(struct vrdma_admin *admin, uint32_t id)
{
	vrdma_admin_give_id(&admin->queue, id);
	admin->taken--;
	pthread_cond_broadcast(&admin->changed);
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

/* Waits until the command is answered. Returns NULL, or why the device failed. */
static const char *wait_for_answer(struct vrdma_dev *dev, uint32_t id)
{
	struct vrdma_admin *admin = &dev->admin;
	const struct vrdma_status_page *status = dev->status_page.data;
	uint32_t steps = vrdma_load_acquire(&status->admin_steps);
	uint64_t deadline = vrdma_now_ms() + VRDMA_ADMIN_TIMEOUT_MS;

	for (;;) {
		uint32_t now = vrdma_load_acquire(&status->admin_steps);

		if (!reap(admin))
			return "it answered a command that it was not given";
		if (!admin->queue.answer_to[id])
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
	uint32_t id;

	if (dev->forked)
		return -EIO;
	pthread_mutex_lock(&admin->lock);
	while (admin->taken == VRDMA_ADMIN_DEPTH && !admin->dead)
		pthread_cond_wait(&admin->changed, &admin->lock);
	if (admin->dead) {
		pthread_mutex_unlock(&admin->lock);
		return -EIO;
	}
	id = take_id(admin);
	vrdma_admin_queue_command(&admin->queue, opcode, id, cmd, cpl);
	pthread_mutex_unlock(&admin->lock);

	dev->fn.bus->ops->post(dev->fn.bus, VRDMA_REG_ADMIN_DOORBELL, 1);

	pthread_mutex_lock(&admin->lock);
	failure = wait_for_answer(dev, id);
	pthread_mutex_unlock(&admin->lock);
	if (failure)
		vrdma_dev_fail(dev, failure);

	pthread_mutex_lock(&admin->lock);
	give_id(admin, id);
	pthread_mutex_unlock(&admin->lock);
	return vrdma_admin_error(cpl);
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
	for (uint32_t id = 0; id < VRDMA_ADMIN_DEPTH; id++)
		if (admin->queue.answer_to[id])
			vrdma_admin_answer(&admin->queue, id, &eio);
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
	if (ret) {
		vrdma_memory_free(&dev->memory, &admin->asq);
		return ret;
	}
	admin->queue.commands = admin->asq.data;
	admin->queue.answers = admin->acq.data;
	return 0;
}

/* To be called when the device is quiet and no verb is running. */
void vrdma_admin_cleanup(struct vrdma_dev *dev)
{
	vrdma_memory_free(&dev->memory, &dev->admin.acq);
	vrdma_memory_free(&dev->memory, &dev->admin.asq);
	pthread_cond_destroy(&dev->admin.changed);
	pthread_mutex_destroy(&dev->admin.lock);
}
