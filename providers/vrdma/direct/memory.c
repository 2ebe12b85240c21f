/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#define _GNU_SOURCE
#include "memory.h"

#include <asm/byteorder.h>
#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "in_place.h"
#include "share.h"

struct vrdma_memory_source {
	int (*share)(void *address, size_t length, bool device_writes, vrdma_share_visit *visit,
		     void *arg);
	void (*unshare)(void *address, size_t length);
	int (*alloc)(size_t length, struct vrdma_piece *piece);
	void (*free)(const struct vrdma_piece *piece);
};

static const struct vrdma_memory_source files = {
	.share = vrdma_share,
	.unshare = vrdma_unshare,
	.alloc = vrdma_shared_alloc,
	.free = vrdma_shared_free,
};

static const struct vrdma_memory_source in_place = {
	.share = vrdma_in_place_share,
	.unshare = vrdma_in_place_unshare,
	.alloc = vrdma_in_place_alloc,
	.free = vrdma_in_place_free,
};

int vrdma_memory_init(struct vrdma_memory *memory, struct vrdma_bus *bus)
{
	memory->bus = bus;
	memory->source = bus->in_place ? &in_place : &files;
	memory->chunks = NULL;
	memory->file = -1;
	pthread_mutex_init(&memory->lock, NULL);
	return vrdma_iova_init(&memory->space, VRDMA_PAGE_SIZE, VRDMA_IOVA_SPACE);
}

