/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The files of a kernel's device, of one that has none: /dev/infiniband/NAME is /dev/null, and
 * /sys/class/infiniband/NAME the directory that stands for it while it is open.
 */
#ifndef VRDMA_RUN_FILES_H
#define VRDMA_RUN_FILES_H

void vrdma_run_set_directory(const char *device, const char *directory);

#endif /* VRDMA_RUN_FILES_H */
