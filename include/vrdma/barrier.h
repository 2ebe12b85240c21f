/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Loads, stores and the fence on words shared with the device.
 *
 * The device is a thread of the host. These functions therefore order accesses between processors,
 * not between a processor and a bus. All words are little-endian.
 */
#ifndef VRDMA_BARRIER_H
#define VRDMA_BARRIER_H

#ifdef __KERNEL__
#include <asm/barrier.h>
#else
#include <endian.h>
#include <stdint.h>
#endif
#include <asm/byteorder.h>
#include <linux/types.h>

#ifdef __KERNEL__

static inline __u32 vrdma_load_acquire(const __le32 *word)
{
	/* Pairs with a release by the device. */
	return __le32_to_cpu(virt_load_acquire(word));
}

static inline __u32 vrdma_load(const __le32 *word)
{
	return __le32_to_cpu(READ_ONCE(*word));
}

static inline void vrdma_store_release(__le32 *word, __u32 value)
{
	/* Pairs with an acquire by the device. */
	virt_store_release(word, __cpu_to_le32(value));
}

static inline void vrdma_full_fence(void)
{
	mb(); /* pairs with the device's fence between its store and its load (queue.h) */
}

#else

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

#endif /* __KERNEL__ */

#endif /* VRDMA_BARRIER_H */
