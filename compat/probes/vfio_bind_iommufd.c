// SPDX-License-Identifier: GPL-2.0-only
/* VFIO devices can be used through iommufd. */
#include <linux/vfio.h>

#ifdef VRDMA_NEW
static const struct vfio_device_ops probe __maybe_unused = {
	.bind_iommufd = vfio_iommufd_emulated_bind,
	.unbind_iommufd = vfio_iommufd_emulated_unbind,
	.attach_ioas = vfio_iommufd_emulated_attach_ioas,
};
#else
struct probe {
	struct vfio_device_ops;
	int bind_iommufd;
};
#endif
