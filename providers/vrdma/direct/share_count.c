/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "share_count.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

/* A leaf has the counters of 1 GiB of addresses. It exists once one of these pages was shared. */
#define LEAF_PAGES ((uintptr_t)1 << 18)
#define LEAF_SIZE (LEAF_PAGES * PAGE)
#define LEAVES (ARENA_SIZE / LEAF_SIZE)

#define MOVED ((uint32_t)1 << 31) /* in a counter */

/* The holder of the lock writes the table and its leaves. Other threads may read them. */
static uint32_t **leaves;

static uint32_t *leaf_of(uintptr_t address)
{
	uint32_t **const table = __atomic_load_n(&leaves, __ATOMIC_ACQUIRE);

	return table ? __atomic_load_n(&table[address / LEAF_SIZE], __ATOMIC_ACQUIRE) : NULL;
}

static uint32_t *counter_of(uintptr_t address)
{
	uint32_t *const leaf = leaf_of(address);

	return leaf ? &leaf[address / PAGE % LEAF_PAGES] : NULL;
}

static uint32_t load(const uint32_t *counter)
{
	return counter ? __atomic_load_n(counter, __ATOMIC_RELAXED) : 0;
}

static void store(uint32_t *counter, uint32_t value)
{
	__atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

/* Zeroed; NULL: no memory. Does not use malloc(), because the heap may be moved just now. */
static void *map(size_t size)
{
	void *const memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static bool make_table(void)
{
	if (!leaves)
		__atomic_store_n(&leaves, map(LEAVES * sizeof(*leaves)), __ATOMIC_RELEASE);
	return leaves;
}

int vrdma_share_count_reserve(struct vrdma_range range)
{
	uintptr_t at;

	if (!make_table())
		return ENOMEM;
	for (at = range.start - range.start % LEAF_SIZE; at < range.end; at += LEAF_SIZE) {
		uint32_t *const leaf = leaf_of(at) ? leaf_of(at)
						   : map(LEAF_PAGES * sizeof(uint32_t));

		if (!leaf)
			return ENOMEM;
		__atomic_store_n(&leaves[at / LEAF_SIZE], leaf, __ATOMIC_RELEASE);
	}
	return 0;
}

void vrdma_share_count_up(struct vrdma_range range)
{
	uintptr_t at;

	for (at = range.start; at < range.end; at += PAGE)
		store(counter_of(at), load(counter_of(at)) + 1);
}

uint64_t vrdma_share_count_down(struct vrdma_range range)
{
	uint64_t released = 0;
	uintptr_t at;

	for (at = range.start; at < range.end; at += PAGE) {
		uint32_t *const counter = counter_of(at);

		/* 0: the parent of this process has shared the page. */
		if (!vrdma_is_shared(at))
			continue;
		store(counter, load(counter) - 1);
		released += vrdma_is_shared(at) ? 0 : PAGE;
	}
	return released;
}

bool vrdma_is_shared(uintptr_t address)
{
	return load(counter_of(address)) & ~MOVED;
}

uintptr_t vrdma_share_run_end(struct vrdma_range range)
{
	const bool shared = vrdma_is_shared(range.start);
	uintptr_t at = range.start;

	while (at < range.end && vrdma_is_shared(at) == shared)
		at += leaf_of(at) ? PAGE : LEAF_SIZE - at % LEAF_SIZE;
	return at < range.end ? at : range.end;
}

void vrdma_share_count_set_moved(struct vrdma_range range)
{
	uintptr_t at;

	for (at = range.start; at < range.end; at += PAGE)
		store(counter_of(at), load(counter_of(at)) | MOVED);
}

bool vrdma_moved_run(struct vrdma_range range, struct vrdma_range *run)
{
	uintptr_t at = range.start;

	while (at < range.end && !(load(counter_of(at)) & MOVED))
		at += leaf_of(at) ? PAGE : LEAF_SIZE - at % LEAF_SIZE;
	if (at >= range.end)
		return false;
	run->start = at;
	while (at < range.end && load(counter_of(at)) & MOVED)
		at += PAGE;
	run->end = at;
	return true;
}

void vrdma_share_count_free(void)
{
	uintptr_t i;

	for (i = 0; leaves && i < LEAVES; i++)
		if (leaves[i])
			munmap(leaves[i], LEAF_PAGES * sizeof(uint32_t));
	if (leaves)
		munmap(leaves, LEAVES * sizeof(*leaves));
	leaves = NULL;
}
