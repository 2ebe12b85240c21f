/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "in_place.h"

#include <errno.h>
#include <sys/mman.h>
#include <vrdma/device.h>

#include "maps.h"

#define PAGE ((uintptr_t)VRDMA_PAGE_SIZE)

static int check_mapping(const struct vrdma_mapping *mapping, bool device_writes)
{
	if (!(mapping->prot & PROT_READ))
		return EFAULT;
	if (mapping->prot & PROT_WRITE)
		return 0;
	return device_writes ? EFAULT : EOPNOTSUPP;
}

static int check_range(uintptr_t start, uintptr_t end, bool device_writes)
{
	struct vrdma_mapping mapping = {.end = start};
	struct vrdma_maps maps;
	int error = vrdma_maps_open(&maps);

	if (error)
		return error;
	for (; !error && start < end; start = mapping.end) {
		if (!vrdma_maps_find(&maps, start, &mapping) || mapping.start > start)
			error = EFAULT;
		else
			error = check_mapping(&mapping, device_writes);
	}
	vrdma_maps_close(&maps);
	return error;
}

int vrdma_in_place_share(void *address, size_t length, bool device_writes, vrdma_share_visit *visit,
			 void *arg)
{
	const uintptr_t start = (uintptr_t)address / PAGE * PAGE;
	const uintptr_t before = (uintptr_t)address - start;
	struct vrdma_piece piece = {.address = (void *)start, .fd = -1, .offset = start};
	int error;

	if (!length || start > UINTPTR_MAX - PAGE ||
	    length > UINTPTR_MAX - PAGE - (uintptr_t)address)
		return EINVAL;
	piece.length = (before + length + PAGE - 1) / PAGE * PAGE;
	error = check_range(start, start + piece.length, device_writes);
	return error ? error : visit(&piece, arg);
}

/* Nothing to do: the caller has unmapped the range from the bus, which releases the pages. */
void vrdma_in_place_unshare(void *address, size_t length)
{
	(void)address;
	(void)length;
}

int vrdma_in_place_alloc(size_t length, struct vrdma_piece *piece)
{
	void *start;

	if (!length || length > UINTPTR_MAX - PAGE)
		return EINVAL;
	length = (length + PAGE - 1) / PAGE * PAGE;
	start = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (start == MAP_FAILED)
		return errno;
	*piece = (struct vrdma_piece){start, length, -1, (uintptr_t)start};
	return 0;
}

void vrdma_in_place_free(const struct vrdma_piece *piece)
{
	munmap(piece->address, piece->length);
}
