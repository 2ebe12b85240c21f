// SPDX-License-Identifier: GPL-2.0-only
/* VFIO itself serves VFIO_DEVICE_GET_REGION_INFO, and asks the driver for the answer's contents. */
#include <linux/vfio.h>

#ifdef VRDMA_NEW
static inline int region_info(struct vfio_device *vdev, struct vfio_region_info *info,
			      struct vfio_info_cap *caps)
{
	return 0;
}

static const struct vfio_device_ops probe __maybe_unused = {
	.get_region_info_caps = region_info,
};
#else
struct probe {
	struct vfio_device_ops;
	int get_region_info_caps;
};
#endif
