/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#define _GNU_SOURCE
#include "devices.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Splits text; -1 if it has too many devices. */
static int parse(char *text, struct vrdmadv_device_attr *attr)
{
	int count = 0;
	char *rest = text;
	char *entry;

	while ((entry = strsep(&rest, ";"))) {
		if (count == VRDMA_RUN_MAX_DEVICES)
			return -1;
		attr[count].path = strsep(&entry, ",");
		attr[count].addresses = entry;
		count++;
	}
	return count;
}

int vrdma_run_get_devices(char **text, struct vrdmadv_device_attr *attr)
{
	const char *devices = getenv("VRDMA_RUN_DEVICES");
	int count;

	*text = strdup(devices ? devices : "");
	if (!*text)
		return -1;
	count = **text ? parse(*text, attr) : 0;
	if (count < 0) {
		free(*text);
		errno = EINVAL;
	}
	return count;
}

void vrdma_run_get_name(int index, char name[IBV_SYSFS_NAME_MAX])
{
	snprintf(name, IBV_SYSFS_NAME_MAX, "vrdma%d", index);
}
