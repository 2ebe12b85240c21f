/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "reclaim.h"

#include <errno.h>

#include "share_count.h"

/* After the last shares of so many bytes have ended, the arena is searched for unmapped pages. */
#define SWEEP_AFTER ((uint64_t)64 << 20)

/* Whether a mapping that mremap() has moved still shows these pages. Makes a pass of its own. */
static bool is_shown_elsewhere(const struct vrdma_arena_file *file, struct vrdma_range range)
{
	struct vrdma_mapping m = {.end = 0};
	struct vrdma_maps maps;
	bool shown = false;

	if (vrdma_maps_open(&maps))
		return true;
	while (!shown && vrdma_maps_find(&maps, m.end, &m))
		shown = vrdma_arena_file_of(&m) == file && !vrdma_is_at_home(&m) &&
			vrdma_range_overlaps(range, m.offset, m.offset + (m.end - m.start));
	vrdma_maps_close(&maps);
	return shown;
}

/* A huge page that is shared in part is not freed. */
static void free_whole_pages(const struct vrdma_arena_file *file, struct vrdma_range range)
{
	range.start = (range.start + file->page - 1) / file->page * file->page;
	range.end = range.end / file->page * file->page;
	if (range.start < range.end)
		vrdma_arena_punch(file, range);
}

/*
 * Mappings that mremap() has moved away from home. Most programs have none. If that is known, there
 * is no pass over all mappings for each range.
 */
struct strays {
	bool known, exist;
};

static bool has_strays(struct strays *strays, const struct vrdma_arena_file *file,
		       struct vrdma_range range)
{
	if (!strays->known)
		strays->exist = is_shown_elsewhere(file, (struct vrdma_range){0, ARENA_SIZE});
	strays->known = true;
	return strays->exist && is_shown_elsewhere(file, range);
}

/* The range is not mapped at home. */
static void reclaim_unmapped(const struct vrdma_arena_file *file, struct vrdma_range range,
			     struct strays *strays)
{
	struct vrdma_range data, run;

	for (; vrdma_arena_data(file, range, &data); range.start = data.end) {
		if (has_strays(strays, file, data))
			continue;
		for (run.start = data.start; run.start < data.end; run.start = run.end) {
			run.end = vrdma_share_run_end((struct vrdma_range){run.start, data.end});
			if (!vrdma_is_shared(run.start))
				free_whole_pages(file, run);
		}
	}
}

/* The next mapping in the range that shows the file at home. */
static bool next_home(const struct vrdma_arena_file *file, struct vrdma_range range,
		      struct vrdma_mapping *m)
{
	for (; vrdma_maps_find(&vrdma_arena.maps, range.start, m) && m->start < range.end;
	     range.start = m->end)
		if (vrdma_arena_file_of(m) == file && vrdma_is_at_home(m))
			return true;
	return false;
}

static void reclaim_file(const struct vrdma_arena_file *file, struct vrdma_range range)
{
	struct strays strays = {.known = false};
	struct vrdma_mapping m;

	range = vrdma_range_outward(range, file->page);
	vrdma_maps_rewind(&vrdma_arena.maps);
	while (range.start < range.end) {
		const bool found = next_home(file, range, &m);
		struct vrdma_range unmapped = {range.start, found ? m.start : range.end};

		if (unmapped.start < unmapped.end)
			reclaim_unmapped(file, unmapped, &strays);
		range.start = found ? m.end : range.end;
	}
}

void vrdma_reclaim(struct vrdma_range range)
{
	unsigned int i;

	for (i = 0; i < vrdma_arena.count; i++)
		reclaim_file(&vrdma_arena.files[i], range);
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

int vrdma_vacate(const struct vrdma_arena_file *file, struct vrdma_range range)
{
	if (!vrdma_arena_has_data(file, range))
		return 0;
	return is_shown_elsewhere(file, range) ? EBUSY : vrdma_arena_punch(file, range);
}
