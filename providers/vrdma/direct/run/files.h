/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The files of a kernel's device, of one that has none: /dev/infiniband/NAME is /dev/null, and
 * /sys/class/infiniband/NAME the directory that stands for it while it is open; its part of the
 * network is in network.h. And that of the kernel's connection manager, /dev/infiniband/rdma_cm.
 */
#ifndef VRDMA_RUN_FILES_H
#define VRDMA_RUN_FILES_H

#define VRDMA_RUN_SYSFS_DEVICES "/sys/class/infiniband/"

void vrdma_run_set_directory(const char *device, const char *directory);
/* The file that is meant: path itself, or another one, which may be in buffer (PATH_MAX bytes). */
const char *vrdma_run_translate(const char *path, char *buffer);
/* Of the devices that the program was given; -1 and errno. */
int vrdma_run_open_cm(void);

#endif /* VRDMA_RUN_FILES_H */
