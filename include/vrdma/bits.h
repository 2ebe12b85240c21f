/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Masks, types and compile-time checks that all shared formats use.
 *
 * Fields of a word are described by masks, never by bitfields, whose layout C leaves to the
 * compiler. VRDMA_GET and VRDMA_SET are the only way in and out of a packed word.
 */
#ifndef VRDMA_BITS_H
#define VRDMA_BITS_H

#include <linux/types.h>

#ifdef __KERNEL__
#include <linux/build_bug.h>
#include <linux/stddef.h>
#else
#include <assert.h>
#include <stddef.h>
#endif

#define VRDMA_BIT(n) (1u << (n))
#define VRDMA_MASK(high, low) ((0xffffffffu >> (31 - (high))) & (0xffffffffu << (low)))

/* The lowest bit of a mask is the factor between a field's value and its place in the word. */
#define VRDMA_GET(mask, word) (((word) & (mask)) / ((mask) & ~((mask) << 1)))
#define VRDMA_SET(mask, value) (((value) * ((mask) & ~((mask) << 1))) & (mask))

#define VRDMA_CHECK_SIZE(type, size) static_assert(sizeof(type) == (size), #type)
#define VRDMA_CHECK_OFFSET(type, field, offset)                                                    \
	static_assert(offsetof(type, field) == (offset), #type "." #field)

#endif /* VRDMA_BITS_H */
