/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The arena: a sparse memfd of the size of the address space, in which each page lies at the offset
 * that is its address; and one more for each size of huge pages that has been shared. What is in
 * them the kernel knows; see share.h.
 *
 * All but the lock is for who holds it.
 */
#ifndef VRDMA_DIRECT_ARENA_H
#define VRDMA_DIRECT_ARENA_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <vrdma/device.h>

#include "maps.h"

#define PAGE ((uintptr_t)VRDMA_PAGE_SIZE)
#define ARENA_SIZE ((uintptr_t)1 << 48) /* no user address is higher without being asked for */

/* Addresses, in whole pages. */
struct vrdma_range {
	uintptr_t start, end;
};

static inline bool vrdma_range_overlaps(struct vrdma_range range, uintptr_t start, uintptr_t end)
{
	return start < range.end && end > range.start;
}

static inline struct vrdma_range vrdma_range_outward(struct vrdma_range range, uintptr_t page)
{
	return (struct vrdma_range){range.start / page * page,
				    (range.end + page - 1) / page * page};
}

struct vrdma_arena_file {
	int fd;
	dev_t device;
	ino_t inode;
	uintptr_t page; /* its pages' size */
};

#define VRDMA_ARENA_FILES 4

struct vrdma_arena {
	pthread_mutex_t mutex;
	int cancel_state;                                 /* of who holds it */
	unsigned int count;                               /* of files; 0: no arena yet */
	int pagemap;                                      /* /proc/self/pagemap */
	struct vrdma_maps maps;                           /* for a pass at a time */
	struct vrdma_arena_file files[VRDMA_ARENA_FILES]; /* the first: of small pages */
};

extern struct vrdma_arena vrdma_arena;

/* Holds off the cancellation of this thread as well. */
void vrdma_arena_lock(void);
void vrdma_arena_unlock(void);

/* The first time creates it. Returns 0 or an errno. */
int vrdma_arena_open(void);

/* In the child of a fork(), whose arena is its parent's. */
void vrdma_arena_close(void);

/* There, in the end: what it shares from now on is its own. */
void vrdma_arena_forked(void);

/*
 * In a child that was made without fork(): pages of the arena are its parent's, and whoever frees
 * or replaces them takes them from the parent. Takes no lock.
 */
bool vrdma_arena_is_parents(void);

/* The file that the mapping shows; NULL: none of the arena. */
const struct vrdma_arena_file *vrdma_arena_file_of(const struct vrdma_mapping *mapping);

/* At the offset that is its address: elsewhere only what mremap() has moved. */
bool vrdma_is_at_home(const struct vrdma_mapping *mapping);

/*
 * The file that a mapping belongs in, by the size of its pages. The first time creates it. NULL
 * where there cannot be one.
 */
const struct vrdma_arena_file *vrdma_arena_home(const struct vrdma_mapping *mapping);

/* The first of the range that may hold pages. */
bool vrdma_arena_data(const struct vrdma_arena_file *file, struct vrdma_range within,
		      struct vrdma_range *data);

/* False where it cannot be read. */
bool vrdma_arena_read(const struct vrdma_arena_file *file, struct vrdma_range range, char *to);

/* Frees the pages. Returns 0 or an errno. */
int vrdma_arena_punch(const struct vrdma_arena_file *file, struct vrdma_range range);

#endif /* VRDMA_DIRECT_ARENA_H */
