/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A process that keeps a vrdmad for a program. It starts vrdmad, ends it when the program has ended
 * in any way, and removes its files.
 */
#ifndef VRDMA_RUN_KEEPER_H
#define VRDMA_RUN_KEEPER_H

#ifdef __cplusplus
extern "C" {
#endif

struct vrdma_run_keeper {
	const char *vrdmad;
	const char *directory; /* of vrdmad, with its configuration */
	int program;           /* a pidfd */
	int started;           /* gets a byte when vrdmad serves, and is closed in any case */
	int start_ms;          /* timeout for vrdmad to serve */
	int end_ms;            /* timeout for vrdmad to end after SIGTERM */
};

char *vrdma_run_config_path(const char *directory);
/* Turns the calling process into that process. */
__attribute__((noreturn)) void vrdma_run_keep(const struct vrdma_run_keeper *keeper);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_RUN_KEEPER_H */
