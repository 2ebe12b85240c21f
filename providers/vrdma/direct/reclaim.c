/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "reclaim.h"

#include <errno.h>

#include "share_count.h"

/* Bytes whose last share ended until the arena is searched for what is mapped no more. */
#define SWEEP_AFTER ((uint64_t)64 << 20)

/* Does a mapping that mremap() has moved still show these pages? In a pass of its own. */
static bool is_shown_elsewhere(struct vrdma_range range)
{
	struct vrdma_mapping m = {.end = 0};
	struct vrdma_maps maps;
	bool shown = false;

	if (vrdma_maps_open(&maps))
		return true;
	while (!shown && vrdma_maps_find(&maps, m.end, &m))
		shown = vrdma_is_in_arena(&m) && !vrdma_is_at_home(&m) &&
			vrdma_range_overlaps(range, m.offset, m.offset + (m.end - m.start));
	vrdma_maps_close(&maps);
	return shown;
}

/* Of a range that is not mapped at home. */
static void reclaim_unmapped(struct vrdma_range range)
{
	struct vrdma_range data, run;

	for (; vrdma_arena_data(range, &data); range.start = data.end) {
		if (is_shown_elsewhere(data))
			continue;
		for (run.start = data.start; run.start < data.end; run.start = run.end) {
			const bool shared = vrdma_is_shared(run.start);

			run.end = run.start + PAGE;
			while (run.end < data.end && vrdma_is_shared(run.end) == shared)
				run.end += PAGE;
			if (!shared)
				vrdma_arena_punch(run);
		}
	}
}

void vrdma_reclaim(struct vrdma_range range)
{
	struct vrdma_mapping m;

	vrdma_maps_rewind(&vrdma_arena.maps);
	while (range.start < range.end) {
		const bool found = vrdma_maps_find(&vrdma_arena.maps, range.start, &m);
		struct vrdma_range unmapped = range;

		if (found && m.start < unmapped.end)
			unmapped.end = vrdma_is_at_home(&m) ? m.start : m.end;
		if (unmapped.end > range.end)
			unmapped.end = range.end;
		if (unmapped.start < unmapped.end)
			reclaim_unmapped(unmapped);
		range.start = found && m.end < range.end ? m.end : range.end;
	}
}

void vrdma_release(struct vrdma_range range)
{
	static uint64_t released; /* bytes since the last sweep */

	released += vrdma_share_count_down(range);
	if (released >= SWEEP_AFTER) {
		released = 0;
		range = (struct vrdma_range){0, ARENA_SIZE};
	}
	vrdma_reclaim(range);
}

int vrdma_vacate(struct vrdma_range range)
{
	struct vrdma_range data;

	if (!vrdma_arena_data(range, &data))
		return 0;
	return is_shown_elsewhere(range) ? EBUSY : vrdma_arena_punch(range);
}
