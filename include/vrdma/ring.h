/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Rings whose entries carry a phase bit. Indexes are free-running counts of entries. A ring's depth
 * is a power of two, so the bit of the index at the depth's value tells odd passes from even ones.
 */
#ifndef VRDMA_RING_H
#define VRDMA_RING_H

#include "bits.h"

/* phase_bit on the first pass over the ring, then 0; it toggles on each pass. */
static inline __u32 vrdma_ring_phase(__u32 index, __u32 depth, __u32 phase_bit)
{
	return index & depth ? 0 : phase_bit;
}

/* Whether the entry that begins with header has been written on the pass to which index belongs. */
static inline int vrdma_ring_valid(__u32 header, __u32 index, __u32 depth, __u32 phase_bit)
{
	return (header & phase_bit) == vrdma_ring_phase(index, depth, phase_bit);
}

static inline __u32 vrdma_ring_slot(__u32 index, __u32 depth)
{
	return index & (depth - 1);
}

#endif /* VRDMA_RING_H */
