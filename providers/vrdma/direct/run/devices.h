/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The devices that a program was given: VRDMA_RUN_DEVICES is PATH[,ADDRESS...][;PATH...]. */
#ifndef VRDMA_RUN_DEVICES_H
#define VRDMA_RUN_DEVICES_H

#include "../vrdmadv.h"

#define VRDMA_RUN_MAX_DEVICES 64

/*
 * Returns the number of devices. attr points into *text, which the caller frees. On failure,
 * returns -1 and sets errno.
 */
int vrdma_run_get_devices(char **text, struct vrdmadv_device_attr *attr);

/* The name that libvrdmadv gives to a device of the list. */
void vrdma_run_get_name(int index, char name[IBV_SYSFS_NAME_MAX]);

#endif /* VRDMA_RUN_DEVICES_H */
