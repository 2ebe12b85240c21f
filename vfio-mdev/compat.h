/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What differs between kernels, as compat/probes found out about the one that is built for. Nothing
 * else here asks what kernel that is.
 */
#ifndef VRDMA_MDEV_COMPAT_H
#define VRDMA_MDEV_COMPAT_H

#include <linux/anon_inodes.h>
#include <linux/eventfd.h>
#include <linux/file.h>
#include <linux/kernel.h>
#include <linux/vfio.h>

#include "probed.h"
#include "vma.h"

#if VRDMA_HAVE_LINUX_HEX
#include <linux/hex.h> /* mac_pton() */
#endif

static inline void vrdma_eventfd_signal(struct eventfd_ctx *eventfd)
{
#if VRDMA_HAVE_EVENTFD_SIGNAL
	eventfd_signal(eventfd);
#else
	eventfd_signal(eventfd, 1);
#endif
}

/* The end of a device's release operation. */
static inline void vrdma_vfio_free_device(struct vfio_device *vdev)
{
#if !VRDMA_HAVE_VFIO_FREES_DEVICE
	vfio_free_device(vdev);
#endif
}

/* Returns an fd of a file with an inode of its own. */
static inline int vrdma_anon_inode_getfd(const char *name, const struct file_operations *fops,
					 void *private_data, int flags)
{
#if VRDMA_HAVE_ANON_INODE_CREATE_GETFILE
	struct file *file;
	int fd = get_unused_fd_flags(flags);

	if (fd < 0)
		return fd;
	file = anon_inode_create_getfile(name, fops, private_data, flags, NULL);
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		return PTR_ERR(file);
	}
	fd_install(fd, file);
	return fd;
#else
	return anon_inode_getfd_secure(name, fops, private_data, flags, NULL);
#endif
}

/*
 * Members of struct vfio_device_ops that not all kernels have. A kernel that has iommufd and is
 * built without it defines its functions to be NULL.
 */
#if VRDMA_HAVE_VFIO_BIND_IOMMUFD
#define VRDMA_VFIO_IOMMUFD_OPS					\
	.bind_iommufd = vfio_iommufd_emulated_bind,		\
	.unbind_iommufd = vfio_iommufd_emulated_unbind,		\
	.attach_ioas = vfio_iommufd_emulated_attach_ioas,
#else
#define VRDMA_VFIO_IOMMUFD_OPS
#endif

#if VRDMA_HAVE_VFIO_DETACH_IOAS
#define VRDMA_VFIO_DETACH_OPS .detach_ioas = vfio_iommufd_emulated_detach_ioas,
#else
#define VRDMA_VFIO_DETACH_OPS
#endif

#if VRDMA_HAVE_VFIO_REGION_INFO_CAPS
#define VRDMA_VFIO_REGION_OPS .get_region_info_caps = vrdma_region_info,
#else
#define VRDMA_VFIO_REGION_OPS
#endif

/* A member of struct vfio_migration_ops, likewise. */
#if VRDMA_HAVE_VFIO_MIGRATION_DATA_SIZE
#define VRDMA_VFIO_MIGRATION_OPS .migration_get_data_size = vrdma_migration_data_size,
#else
#define VRDMA_VFIO_MIGRATION_OPS
#endif

#endif /* VRDMA_MDEV_COMPAT_H */
