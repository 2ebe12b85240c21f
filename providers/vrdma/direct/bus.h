/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How a process reaches a vrdma PCI function: a socket to the process that has it (vfio_user.c), or
 * Linux VFIO (vfio.c).
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
 * Memory of this process at an address of the device's: a range of a file that is mapped here or,
 * on a bus that reaches memory in place, any.
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
	/* A register of BAR0. As with a function that was unplugged, a failure reads as ones. */
	uint32_t (*read)(struct vrdma_bus *bus, uint32_t offset);
	/* Returns when the write has been taken, or has failed. */
	void (*write)(struct vrdma_bus *bus, uint32_t offset, uint32_t value);
	/* Need not wait for that. */
	void (*post)(struct vrdma_bus *bus, uint32_t offset, uint32_t value);

	int (*map)(struct vrdma_bus *bus, const struct vrdma_dma *dma);
	/* From its return on the device does not touch the range. */
	int (*unmap)(struct vrdma_bus *bus, uint64_t iova, uint64_t length);

	/* eventfds[n] is signalled when vector n is raised. */
	int (*set_vectors)(struct vrdma_bus *bus, const int *eventfds, unsigned int count);

	/* Without a word to the device: in a child of fork(). */
	void (*abandon)(struct vrdma_bus *bus);
	void (*close)(struct vrdma_bus *bus);
};

struct vrdma_bus {
	const struct vrdma_bus_ops *ops;
	struct vrdma_doorbell_page *doorbells; /* BAR2, mapped */
	uint64_t doorbells_size;
	int kick_fd;       /* a write wakes the poller: */
	off_t kick_offset; /* at this offset, or to an eventfd where it is negative */
	int hangup_fd;     /* tells by hangup_event that the device is gone, or wanted back */
	short hangup_event;
	bool in_place; /* see in_place.h */
};

/* Connects to the socket at path. Returns NULL and sets errno where that fails. */
struct vrdma_bus *vrdma_vfio_user_open(const char *path);

/* Over a socket that is connected, which the bus then owns. */
struct vrdma_bus *vrdma_vfio_user_attach(int socket);

/* The device at a directory in sysfs, which the process has by VFIO. Fails likewise. */
struct vrdma_bus *vrdma_vfio_open(const char *directory);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_DIRECT_BUS_H */
