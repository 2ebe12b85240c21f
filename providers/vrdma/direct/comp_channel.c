/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Completion channels. There are two kinds:
 *
 * - libibverbs reads the events of an ordinary channel from a socket. The event thread writes them.
 *   So an event wakes two threads one after the other.
 * - A direct channel has an event queue of its own, and its file is the eventfd of that queue's
 *   vector. So the device wakes the program itself. The program takes the events by a call
 *   (vrdmadv_get_cq_event()), which empties the queue.
 *
 * The file of a direct channel is readable while there are events, and only then. The device
 * signals the eventfd after it has written events. So a channel takes the events of an interrupt
 * only when the eventfd has counted it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "device.h"

/* Under the lock of events. */
static void free_events(struct vrdma_context *context, struct vrdma_event_channel **at)
{
	struct vrdma_event_channel *events = *at;

	*at = events->next;
	vrdma_events_return_queue(context->dev, events);
	vrdma_channel_destroy(events);
	free(events);
}

/* libibverbs destroys an ordinary channel by closing the program's side, and tells nobody. */
static void free_closed_channels(struct vrdma_context *context)
{
	struct vrdma_event_channel **at = &context->channels;

	while (*at) {
		if (vrdma_channel_is_closed(*at))
			free_events(context, at);
		else
			at = &(*at)->next;
	}
}

/* At the end of the context. */
void vrdma_direct_free_channels(struct vrdma_context *context)
{
	pthread_mutex_lock(&context->dev->events.lock);
	while (context->channels)
		free_events(context, &context->channels);
	pthread_mutex_unlock(&context->dev->events.lock);
}

/*
 * ibv_destroy_comp_channel() frees the channel in one piece. `events` outlives it, and is therefore
 * allocated separately.
 */
static struct vrdma_comp_channel *alloc_channel(struct vrdma_context *context)
{
	struct vrdma_comp_channel *channel = calloc(1, sizeof(*channel));
	struct vrdma_event_channel *events = calloc(1, sizeof(*events));

	if (!channel || !events) {
		free(events);
		free(channel);
		errno = ENOMEM;
		return NULL;
	}
	channel->base.context = &context->base.context;
	channel->events = events;
	return channel;
}

static struct ibv_comp_channel *fail_channel(struct vrdma_comp_channel *channel, int error)
{
	free(channel->events);
	free(channel);
	errno = error;
	return NULL;
}

/* Under the lock of events. */
static void add_events(struct vrdma_context *context, struct vrdma_event_channel *events)
{
	events->next = context->channels;
	context->channels = events;
}

struct ibv_comp_channel *vrdma_direct_create_channel(struct vrdma_context *context)
{
	struct vrdma_comp_channel *channel = alloc_channel(context);
	int ret;

	if (!channel)
		return NULL;
	ret = vrdma_channel_init(channel->events, sizeof(uint64_t));
	if (ret)
		return fail_channel(channel, ret);
	channel->base.fd = channel->events->read_fd;
	pthread_mutex_lock(&context->dev->events.lock);
	free_closed_channels(context);
	add_events(context, channel->events);
	pthread_mutex_unlock(&context->dev->events.lock);
	return &channel->base;
}

/* The program's file of the channel. As a new one of the kernel's, it blocks. */
static int open_file(const struct vrdma_eq *eq)
{
	if (fcntl(eq->fd, F_SETFL, 0))
		return -1;
	return fcntl(eq->fd, F_DUPFD_CLOEXEC, 0);
}

/* Fails with EAGAIN if no event queue is left. */
struct ibv_comp_channel *vrdma_direct_create_direct_channel(struct vrdma_context *context)
{
	struct vrdma_comp_channel *channel = alloc_channel(context);
	struct vrdma_events *events = &context->dev->events;
	int ret = EAGAIN;

	if (!channel)
		return NULL;
	vrdma_channel_init_direct(channel->events);
	pthread_mutex_lock(&events->lock);
	channel->eq = vrdma_events_lend_queue(context->dev, channel->events);
	if (channel->eq) {
		channel->base.fd = open_file(channel->eq);
		ret = channel->base.fd < 0 ? errno : 0;
		if (ret)
			vrdma_events_return_queue(context->dev, channel->events);
		else
			add_events(context, channel->events);
	}
	pthread_mutex_unlock(&events->lock);
	return ret ? fail_channel(channel, ret) : &channel->base;
}

/* As ibv_get_cq_event(). */
int vrdma_direct_get_cq_event(struct vrdma_comp_channel *channel, struct ibv_cq **cq,
			      void **cq_context)
{
	struct vrdma_dev *dev = to_vrdma_context(channel->base.context)->dev;
	struct vrdma_event event;
	uint64_t count;

	do {
		if (read(channel->base.fd, &count, sizeof(count)) < 0)
			return -1;
	} while (!vrdma_events_take(dev, channel->eq, count, channel->events, &event));
	*cq = (struct ibv_cq *)(uintptr_t)event.element;
	*cq_context = (*cq)->cq_context;
	return 0;
}

static void forget_channel(struct vrdma_context *context, const struct vrdma_event_channel *events)
{
	struct vrdma_event_channel **at = &context->channels;

	pthread_mutex_lock(&context->dev->events.lock);
	while (*at != events)
		at = &(*at)->next;
	free_events(context, at);
	pthread_mutex_unlock(&context->dev->events.lock);
}

/* As ibv_destroy_comp_channel(), which counts the CQs of all channels. */
int vrdma_direct_destroy_direct_channel(struct vrdma_comp_channel *channel)
{
	struct ibv_context *context = channel->base.context;
	bool used;

	pthread_mutex_lock(&context->mutex);
	used = channel->base.refcnt != 0;
	pthread_mutex_unlock(&context->mutex);
	if (used)
		return EBUSY;
	close(channel->base.fd);
	forget_channel(to_vrdma_context(context), channel->events);
	free(channel);
	return 0;
}