void vrdma_memory_destroy(struct vrdma_memory *memory)
{
	while (memory->chunks) {
		struct vrdma_chunk *chunk = memory->chunks;

		memory->chunks = chunk->next;
		memory->bus->ops->unmap(memory->bus, chunk->iova, VRDMA_CHUNK_SIZE);
		free(chunk);
	}
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

static struct vrdma_chunk *find_chunk(const struct vrdma_memory *memory, uint64_t start)
{
	struct vrdma_chunk *chunk = memory->chunks;

	while (chunk && chunk->start != start)
		chunk = chunk->next;
	return chunk;
}

static struct vrdma_chunk *map_chunk(struct vrdma_memory *memory, uint64_t start)
{
	struct vrdma_chunk *chunk = malloc(sizeof(*chunk));
	const struct vrdma_piece piece = {
		.address = (void *)(uintptr_t)start,
		.length = VRDMA_CHUNK_SIZE,
		.fd = memory->file,
		.offset = start,
	};

	if (!chunk)
		return NULL;
	if (vrdma_iova_alloc(&memory->space, VRDMA_CHUNK_SIZE, &chunk->iova))
		goto err_free;
	if (map_piece(memory, &piece, chunk->iova))
		goto err_range;
	chunk->start = start;
	chunk->next = memory->chunks;
	memory->chunks = chunk;
	return chunk;

err_range:
	vrdma_iova_free(&memory->space, chunk->iova, VRDMA_CHUNK_SIZE);
err_free:
	free(chunk);
	return NULL;
}

/* False if the range is not within one chunk, or the chunk cannot be mapped. */
static bool find_in_chunk(struct vrdma_memory *memory, const void *start, uint64_t length,
			  uint64_t *iova)
{
	uint64_t offset = (uintptr_t)start % VRDMA_CHUNK_SIZE;
	uint64_t chunk_start = (uintptr_t)start - offset;
	struct vrdma_chunk *chunk = NULL;

	if (length > VRDMA_CHUNK_SIZE - offset)
		return false;
	pthread_mutex_lock(&memory->lock);
	if (memory->file >= 0) {
		chunk = find_chunk(memory, chunk_start);
		if (!chunk)
			chunk = map_chunk(memory, chunk_start);
	}
	if (chunk)
		*iova = chunk->iova + offset;
	pthread_mutex_unlock(&memory->lock);
	return chunk;
}

static int map_alone(struct vrdma_memory *memory, const struct vrdma_piece *piece, uint64_t *iova)
{
	int ret = take_range(memory, piece->length, iova);

	if (ret)
		return ret;
	ret = map_piece(memory, piece, *iova);
	if (ret)
		give_range(memory, *iova, piece->length);
	return ret;
}

int vrdma_memory_alloc(struct vrdma_memory *memory, struct vrdma_buffer *buffer, uint64_t size)
{
	struct vrdma_piece piece;
	int ret = memory->source->alloc(size, &piece);

	if (ret)
		return ret;
	if (memory->file < 0)
		memory->file =
			piece.fd; /* at the admin queue: no other thread uses the device yet */
	buffer->in_chunk = find_in_chunk(memory, piece.address, piece.length, &buffer->address);
	if (!buffer->in_chunk) {
		ret = map_alone(memory, &piece, &buffer->address);
		if (ret) {
			memory->source->free(&piece);
			return ret;
		}
	}
	buffer->data = piece.address;
	buffer->size = piece.length;
	buffer->fd = piece.fd;
	buffer->offset = piece.offset;
	return 0;
}

void vrdma_memory_free(struct vrdma_memory *memory, struct vrdma_buffer *buffer)
{
	const struct vrdma_piece piece = {
		.address = buffer->data,
		.length = buffer->size,
		.fd = buffer->fd,
		.offset = buffer->offset,
	};

	if (!buffer->in_chunk) {
		memory->bus->ops->unmap(memory->bus, buffer->address, buffer->size);
		give_range(memory, buffer->address, buffer->size);
	}
	memory->source->free(&piece);
}

/* A file is mapped in pages of its own size: larger ones with hugetlbfs. */
struct visit {
	struct vrdma_memory *memory;
	struct vrdma_region *region;
	uint64_t page; /* the largest so far: what start and the bus addresses are rounded to */
};

static uint64_t page_of(int fd)
{
	struct statfs info;

	if (fstatfs(fd, &info) || info.f_type != HUGETLBFS_MAGIC)
		return VRDMA_PAGE_SIZE;
	return (uint64_t)info.f_bsize;
}

static int add_extent(struct vrdma_region *region, uint64_t iova, uint64_t length)
{
	struct vrdma_extent *extents = realloc(region->extents,
					       (region->count + 1) * sizeof(*extents));

	if (!extents)
		return ENOMEM;
	region->extents = extents;
	extents[region->count++] = (struct vrdma_extent){iova, length};
	return 0;
}

/* ERANGE: the range is not rounded to the pages of this piece. */
static int add_piece(const struct vrdma_piece *piece, void *arg)
{
	struct visit *visit = arg;
	struct vrdma_region *region = visit->region;
	uint64_t page = page_of(piece->fd);
	uint64_t before = piece->offset % page;
	struct vrdma_piece whole = {
		.address = (char *)piece->address - before,
		.length = (before + piece->length + page - 1) / page * page,
		.fd = piece->fd,
		.offset = piece->offset - before,
	};
	uint64_t iova = region->iova + (uint64_t)((char *)whole.address - (char *)region->start);
	int ret;

	if (page > visit->page) {
		visit->page = page;
		return ERANGE;
	}
	ret = map_piece(visit->memory, &whole, iova);
	if (ret)
		return ret;
	ret = add_extent(region, iova, whole.length);
	if (ret)
		visit->memory->bus->ops->unmap(visit->memory->bus, iova, whole.length);
	return ret;
}

static void unmap_extents(struct vrdma_memory *memory, struct vrdma_region *region)
{
	for (unsigned int i = 0; i < region->count; i++)
		memory->bus->ops->unmap(memory->bus, region->extents[i].iova,
					region->extents[i].length);
	free(region->extents);
	region->extents = NULL;
	region->count = 0;
	give_range(memory, region->range.iova, region->range.length);
}

/* Takes bus addresses that have the same offset in pages of the given size as the region has. */
static int take_region(struct vrdma_memory *memory, struct vrdma_region *region, uint64_t page)
{
	uint64_t before = (uintptr_t)region->start % page;
	uint64_t first;
	int ret;

	region->range.length = (before + region->length + page - 1) / page * page;
	if (page > VRDMA_PAGE_SIZE)
		region->range.length += page; /* room to round up */
	ret = take_range(memory, region->range.length, &region->range.iova);
	first = (region->range.iova + page - 1) / page * page;
	region->iova = first + before;
	return ret;
}

static int map_region_alone(struct vrdma_memory *memory, struct vrdma_region *region,
			    bool device_writes)
{
	struct visit visit = {.memory = memory, .region = region};
	uint64_t page = VRDMA_PAGE_SIZE;
	int ret;

	/* Each round has larger pages than the one before, and there are few sizes. */
	do {
		visit.page = page;
		ret = take_region(memory, region, page);
		if (ret)
			return ret;
		ret = memory->source->share(region->start, region->length, device_writes, add_piece,
					    &visit);
		if (ret)
			unmap_extents(memory, region);
		page = visit.page;
	} while (ret == ERANGE);
	return ret;
}

/* The program's own shared memory is in other files. */
static int is_in_file(const struct vrdma_piece *piece, void *arg)
{
	const int *file = arg;

	return piece->fd == *file ? 0 : EXDEV;
}

int vrdma_region_map(struct vrdma_memory *memory, struct vrdma_region *region, void *start,
		     size_t length, bool device_writes)
{
	int ret = EXDEV;

	memset(region, 0, sizeof(*region));
	region->start = start;
	region->length = length;
	region->in_chunk = length && find_in_chunk(memory, start, length, &region->iova);
	if (region->in_chunk)
		ret = vrdma_share(start, length, device_writes, is_in_file, &memory->file);
	if (ret != EXDEV)
		return ret;
	region->in_chunk = false;
	return map_region_alone(memory, region, device_writes);
}

void vrdma_region_unmap(struct vrdma_memory *memory, struct vrdma_region *region)
{
	if (!region->in_chunk)
		unmap_extents(memory, region);
	memory->source->unshare(region->start, region->length);
}

struct vrdma_page_list vrdma_region_pages(const struct vrdma_region *region, uint32_t *first_offset)
{
	unsigned int shift = VRDMA_PAGE_SHIFT;
	uint64_t block;

	while (shift < VRDMA_MAX_PAGE_SHIFT && (uint64_t)1 << shift < region->length)
		shift++;
	block = (uint64_t)1 << shift;
	*first_offset = (uint32_t)(region->iova % block);
	return (struct vrdma_page_list){
		.root = __cpu_to_le64(region->iova - *first_offset),
		.count = __cpu_to_le32(
			(uint32_t)((*first_offset + region->length + block - 1) >> shift)),
		.page_shift = (__u8)shift,
	};
}
