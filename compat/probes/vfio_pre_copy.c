// SPDX-License-Identifier: GPL-2.0-only
/* VFIO's migration protocol has states in which the VM still runs. */
#include <linux/types.h>
#include <linux/vfio.h>

#ifdef VRDMA_NEW
static const struct vfio_precopy_info probe __maybe_unused = {
	.flags = VFIO_DEVICE_STATE_PRE_COPY | VFIO_MIGRATION_PRE_COPY,
};
#else
struct vfio_precopy_info {
	int flags;
};
#endif
