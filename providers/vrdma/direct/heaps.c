/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "heaps.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arena.h"
#include "faults.h"

/*
 * A heap of glibc is aligned to its maximum size: 64 MiB, or 8 MiB if malloc() is tuned to use huge
 * pages. Its first word points behind its header, which has few words.
 */
#define HEAP_ALIGNMENT ((uintptr_t)8 << 20)
#define HEAP_HEADER ((uintptr_t)64)

/* glibc makes at most eight per processor. */
#define MAX_HEAPS 4096

static struct {
	const struct vrdma_arena_file *file;
	uintptr_t page; /* its first page */
} heaps[MAX_HEAPS];
static unsigned int count;
static sigset_t blocked; /* by the thread that forks */

static bool is_heap(const struct vrdma_arena_file *file, uintptr_t page)
{
	uintptr_t first;

	/* Not by a load, which would fill a hole. */
	return pread(file->fd, &first, sizeof(first), (off_t)page) == sizeof(first) &&
	       first > page && first <= page + HEAP_HEADER;
}

static void find_heaps(void)
{
	const struct vrdma_arena_file *file;
	struct vrdma_mapping m = {.end = 0};
	uintptr_t page;

	vrdma_maps_rewind(&vrdma_arena.maps);
	while (vrdma_maps_find(&vrdma_arena.maps, m.end, &m)) {
		file = vrdma_arena_file_of(&m);
		if (!file || !vrdma_is_at_home(&m))
			continue;
		page = (m.start + HEAP_ALIGNMENT - 1) / HEAP_ALIGNMENT * HEAP_ALIGNMENT;
		for (; page < m.end && count < MAX_HEAPS; page += HEAP_ALIGNMENT)
			if (is_heap(file, page)) {
				heaps[count].file = file;
				heaps[count++].page = page;
			}
	}
}

static void advise(int advice)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		madvise((void *)heaps[i].page, heaps[i].file->page, advice);
}

void vrdma_heaps_hide(void)
{
	sigset_t fault;

	sigemptyset(&fault);
	sigaddset(&fault, SIGSEGV);
	pthread_sigmask(SIG_UNBLOCK, &fault, &blocked);
	if (vrdma_catch_faults() == 0)
		find_heaps();
	advise(MADV_DONTFORK);
}

void vrdma_heaps_show(void)
{
	advise(MADV_DOFORK);
	count = 0;
	pthread_sigmask(SIG_SETMASK, &blocked, NULL);
}

/* Maps all pages at once, so that nothing else gets mapped in their places. */
static bool map_heaps(void)
{
	for (; count; count--) {
		const struct vrdma_arena_file *const file = heaps[count - 1].file;
		const uintptr_t start = heaps[count - 1].page;
		char *const to = mmap((void *)start, file->page, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (to != (char *)start ||
		    !vrdma_arena_read(file, (struct vrdma_range){start, start + file->page}, to))
			return false;
	}
	return true;
}

bool vrdma_heaps_take_back(void)
{
	pthread_sigmask(SIG_SETMASK, &blocked, NULL);
	return map_heaps();
}

bool vrdma_heaps_resolve(const siginfo_t *info)
{
	const uintptr_t address = (uintptr_t)info->si_addr;
	unsigned int i;

	/* In the parent, the pages are mapped. */
	for (i = 0; info->si_code == SEGV_MAPERR && i < count; i++)
		if (address - heaps[i].page < heaps[i].file->page)
			return map_heaps();
	return false;
}
