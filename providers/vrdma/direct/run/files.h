/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The files that a kernel's device has, for devices without a kernel driver. /dev/infiniband/NAME
 * is /dev/null. While the device is open, /sys/class/infiniband/NAME is the directory in the place
 * of sysfs. Its network interfaces are in network.h. /dev/infiniband/rdma_cm, the kernel's
 * connection manager, is replaced as well.
 */
#ifndef VRDMA_RUN_FILES_H
#define VRDMA_RUN_FILES_H

#define VRDMA_RUN_SYSFS_DEVICES "/sys/class/infiniband/"

void vrdma_run_set_directory(const char *device, const char *directory);
/* Returns the path to use: path itself, or another one, maybe in buffer (PATH_MAX bytes). */
const char *vrdma_run_translate(const char *path, char *buffer);
/* For the devices that the program was given. On failure, returns -1 and sets errno. */
int vrdma_run_open_cm(void);

#endif /* VRDMA_RUN_FILES_H */
