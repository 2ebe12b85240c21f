/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Events on their way to the program. libibverbs reads them from a socket, which takes the place of
 * the kernel's file descriptor. The events of a direct channel wait here until they are taken by a
 * call.
 *
 * An object has at most one unread event of each type: further ones add nothing until the program
 * has read it. Events wait here while the socket is full, so none is lost. Memory does not grow
 * beyond the number of objects. Writers never block.
 *
 * The caller serializes all calls.
 */
#ifndef VRDMA_DIRECT_CHANNEL_H
#define VRDMA_DIRECT_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VRDMA_CHANNEL_DEPTH 64 /* events in the socket */

struct vrdma_event_source;

struct vrdma_event_channel {
	struct vrdma_event_channel *next; /* for the owner of several */
	int read_fd;                      /* the program's, which closes it */
	int write_fd;                     /* -1: the channel is direct */
	size_t event_size; /* of what libibverbs reads: the first bytes of struct vrdma_event */
	unsigned int in_flight;
	struct vrdma_event_source *first, **last; /* sources with waiting events */
};

/* As struct ib_uverbs_async_event_desc, which begins like ib_uverbs_comp_event_desc. */
struct vrdma_event {
	uint64_t element;
	uint32_t type;
	uint32_t reserved;
};

/* An object, as the program knows it. Masks have a bit for each type of event, below 32. */
struct vrdma_event_source {
	struct vrdma_event_channel *channel; /* or NULL: nobody listens */
	struct vrdma_event_source *next;
	uint64_t element;
	uint32_t waiting;
	uint32_t in_flight;
	uint32_t reported; /* events that the program has read */
};

/* Returns 0 or an errno. */
int vrdma_channel_init(struct vrdma_event_channel *channel, size_t event_size);
void vrdma_channel_init_direct(struct vrdma_event_channel *channel);
/* Whether the program has closed its side. Not known of a direct channel. */
bool vrdma_channel_is_closed(const struct vrdma_event_channel *channel);
/* Does not close the program's side. */
void vrdma_channel_destroy(struct vrdma_event_channel *channel);

void vrdma_event_source_init(struct vrdma_event_source *source, struct vrdma_event_channel *channel,
			     void *element);
void vrdma_event_post(struct vrdma_event_source *source, unsigned int type);
/* Takes the next event of a direct channel. False if there is none. */
bool vrdma_event_take(struct vrdma_event_channel *channel, struct vrdma_event *event);
/* The program has read an event from the socket. */
void vrdma_event_taken(struct vrdma_event_source *source, unsigned int type);
/* Takes back unread events. Returns how many events the program has to acknowledge in all. */
uint32_t vrdma_event_retire(struct vrdma_event_source *source);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_DIRECT_CHANNEL_H */
