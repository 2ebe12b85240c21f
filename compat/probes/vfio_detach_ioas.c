// SPDX-License-Identifier: GPL-2.0-only
/* A VFIO device that is used through iommufd can be detached. */
#include <linux/vfio.h>

#ifdef VRDMA_NEW
static const struct vfio_device_ops probe __maybe_unused = {
	.detach_ioas = vfio_iommufd_emulated_detach_ioas,
};
#else
struct probe {
	struct vfio_device_ops;
	int detach_ioas;
};
#endif
