/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The arena is a sparse memfd of the size of the address space. Each page lies in it at the offset
 * that equals its address. There is one more memfd for each size of huge pages that has been
 * shared. The kernel knows which pages are in them; see share.h.
 *
 * Callers hold the lock, except where a comment says otherwise. private.c looks up, reads and
 * punches pages of the first file without it.
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
#define ARENA_SIZE ((uintptr_t)1 << 48) /* the kernel maps nothing higher unless asked to */

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
	int cancel_state;                                 /* of the thread that holds it */
	unsigned int count;                               /* of files; 0: no arena yet */
	int pagemap;                                      /* /proc/self/pagemap */
	struct vrdma_maps maps;                           /* for one pass at a time */
	struct vrdma_arena_file files[VRDMA_ARENA_FILES]; /* the first: of small pages */
};

extern struct vrdma_arena vrdma_arena;

/* Also disables the cancellation of this thread. */
void vrdma_arena_lock(void);
void vrdma_arena_unlock(void);

/* Creates the arena if there is none. Returns 0 or an errno. */
int vrdma_arena_open(void);

/* For the child of a fork(), which closes its parent's arena. */
void vrdma_arena_close(void);

/* Called last in the child of a fork(): memory that it shares from now on is its own. */
void vrdma_arena_forked(void);

/*
 * True in a child that was made without fork(). Pages of the arena are its parent's there: to free
 * or replace them would take them from the parent. Takes no lock.
 */
bool vrdma_arena_is_parents(void);

/* The arena's file that the mapping shows. NULL if it shows none. */
const struct vrdma_arena_file *vrdma_arena_file_of(const struct vrdma_mapping *mapping);

/* Whether a mapping shows the arena at the offset that equals its address. mremap() can end it. */
bool vrdma_is_at_home(const struct vrdma_mapping *mapping);

/*
 * The file that a mapping belongs in, by the size of its pages. Creates the file if there is none.
 * NULL if there cannot be one.
 */
const struct vrdma_arena_file *vrdma_arena_home(const struct vrdma_mapping *mapping);

/* Whether the range may hold pages. */
bool vrdma_arena_has_data(const struct vrdma_arena_file *file, struct vrdma_range within);

/*
 * The first part of the range that may hold pages. False if there is none. To find its end takes a
 * time that grows with the pages that follow, also beyond the range.
 */
bool vrdma_arena_data(const struct vrdma_arena_file *file, struct vrdma_range within,
		      struct vrdma_range *data);

/* False if the range cannot be read. */
bool vrdma_arena_read(const struct vrdma_arena_file *file, struct vrdma_range range, char *to);

/* Frees the pages. Returns 0 or an errno. */
int vrdma_arena_punch(const struct vrdma_arena_file *file, struct vrdma_range range);

#endif /* VRDMA_DIRECT_ARENA_H */
