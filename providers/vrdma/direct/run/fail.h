/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How vrdma-run ends after a failure. */
#ifndef VRDMA_RUN_FAIL_H
#define VRDMA_RUN_FAIL_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As shells do for a program that cannot be executed, and for a missing one. */
#define VRDMA_RUN_NOT_EXECUTED 126
#define VRDMA_RUN_NOT_THERE 127

/* Prints `what`, and the error of errno. */
static inline void vrdma_run_complain(const char *what)
{
	fprintf(stderr, "vrdma-run: %s: %s\n", what, strerror(errno));
}

__attribute__((noreturn)) static inline void vrdma_run_fail(const char *what)
{
	vrdma_run_complain(what);
	exit(VRDMA_RUN_NOT_THERE);
}

#endif /* VRDMA_RUN_FAIL_H */
