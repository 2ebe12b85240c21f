/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * This provider would corrupt the process if it were loaded into a libibverbs other than the one
 * whose private structures rdma_core.h describes. Symbol versions do not prevent that: libibverbs
 * kept "34" while its structures changed. This guard therefore compares the library's file name,
 * which contains its full version.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdma_core.h"

bool vrdma_libibverbs_fits(void)
{
	char path[PATH_MAX];
	Dl_info library;
	const char *name;

	/* verbs_set_ops() is the function that reads the table whose layout has to fit. */
	if (!dladdr((void *)verbs_set_ops, &library) || !realpath(library.dli_fname, path)) {
		fprintf(stderr,
			"libvrdma: refusing to load: cannot tell which libibverbs this is\n");
		return false;
	}
	name = strrchr(path, '/') + 1;
	if (strcmp(name, VRDMA_LIBIBVERBS_FILE) != 0) {
		fprintf(stderr, "libvrdma: refusing to load into %s: built for %s\n", path,
			VRDMA_LIBIBVERBS_FILE);
		return false;
	}
	return true;
}

void vrdma_register_guarded(const struct verbs_device_ops *ops)
{
	if (vrdma_libibverbs_fits())
		verbs_register_driver_34(ops);
}
