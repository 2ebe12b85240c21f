/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../clock.h"
#include "cm.h"

pthread_mutex_t vrdma_cm_lock = PTHREAD_MUTEX_INITIALIZER;

static struct vrdma_cm_id *ids[VRDMA_CM_MAX_IDS];
static struct vrdma_cm_channel *channels;

uint64_t vrdma_cm_now(void)
{
	return vrdma_now_ms();
}

/* --- Ids --- */

/* The low bits are the handle. The others distinguish the id from earlier ids with that handle. */
static uint32_t make_comm_id(uint32_t handle)
{
	uint32_t generation = 0;

	if (getrandom(&generation, sizeof(generation), 0) != sizeof(generation))
		generation = (uint32_t)vrdma_cm_now();
	return generation * VRDMA_CM_MAX_IDS + handle;
}

/* No id has handle 0, so that no comm id is 0. */
struct vrdma_cm_id *vrdma_cm_id_new(struct vrdma_cm_channel *channel, uint16_t port_space)
{
	struct vrdma_cm_id *id;
	uint32_t handle = 1;

	while (handle < VRDMA_CM_MAX_IDS && ids[handle])
		handle++;
	if (handle == VRDMA_CM_MAX_IDS)
		return NULL;
	id = calloc(1, sizeof(*id));
	if (!id)
		return NULL;
	id->handle = handle;
	id->comm_id = make_comm_id(handle);
	id->channel = channel;
	id->port_space = port_space;
	ids[handle] = id;
	return id;
}

void vrdma_cm_id_free(struct vrdma_cm_id *id)
{
	ids[id->handle] = NULL;
	free(id);
}

struct vrdma_cm_id *vrdma_cm_id_next(uint32_t *handle)
{
	while (*handle < VRDMA_CM_MAX_IDS) {
		struct vrdma_cm_id *id = ids[(*handle)++];

		if (id)
			return id;
	}
	return NULL;
}

struct vrdma_cm_id *vrdma_cm_id_find(uint32_t handle, const struct vrdma_cm_channel *channel)
{
	struct vrdma_cm_id *id = handle < VRDMA_CM_MAX_IDS ? ids[handle] : NULL;

	return id && id->channel == channel ? id : NULL;
}

struct vrdma_cm_id *vrdma_cm_id_by_comm_id(uint32_t comm_id)
{
	struct vrdma_cm_id *id = ids[comm_id % VRDMA_CM_MAX_IDS];

	return id && id->comm_id == comm_id ? id : NULL;
}

/* --- Channels --- */

/* No other socket can send to a socket that is connected to itself. */
static bool connect_to_self(int fd)
{
	const sa_family_t unnamed = AF_UNIX;
	struct sockaddr_un own;
	socklen_t length = sizeof(own);

	return bind(fd, (const struct sockaddr *)&unnamed, sizeof(unnamed)) == 0 &&
	       getsockname(fd, (struct sockaddr *)&own, &length) == 0 &&
	       connect(fd, (const struct sockaddr *)&own, length) == 0;
}

uint64_t vrdma_cm_cookie(int fd)
{
	const int error = errno;
	uint64_t cookie;
	socklen_t length = sizeof(cookie);

	if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &length))
		cookie = 0;
	errno = error;
	return cookie;
}

static bool open_file(struct vrdma_cm_channel *channel, int max_fds)
{
	channel->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (channel->fd < 0)
		return false;
	if (channel->fd >= max_fds)
		errno = EMFILE;
	else if (connect_to_self(channel->fd))
		channel->cookie = vrdma_cm_cookie(channel->fd);
	if (channel->cookie)
		return true;
	close(channel->fd);
	return false;
}

struct vrdma_cm_channel *vrdma_cm_channel_new(int max_fds)
{
	struct vrdma_cm_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	if (!open_file(channel, max_fds)) {
		free(channel);
		return NULL;
	}
	channel->last = &channel->first;
	channel->next = channels;
	channels = channel;
	return channel;
}

