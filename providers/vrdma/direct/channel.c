/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#define _GNU_SOURCE
#include "channel.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

int vrdma_channel_init(struct vrdma_event_channel *channel, size_t event_size)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return errno;
	memset(channel, 0, sizeof(*channel));
	channel->read_fd = fds[0];
	channel->write_fd = fds[1];
	channel->event_size = event_size;
	channel->last = &channel->first;
	return 0;
}

void vrdma_channel_init_direct(struct vrdma_event_channel *channel)
{
	memset(channel, 0, sizeof(*channel));
	channel->read_fd = -1;
	channel->write_fd = -1;
	channel->last = &channel->first;
}

bool vrdma_channel_is_closed(const struct vrdma_event_channel *channel)
{
	struct pollfd fd = {.fd = channel->write_fd};

	return poll(&fd, 1, 0) == 1 && fd.revents & POLLHUP;
}

void vrdma_channel_destroy(struct vrdma_event_channel *channel)
{
	if (channel->write_fd >= 0)
		close(channel->write_fd);
}

static bool send_event(struct vrdma_event_channel *channel, const struct vrdma_event *event)
{
	return send(channel->write_fd, event, channel->event_size, MSG_DONTWAIT | MSG_NOSIGNAL) ==
	       (ssize_t)channel->event_size;
}

static void append(struct vrdma_event_channel *channel, struct vrdma_event_source *source)
{
	source->next = NULL;
	*channel->last = source;
	channel->last = &source->next;
}

static void remove_source(struct vrdma_event_channel *channel, struct vrdma_event_source *source)
{
	struct vrdma_event_source **at = &channel->first;

	while (*at != source)
		at = &(*at)->next;
	*at = source->next;
	if (channel->last == &source->next)
		channel->last = at;
}

static struct vrdma_event next_event(const struct vrdma_event_source *source)
{
	return (struct vrdma_event){
		.element = source->element,
		.type = (unsigned int)ffs((int)source->waiting) - 1,
	};
}

/* An event of the first source does not wait any more. Other sources come before its next one. */
static void pass_on(struct vrdma_event_channel *channel, unsigned int type)
{
	struct vrdma_event_source *source = channel->first;

	source->waiting &= ~(1u << type);
	remove_source(channel, source);
	if (source->waiting)
		append(channel, source);
}

/* Sends waiting events, of one source after another, while there is room. */
static void flush(struct vrdma_event_channel *channel)
{
	if (channel->write_fd < 0)
		return;
	while (channel->first && channel->in_flight < VRDMA_CHANNEL_DEPTH) {
		struct vrdma_event_source *source = channel->first;
		const struct vrdma_event event = next_event(source);

		if (!send_event(channel, &event))
			return;
		channel->in_flight++;
		source->in_flight |= 1u << event.type;
		pass_on(channel, event.type);
	}
}

bool vrdma_event_take(struct vrdma_event_channel *channel, struct vrdma_event *event)
{
	struct vrdma_event_source *source = channel->first;

	if (!source)
		return false;
	*event = next_event(source);
	source->reported++;
	pass_on(channel, event->type);
	return true;
}

void vrdma_event_source_init(struct vrdma_event_source *source, struct vrdma_event_channel *channel,
			     void *element)
{
	memset(source, 0, sizeof(*source));
	source->channel = channel;
	source->element = (uintptr_t)element;
}

void vrdma_event_post(struct vrdma_event_source *source, unsigned int type)
{
	if (!source->channel || (source->waiting | source->in_flight) & 1u << type)
		return;
	if (!source->waiting)
		append(source->channel, source);
	source->waiting |= 1u << type;
	flush(source->channel);
}

void vrdma_event_taken(struct vrdma_event_source *source, unsigned int type)
{
	if (!source->channel) /* the source retired meanwhile, and has counted the event */
		return;
	source->reported++;
	source->in_flight &= ~(1u << type);
	source->channel->in_flight--;
	flush(source->channel);
}

/*
 * Reads all events from the socket, and writes those of other sources back. The program has read
 * the events that were in flight and are no longer in the socket.
 */
static void take_back(struct vrdma_event_source *source)
{
	struct vrdma_event_channel *channel = source->channel;
	struct vrdma_event others[VRDMA_CHANNEL_DEPTH];
	unsigned int count = 0;
	uint32_t found = 0;

	for (unsigned int i = 0; i < VRDMA_CHANNEL_DEPTH; i++) {
		struct vrdma_event event = {};

		if (recv(channel->read_fd, &event, channel->event_size, MSG_DONTWAIT) !=
		    (ssize_t)channel->event_size)
			break;
		if (event.element == source->element)
			found |= 1u << event.type;
		else
			others[count++] = event;
	}
	for (unsigned int i = 0; i < count; i++)
		send_event(channel, &others[i]);

	channel->in_flight -= (unsigned int)__builtin_popcount(source->in_flight);
	source->reported += (uint32_t)__builtin_popcount(source->in_flight & ~found);
	source->in_flight = 0;
}

uint32_t vrdma_event_retire(struct vrdma_event_source *source)
{
	if (!source->channel)
		return source->reported;
	if (source->waiting) {
		remove_source(source->channel, source);
		source->waiting = 0;
	}
	if (source->in_flight)
		take_back(source);
	flush(source->channel);
	source->channel = NULL;
	return source->reported;
}
