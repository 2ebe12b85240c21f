/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * For allocators, which call these functions on memory that a program has registered and freed: see
 * private.h. glibc's own allocator does not call them, but does not rely on their effects either.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <sys/mman.h>

#include "../vrdmadv.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int madvise(void *address, size_t length, int advice)
{
	return vrdmadv_madvise(address, length, advice);
}

EXPORT void *mremap(void *old_address, size_t old_length, size_t length, int flags, ...)
{
	void *new_address = NULL;

	if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) {
		va_list arguments;

		va_start(arguments, flags);
		/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
		new_address = va_arg(arguments, void *);
		va_end(arguments);
	}
	return vrdmadv_mremap(old_address, old_length, length, flags, new_address);
}
