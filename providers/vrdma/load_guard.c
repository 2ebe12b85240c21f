/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Loaded into another libibverbs than the one whose private structures rdma_core.h describes, this
 * provider would corrupt the process. Symbol versions do not help: libibverbs kept "34" while its
 * structures changed. So the library's own file name, which has its full version, decides.
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
