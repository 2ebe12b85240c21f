/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What programs, and above all their allocators, expect of private memory, for what has been moved
 * into the arena: madvise() makes it zero, and where mremap() makes it longer it is new there.
 *
 * An allocator calls these with its own locks held. So they take no lock and allocate nothing; of
 * pages that a registration moves at the same time they may see either.
 */
#ifndef VRDMA_DIRECT_PRIVATE_H
#define VRDMA_DIRECT_PRIVATE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * As madvise(2). MADV_DONTNEED and MADV_FREE free the pages for a device, too, that they are shared
 * with: it sees zeros as the program does.
 */
int vrdma_private_madvise(void *address, size_t length, int advice);

/* As mremap(2), but for what other threads write meanwhile, and that a device keeps the old pages.
 */
void *vrdma_private_mremap(void *old, size_t old_length, size_t length, int flags, void *address);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_DIRECT_PRIVATE_H */
