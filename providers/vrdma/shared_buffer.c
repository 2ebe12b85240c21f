/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "shared_buffer.h"

#include <errno.h>
#include <sys/mman.h>
#include <vrdma/device.h>

#include "rdma_core.h"

int vrdma_buffer_init(struct vrdma_buffer *buffer, uint64_t size)
{
	buffer->size = (size + VRDMA_PAGE_SIZE - 1) & ~(uint64_t)(VRDMA_PAGE_SIZE - 1);
	buffer->data = mmap(NULL, buffer->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	if (buffer->data == MAP_FAILED)
		return errno;
	if (ibv_dontfork_range(buffer->data, buffer->size)) {
		int error = errno;

		munmap(buffer->data, buffer->size);
		return error;
	}
	buffer->address = (uintptr_t)buffer->data;
	return 0;
}

void vrdma_buffer_destroy(struct vrdma_buffer *buffer)
{
	ibv_dofork_range(buffer->data, buffer->size);
	munmap(buffer->data, buffer->size);
}
