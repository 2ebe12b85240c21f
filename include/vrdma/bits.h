/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Masks, types and compile-time checks that all shared formats use.
 *
 * Masks describe the fields of a word. There are no bitfields, because C leaves their layout to the
 * compiler. Only VRDMA_GET and VRDMA_SET read and write a packed word.
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
#define VRDMA_CHECK_OFFSET(type, field, offset) \
	static_assert(offsetof(type, field) == (offset), #type "." #field)

#endif /* VRDMA_BITS_H */
