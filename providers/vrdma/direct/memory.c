/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#define _GNU_SOURCE
#include "memory.h"

#include <asm/byteorder.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "share.h"

#define WINDOW_START VRDMA_PAGE_SIZE
#define WINDOW_END ((uint64_t)1 << 40)

int vrdma_memory_init(struct vrdma_memory *memory, struct vrdma_bus *bus)
{
	memory->bus = bus;
	pthread_mutex_init(&memory->lock, NULL);
	return vrdma_iova_init(&memory->space, WINDOW_START, WINDOW_END);
}

void vrdma_memory_destroy(struct vrdma_memory *memory)
{
	vrdma_iova_destroy(&memory->space);
	pthread_mutex_destroy(&memory->lock);
}

static int take_range(struct vrdma_memory *memory, uint64_t length, uint64_t *iova)
{
	int ret;

	pthread_mutex_lock(&memory->lock);
	ret = vrdma_iova_alloc(&memory->space, length, iova);
	pthread_mutex_unlock(&memory->lock);
	return ret;
}

static void give_range(struct vrdma_memory *memory, uint64_t iova, uint64_t length)
{
	pthread_mutex_lock(&memory->lock);
	vrdma_iova_free(&memory->space, iova, length);
	pthread_mutex_unlock(&memory->lock);
}

static int map_piece(struct vrdma_memory *memory, const struct vrdma_piece *piece, uint64_t iova)
{
	const struct vrdma_dma dma = {
		.iova = iova,
		.length = piece->length,
		.start = piece->address,
		.fd = piece->fd,
		.offset = piece->offset,
	};

	return -memory->bus->ops->map(memory->bus, &dma);
}

int vrdma_memory_alloc(struct vrdma_memory *memory, struct vrdma_buffer *buffer, uint64_t size)
{
	struct vrdma_piece piece;
	int ret = vrdma_shared_alloc(size, &piece);

	if (ret)
		return ret;
	ret = take_range(memory, piece.length, &buffer->address);
	if (ret)
		goto err_free;
	ret = map_piece(memory, &piece, buffer->address);
	if (ret)
		goto err_range;
	buffer->data = piece.address;
	buffer->size = piece.length;
	buffer->fd = piece.fd;
	buffer->offset = piece.offset;
	return 0;

err_range:
	give_range(memory, buffer->address, piece.length);
err_free:
	vrdma_shared_free(&piece);
	return ret;
}

void vrdma_memory_free(struct vrdma_memory *memory, struct vrdma_buffer *buffer)
{
	const struct vrdma_piece piece = {
		.address = buffer->data,
		.length = buffer->size,
		.fd = buffer->fd,
		.offset = buffer->offset,
	};

	memory->bus->ops->unmap(memory->bus, buffer->address, buffer->size);
	give_range(memory, buffer->address, buffer->size);
	vrdma_shared_free(&piece);
}

struct visit {
	struct vrdma_memory *memory;
	struct vrdma_region *region;
	uint64_t iova; /* of the next piece */
};

static int add_piece(const struct vrdma_piece *piece, void *arg)
{
	struct visit *visit = arg;
	struct vrdma_region *region = visit->region;
	uint64_t *lengths = realloc(region->lengths, (region->count + 1) * sizeof(*lengths));
	int ret;

	if (!lengths)
		return ENOMEM;
	region->lengths = lengths;
	ret = map_piece(visit->memory, piece, visit->iova);
	if (ret)
		return ret;
	lengths[region->count++] = piece->length;
	visit->iova += piece->length;
	return 0;
}

static void unmap_pieces(struct vrdma_memory *memory, struct vrdma_region *region)
{
	uint64_t iova = region->iova;

	for (unsigned int i = 0; i < region->count; i++) {
		memory->bus->ops->unmap(memory->bus, iova, region->lengths[i]);
		iova += region->lengths[i];
	}
	free(region->lengths);
}

static uint64_t offset_in_page(const struct vrdma_region *region)
{
	return (uintptr_t)region->start % VRDMA_PAGE_SIZE;
}

int vrdma_region_map(struct vrdma_memory *memory, struct vrdma_region *region, void *start,
		     size_t length, bool device_writes)
{
	struct visit visit = {.memory = memory, .region = region};
	int ret;

	memset(region, 0, sizeof(*region));
	region->start = start;
	region->length = length;
	ret = take_range(memory, offset_in_page(region) + length, &region->iova);
	if (ret)
		return ret;
	visit.iova = region->iova;
	ret = vrdma_share(start, length, device_writes, add_piece, &visit);
	if (ret) {
		unmap_pieces(memory, region);
		give_range(memory, region->iova, offset_in_page(region) + length);
	}
	return ret;
}

void vrdma_region_unmap(struct vrdma_memory *memory, struct vrdma_region *region)
{
	unmap_pieces(memory, region);
	vrdma_unshare(region->start, region->length);
	give_range(memory, region->iova, offset_in_page(region) + region->length);
}

struct vrdma_page_list vrdma_region_pages(const struct vrdma_region *region, uint32_t *first_offset)
{
	uint64_t start = region->iova + offset_in_page(region);
	unsigned int shift = VRDMA_PAGE_SHIFT;
	uint64_t block;

	while (shift < VRDMA_MAX_PAGE_SHIFT && (uint64_t)1 << shift < region->length)
		shift++;
	block = (uint64_t)1 << shift;
	*first_offset = (uint32_t)(start % block);
	return (struct vrdma_page_list){
		.root = __cpu_to_le64(start - *first_offset),
		.count = __cpu_to_le32(
			(uint32_t)((*first_offset + region->length + block - 1) >> shift)),
		.page_shift = (__u8)shift,
	};
}
