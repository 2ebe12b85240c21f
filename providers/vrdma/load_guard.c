/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * This provider would corrupt the process if it were loaded into a libibverbs whose private
 * structures rdma_core.h does not describe. Symbol versions do not prevent that: libibverbs kept
 * "34" from version 45 to 56 while its structures changed, and "59" until 63. This guard therefore
 * takes the version from the library's file name.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdma_core.h"

/* verbs_register_driver_34(), for example. */
#define REGISTER_DRIVER_(abi) verbs_register_driver_##abi
#define REGISTER_DRIVER(abi) REGISTER_DRIVER_(abi)
void REGISTER_DRIVER(VRDMA_PRIVATE_ABI)(const struct verbs_device_ops *ops);

#ifndef VRDMA_RDMA_CORE_TREE
size_t vrdma_qp_ex_size = sizeof(struct ibv_qp_ex);

static void take_layout(unsigned int major)
{
	vrdma_qp_ex_size = major == 44 ? VRDMA_QP_EX_SIZE_44 : VRDMA_QP_EX_SIZE;
}
#else
static void take_layout(unsigned int major)
{
	(void)major;
}
#endif

/* The version of rdma-core in libibverbs.so.1.14.44.0 is 44. Returns 0 if there is none. */
static unsigned int major_of(const char *name)
{
	static const char prefix[] = "libibverbs.so.1.";
	char *end;

	if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
		return 0;
	strtoul(name + sizeof(prefix) - 1, &end, 10);
	return *end == '.' ? (unsigned int)strtoul(end + 1, NULL, 10) : 0;
}

bool vrdma_libibverbs_fits(void)
{
	char path[PATH_MAX];
	unsigned int major;
	Dl_info library;
	const char *name;

	/* verbs_set_ops() is the function that reads the table whose layout has to fit. */
	if (!dladdr((void *)verbs_set_ops, &library) || !realpath(library.dli_fname, path)) {
		fprintf(stderr,
			"libvrdma: refusing to load: cannot tell which libibverbs this is\n");
		return false;
	}
	name = strrchr(path, '/') + 1;
	major = major_of(name);
	if (major < VRDMA_FIRST_MAJOR || major > VRDMA_LAST_MAJOR) {
		fprintf(stderr,
			"libvrdma: refusing to load into %s: built for rdma-core %u to %u\n", path,
			VRDMA_FIRST_MAJOR, VRDMA_LAST_MAJOR);
		return false;
	}
	take_layout(major);
	return true;
}

void vrdma_register_guarded(const struct verbs_device_ops *ops)
{
	if (vrdma_libibverbs_fits())
		REGISTER_DRIVER(VRDMA_PRIVATE_ABI)(ops);
}