/* The channel has no ids and no events any more. The program itself closes the file. */
void vrdma_cm_channel_free(struct vrdma_cm_channel *channel)
{
	struct vrdma_cm_channel **at = &channels;

	while (*at != channel)
		at = &(*at)->next;
	*at = channel->next;
	free(channel);
}

struct vrdma_cm_channel *vrdma_cm_channel_find(int fd)
{
	struct vrdma_cm_channel *channel = channels;

	while (channel && channel->fd != fd)
		channel = channel->next;
	return channel && vrdma_cm_cookie(fd) == channel->cookie ? channel : NULL;
}

struct vrdma_cm_channel *vrdma_cm_channel_first(void)
{
	return channels;
}

/* --- Events --- */

/*
 * Makes the file readable by a datagram that it sends to itself. write() would be a command of the
 * program. The program may have closed the file unnoticed and have another one with its number.
 */
static void set_readable(const struct vrdma_cm_channel *channel, bool readable)
{
	char byte = 0;

	if (vrdma_cm_cookie(channel->fd) != channel->cookie)
		return;
	if (readable)
		send(channel->fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_NOSIGNAL);
	else
		while (recv(channel->fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0)
			;
}

static void append(struct vrdma_cm_channel *channel, struct vrdma_cm_event *event)
{
	if (!channel->first)
		set_readable(channel, true);
	event->next = NULL;
	*channel->last = event;
	channel->last = &event->next;
}

static struct vrdma_cm_event *remove_at(struct vrdma_cm_channel *channel,
					struct vrdma_cm_event **at)
{
	struct vrdma_cm_event *event = *at;

	*at = event->next;
	if (channel->last == &event->next)
		channel->last = at;
	if (!channel->first)
		set_readable(channel, false);
	if (event->request)
		event->id->waiting--;
	return event;
}

struct vrdma_cm_event *vrdma_cm_event_add(struct vrdma_cm_id *id, enum vrdma_cm_event_type type,
					  int status)
{
	struct vrdma_cm_event *event = id->uid ? calloc(1, sizeof(*event)) : NULL;

	if (!event)
		return NULL;
	event->id = id;
	event->resp.uid = id->uid;
	event->resp.id = id->handle;
	event->resp.event = type;
	event->resp.status = (uint32_t)status;
	append(id->channel, event);
	return event;
}

struct vrdma_cm_event *vrdma_cm_event_take(struct vrdma_cm_channel *channel)
{
	struct vrdma_cm_event *event = channel->first;

	if (!event)
		return NULL;
	event->id->events_reported++;
	if (event->group)
		event->group->events_reported++;
	return remove_at(channel, &channel->first);
}

struct vrdma_cm_event *vrdma_cm_event_strike_out(struct vrdma_cm_id *id,
						 const struct vrdma_cm_group *group)
{
	struct vrdma_cm_event **at = &id->channel->first;

	while (*at && ((*at)->id != id || (group && (*at)->group != group)))
		at = &(*at)->next;
	return *at ? remove_at(id->channel, at) : NULL;
}

/* Moves the id with its events, which stay in order. */
void vrdma_cm_id_move(struct vrdma_cm_id *id, struct vrdma_cm_channel *channel)
{
	struct vrdma_cm_event **at = &id->channel->first;

	while (id->channel != channel && *at) {
		struct vrdma_cm_event *event = *at;

		if (event->id != id) {
			at = &event->next;
			continue;
		}
		remove_at(id->channel, at);
		id->waiting += event->request != NULL;
		if (event->request)
			event->request->channel = channel;
		append(channel, event);
	}
	id->channel = channel;
}

/* For a child of fork(): all ids and channels stay the parent's. */
void vrdma_cm_table_forget(void)
{
	for (uint32_t i = 0; i < VRDMA_CM_MAX_IDS; i++)
		ids[i] = NULL;
	channels = NULL;
}
