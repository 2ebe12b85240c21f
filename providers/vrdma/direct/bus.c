/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#define _GNU_SOURCE
#include "bus.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

void vrdma_bus_disconnect(struct vrdma_bus *bus)
{
	const int nobody = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	const void *const page = mmap(bus->doorbells, bus->doorbells_size, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	/* A child with these would post to its parent's device. */
	if (nobody < 0 || dup3(nobody, bus->kick_fd, O_CLOEXEC) < 0 || page == MAP_FAILED)
		abort();
	close(nobody);
}
