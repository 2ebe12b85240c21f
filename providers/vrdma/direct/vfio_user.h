/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A client of the protocol: one connection, and what outlives it. */
#ifndef VRDMA_DIRECT_VFIO_USER_H
#define VRDMA_DIRECT_VFIO_USER_H

#include <pthread.h>
#include <sys/uio.h>
#include <vrdma/vfio_user.h>

#include "given.h"

#define VRDMA_VFIO_USER_MAX_FDS 16
#define VRDMA_VFIO_USER_TIMEOUT_S 10 /* for a reply */

struct vfio_user {
	struct vrdma_bus base;
	char *path;           /* of the socket, or NULL */
	pthread_mutex_t lock; /* all below; the functions of this header are called under it */
	int socket;
	uint16_t next_id;
	bool broken;
	unsigned int max_fds;      /* that the server takes per message */
	unsigned int max_transfer; /* bytes of data, likewise */
	struct vrdma_given given;
};

/* A command, up to two parts of payload, and room for the reply's payload. */
struct vrdma_request {
	enum vfio_user_command command;
	uint32_t flags;
	struct iovec parts[2];
	const int *fds;
	unsigned int num_fds;

	void *reply;
	size_t reply_min;
	size_t reply_max;

	/* Set by vrdma_vfio_user_exchange(). The caller closes the fds. */
	size_t reply_size;
	int reply_fds[VRDMA_VFIO_USER_MAX_FDS];
	unsigned int num_reply_fds;
};

/* All return 0 or a negative errno: the server's, or EIO once the connection has failed. */
int vrdma_vfio_user_exchange(struct vfio_user *user, struct vrdma_request *request);
int vrdma_vfio_user_command(struct vfio_user *user, enum vfio_user_command command,
			    const void *payload, size_t size, const int *fds, unsigned int num_fds);
int vrdma_vfio_user_map(struct vfio_user *user, const struct vrdma_dma *dma);
int vrdma_vfio_user_set_irqs(struct vfio_user *user, unsigned int index, const int *eventfds,
			     unsigned int count);
/* Negotiates, and gets the BARs. If the bus has them, the new ones take their places. */
int vrdma_vfio_user_set_up(struct vfio_user *user);
void vrdma_vfio_user_set_timeout(int socket, unsigned int seconds);
/* Returns a socket that is connected. */
int vrdma_vfio_user_connect(const char *path);

/* restart.c: does nothing if the server never asks for its device back */
int vrdma_vfio_user_accept_requests(struct vfio_user *user);
int vrdma_vfio_user_follow(struct vfio_user *user);

#endif /* VRDMA_DIRECT_VFIO_USER_H */
