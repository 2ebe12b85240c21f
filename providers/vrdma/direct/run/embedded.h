/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Devices that nobody has to set up. They belong to a vrdmad that runs for one program, and for
 * programs that it starts, as the same user. They have loopback addresses.
 */
#ifndef VRDMA_RUN_EMBEDDED_H
#define VRDMA_RUN_EMBEDDED_H

#ifdef __cplusplus
extern "C" {
#endif

#define VRDMA_RUN_MAX_EMBEDDED 8 /* devices */

/*
 * Starts the program vrdmad with `count` devices, and returns them in the format of
 * VRDMA_RUN_DEVICES. vrdmad lives as long as the calling process, whatever that executes. On
 * failure, ends the process.
 */
char *vrdma_run_embed(const char *vrdmad, unsigned int count);

/* The configuration and the devices of a vrdmad whose files are in the directory. */
char *vrdma_run_embedded_config(const char *directory, unsigned int count);
char *vrdma_run_embedded_devices(const char *directory, unsigned int count);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_RUN_EMBEDDED_H */
