// SPDX-License-Identifier: GPL-2.0-only
/* VFIO frees a device after its release operation. There is no function for the driver to call. */
#include <linux/vfio.h>

#ifdef VRDMA_NEW
static inline void vfio_free_device(struct vfio_device *vdev)
{
}
#endif

static inline void probe(struct vfio_device *vdev)
{
	vfio_free_device(vdev);
}
