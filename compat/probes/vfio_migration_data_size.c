// SPDX-License-Identifier: GPL-2.0-only
/* A VM monitor can ask how much a device's migration will transfer. */
#include <linux/vfio.h>

#ifdef VRDMA_NEW
static int data_size(struct vfio_device *device, unsigned long *length)
{
	*length = 0;
	return 0;
}

static const struct vfio_migration_ops probe __maybe_unused = {
	.migration_get_data_size = data_size,
};
#else
struct probe {
	struct vfio_migration_ops;
	int migration_get_data_size;
};
#endif
