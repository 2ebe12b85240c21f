/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Loads, stores and the fence on words shared with the device.
 *
 * The device is a thread of the host. These functions therefore order accesses between processors,
 * not between a processor and a bus. All words are little-endian.
 */
#ifndef VRDMA_BARRIER_H
#define VRDMA_BARRIER_H

#include <endian.h>
#include <linux/types.h>
#include <stdint.h>

static inline uint32_t vrdma_load_acquire(const __le32 *word)
{
	return le32toh(__atomic_load_n(word, __ATOMIC_ACQUIRE));
}

static inline uint32_t vrdma_load(const __le32 *word)
{
	return le32toh(__atomic_load_n(word, __ATOMIC_RELAXED));
}

static inline void vrdma_store_release(__le32 *word, uint32_t value)
{
	__atomic_store_n(word, htole32(value), __ATOMIC_RELEASE);
}

/*
 * Orders stores before the fence against loads after it, also if one of them accesses a BAR. On
 * x86, a locked instruction does this (Intel SDM 8.2.3.9) and takes less time than MFENCE. On ARM,
 * the fence needs the full system domain: the inner shareable domain excludes device memory.
 */
static inline void vrdma_full_fence(void)
{
#if defined(__x86_64__)
	__asm__ __volatile__("lock; addl $0, -4(%%rsp)" ::: "memory", "cc");
#elif defined(__aarch64__)
	__asm__ __volatile__("dmb sy" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

#endif /* VRDMA_BARRIER_H */
