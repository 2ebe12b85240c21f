/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "share_count.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

/* The counters of 1 GiB of addresses; there when one of these pages has ever been shared. */
#define LEAF_PAGES ((uintptr_t)1 << 18)
#define LEAF_SIZE (LEAF_PAGES * PAGE)
#define LEAVES (ARENA_SIZE / LEAF_SIZE)

static uint32_t *leaves[LEAVES];

static uint32_t **leaf_of(uintptr_t address)
{
	return &leaves[address / LEAF_SIZE];
}

static uint32_t *shares_of(uintptr_t address)
{
	uint32_t *leaf = *leaf_of(address);

	return leaf ? &leaf[address / PAGE % LEAF_PAGES] : NULL;
}

int vrdma_share_count_reserve(struct vrdma_range range)
{
	uintptr_t at;

	for (at = range.start - range.start % LEAF_SIZE; at < range.end; at += LEAF_SIZE) {
		void *leaf;

		if (*leaf_of(at))
			continue;
		leaf = mmap(NULL, LEAF_PAGES * sizeof(uint32_t), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (leaf == MAP_FAILED)
			return errno;
		*leaf_of(at) = leaf;
	}
	return 0;
}

void vrdma_share_count_up(struct vrdma_range range)
{
	uintptr_t at;

	for (at = range.start; at < range.end; at += PAGE)
		++*shares_of(at);
}

uint64_t vrdma_share_count_down(struct vrdma_range range)
{
	uint64_t released = 0;
	uintptr_t at;

	for (at = range.start; at < range.end; at += PAGE) {
		uint32_t *shares = shares_of(at);

		/* 0: what the parent of this process has shared. */
		if (shares && *shares && --*shares == 0)
			released += PAGE;
	}
	return released;
}

bool vrdma_is_shared(uintptr_t address)
{
	const uint32_t *shares = shares_of(address);

	return shares && *shares;
}

uintptr_t vrdma_share_run_end(struct vrdma_range range)
{
	const bool shared = vrdma_is_shared(range.start);
	uintptr_t at = range.start;

	while (at < range.end && vrdma_is_shared(at) == shared)
		at += *leaf_of(at) ? PAGE : LEAF_SIZE - at % LEAF_SIZE;
	return at < range.end ? at : range.end;
}

void vrdma_share_count_free(void)
{
	uintptr_t i;

	for (i = 0; i < LEAVES; i++) {
		if (leaves[i])
			munmap(leaves[i], LEAF_PAGES * sizeof(uint32_t));
		leaves[i] = NULL;
	}
}
