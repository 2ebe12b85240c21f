/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * These functions give memory in the arena the behaviour that programs, and above all allocators,
 * expect of private memory: madvise() makes it zero, and mremap() makes it longer by new memory.
 *
 * An allocator calls them while it holds its own locks. So they take no lock and allocate nothing.
 * If a registration moves pages at the same time, they may find the pages either moved or not.
 */
#ifndef VRDMA_DIRECT_PRIVATE_H
#define VRDMA_DIRECT_PRIVATE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * As madvise(2). MADV_DONTNEED and MADV_FREE also free the pages for a device that shares them: it
 * sees zeros, as the program does.
 */
int vrdma_private_madvise(void *address, size_t length, int advice);

/*
 * As mremap(2), with two exceptions: writes of other threads meanwhile may be lost, and a device
 * keeps the old pages.
 */
void *vrdma_private_mremap(void *old, size_t old_length, size_t length, int flags, void *address);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_DIRECT_PRIVATE_H */
