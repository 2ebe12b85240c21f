/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "fork.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arena.h"
#include "heaps.h"
#include "share_count.h"

/* A pipe, which the child closes when it has made its copy. */
static int copied[2];

static void before_fork(void)
{
	pthread_mutex_lock(&vrdma_arena.mutex);
	copied[0] = copied[1] = -1;
	if (!vrdma_arena.count)
		return;
	/* Without a pipe the parent does not wait: it may write before the copy is made. */
	if (pipe2(copied, O_CLOEXEC))
		copied[0] = copied[1] = -1;
	vrdma_heaps_hide();
}

static void after_fork_in_parent(void)
{
	ssize_t n;
	char byte;

	if (vrdma_arena.count)
		vrdma_heaps_show();
	if (copied[0] >= 0) {
		close(copied[1]);
		do
			n = read(copied[0], &byte, 1);
		while (n < 0 && errno == EINTR);
		close(copied[0]);
	}
	pthread_mutex_unlock(&vrdma_arena.mutex);
}

/* Makes the mapping anonymous and private again. */
static bool take_back(const struct vrdma_arena_file *file, const struct vrdma_mapping *m)
{
	const size_t length = m->end - m->start;
	struct vrdma_range left = {m->offset, m->offset + length};
	struct vrdma_range data;
	char *copy = mmap(NULL, length, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (copy == MAP_FAILED)
		return false;
	for (; vrdma_arena_data(file, left, &data); left.start = data.end)
		if (!vrdma_arena_read(file, data, copy + (data.start - m->offset)))
			return false;
	return mprotect(copy, length, m->prot) == 0 &&
	       mremap(copy, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)m->start) !=
		       MAP_FAILED;
}

static bool take_mapped_back(struct vrdma_maps *maps)
{
	struct vrdma_mapping m = {.end = 0};
	bool done = true;

	while (done && vrdma_maps_find(maps, m.end, &m)) {
		const struct vrdma_arena_file *file = vrdma_arena_file_of(&m);

		done = !file || take_back(file, &m);
	}
	return done;
}

/*
 * In a chroot() without /proc, the child has only its parent's list of mappings. The list is right
 * while the parent waits, except for what the parent's other threads map and unmap.
 */
static bool take_all_back(void)
{
	struct vrdma_maps maps;
	bool done;

	if (vrdma_maps_open(&maps)) {
		vrdma_maps_rewind(&vrdma_arena.maps);
		return take_mapped_back(&vrdma_arena.maps);
	}
	done = take_mapped_back(&maps);
	vrdma_maps_close(&maps);
	return done;
}

static void after_fork_in_child(void)
{
	if (vrdma_arena.count) {
		/* Without a copy of its own the child would write to its parent's memory. */
		if (!vrdma_heaps_take_back() || !take_all_back())
			abort();
		vrdma_arena_close();
		vrdma_share_count_free();
	}
	vrdma_arena_forked();
	if (copied[0] >= 0) {
		close(copied[0]);
		close(copied[1]);
	}
	pthread_mutex_unlock(&vrdma_arena.mutex);
}

static int handlers_error;

static void handle_forks(void)
{
	handlers_error = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int vrdma_fork_prepare(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, handle_forks);
	return handlers_error;
}
