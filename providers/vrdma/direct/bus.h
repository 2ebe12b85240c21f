/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How a process reaches a vrdma PCI function: by a socket to the process that serves it
 * (vfio_user.c), or by Linux VFIO (vfio.c).
 */
#ifndef VRDMA_DIRECT_BUS_H
#define VRDMA_DIRECT_BUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <vrdma/queue.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vrdma_bus;

/*
 * Memory of this process that the device sees at `iova`. It is a range of a file that is mapped
 * here. On a bus that reaches memory in place, it may be any memory.
 */
struct vrdma_dma {
	uint64_t iova;
	uint64_t length;
	void *start;
	int fd;
	uint64_t offset;
};

/* Functions that return int return 0 or a negative errno. All may be called by any thread. */
struct vrdma_bus_ops {
	/* Reads a register of BAR0. A failure reads as all ones, as from an unplugged function. */
	uint32_t (*read)(struct vrdma_bus *bus, uint32_t offset);
	/* Returns when the device has taken the write, or the write has failed. */
	void (*write)(struct vrdma_bus *bus, uint32_t offset, uint32_t value);
	/* A write that need not wait for that. */
	void (*post)(struct vrdma_bus *bus, uint32_t offset, uint32_t value);

	int (*map)(struct vrdma_bus *bus, const struct vrdma_dma *dma);
	/* After its return, the device does not access the range. */
	int (*unmap)(struct vrdma_bus *bus, uint64_t iova, uint64_t length);

	/* eventfds[n] is signalled when vector n is raised. */
	int (*set_vectors)(struct vrdma_bus *bus, const int *eventfds, unsigned int count);

	/*
	 * The device's server is about to end. Brings the device to the next one: until that has
	 * it, all other functions wait. The memory, the doorbells and all fds stay where they are.
	 * After an error the device is gone. Not while the process forks.
	 */
	int (*follow)(struct vrdma_bus *bus);

	/* Closes in a child of fork(): tells the device nothing, and keeps the struct. */
	void (*abandon)(struct vrdma_bus *bus);
	void (*close)(struct vrdma_bus *bus);
};

struct vrdma_bus {
	const struct vrdma_bus_ops *ops;
	struct vrdma_doorbell_page *doorbells; /* BAR2, mapped */
	uint64_t doorbells_size;
	int kick_fd;       /* a write to it wakes the poller */
	off_t kick_offset; /* of that write; negative: kick_fd is an eventfd */
	int hangup_fd;     /* hangup_event on it: the device is gone, or its owner wants it back */
	short hangup_event;
	int request_fd; /* readable: call follow(), which reads it; or -1 */
	bool in_place;  /* see in_place.h */
};

/*
 * Replaces the kick's file and the doorbell page, which queue pairs know, by an eventfd and a page
 * that go nowhere. So a child of fork() that posts writes neither to the device nor into a file
 * that it opened since. Call it after a file of the bus was closed, so that there is room for one.
 */
void vrdma_bus_disconnect(struct vrdma_bus *bus);

/* Connects to the socket at path. On failure, returns NULL and sets errno. */
struct vrdma_bus *vrdma_vfio_user_open(const char *path);

/* Likewise, but waits until there is a server, for VFIO_USER_RETURN_MS at most. */
struct vrdma_bus *vrdma_vfio_user_await(const char *path);

/* Whether the path is that of a socket without a server, or of nothing. Keeps errno. */
bool vrdma_vfio_user_is_gone(const char *path);

/* Uses a connected socket, which the bus then owns. Fails likewise, and closes the socket then. */
struct vrdma_bus *vrdma_vfio_user_attach(int socket);

/* Opens the device of a directory in sysfs by Linux VFIO. Fails likewise. */
struct vrdma_bus *vrdma_vfio_open(const char *directory);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_DIRECT_BUS_H */
