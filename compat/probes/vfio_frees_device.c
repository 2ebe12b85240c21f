// SPDX-License-Identifier: GPL-2.0-only
/* VFIO frees a device after its release operation, which has no function to call for that. */
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
