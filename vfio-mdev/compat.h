/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between kernels, as compat/probes found them for the target kernel. Only this file
 * depends on the kernel's version.
 */
#ifndef VRDMA_MDEV_COMPAT_H
#define VRDMA_MDEV_COMPAT_H

#include <linux/anon_inodes.h>
#include <linux/eventfd.h>
#include <linux/file.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/uaccess.h>
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

/* In newer kernels iova_bitmap_set() belongs to a namespace of this name. */
#if VRDMA_HAVE_IOVA_BITMAP
#define VRDMA_IMPORT_IOVA_BITMAP MODULE_INFO(import_ns, "IOMMUFD")
#else
#define VRDMA_IMPORT_IOVA_BITMAP
#endif

/*
 * Moves the dirty bits of page table entries to a bitmap, whose first bit is the first page's, and
 * flushes the TLBs. The kernel has this function if any driver needs it, such as vmwgfx.
 */
#if IS_ENABLED(CONFIG_MAPPING_DIRTY_HELPERS)
#define VRDMA_KEEPS_LOGS VRDMA_HAVE_IOVA_BITMAP

static inline void vrdma_take_dirty_bits(struct address_space *mapping, pgoff_t first,
					 pgoff_t count, unsigned long *bitmap)
{
	pgoff_t lowest = count, end = 0;

	clean_record_shared_mapping_range(mapping, first, count, first, bitmap, &lowest, &end);
}
#else
#define VRDMA_KEEPS_LOGS 0

static inline void vrdma_take_dirty_bits(struct address_space *mapping, pgoff_t first,
					 pgoff_t count, unsigned long *bitmap)
{
}
#endif

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
 * Members of struct vfio_device_ops that not all kernels have. A kernel that has iommufd, but is
 * built without it, defines these functions as NULL.
 */
#if VRDMA_HAVE_VFIO_BIND_IOMMUFD
#define VRDMA_VFIO_IOMMUFD_OPS                          \
	.bind_iommufd = vfio_iommufd_emulated_bind,     \
	.unbind_iommufd = vfio_iommufd_emulated_unbind, \
	.attach_ioas = vfio_iommufd_emulated_attach_ioas,
#else
#define VRDMA_VFIO_IOMMUFD_OPS
#endif

/* Whether the VM has opened the device through iommufd, and not through a container of VFIO. */
static inline bool vrdma_uses_iommufd(const struct vfio_device *vdev)
{
#if VRDMA_HAVE_VFIO_BIND_IOMMUFD && IS_ENABLED(CONFIG_IOMMUFD)
	return vdev->iommufd_access;
#else
	return false;
#endif
}

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

int vrdma_migration_data_size(struct vfio_device *vdev, unsigned long *length);

/*
 * A member of struct vfio_migration_ops, likewise. An older core passes on a feature that it does
 * not know. QEMU assumes 100 GiB for a device that does not report a size, and then never finishes
 * the migration.
 */
#if VRDMA_HAVE_VFIO_MIGRATION_DATA_SIZE
#define VRDMA_VFIO_MIGRATION_OPS .migration_get_data_size = vrdma_migration_data_size,
#define VRDMA_VFIO_FEATURE_OPS
#else
#define VRDMA_VFIO_MIGRATION_OPS
#define VRDMA_VFIO_FEATURE_OPS .device_feature = vrdma_vfio_feature,

#define VFIO_DEVICE_FEATURE_MIG_DATA_SIZE 9

struct vfio_device_feature_mig_data_size {
	__aligned_u64 stop_copy_length;
};

static inline int vrdma_vfio_feature(struct vfio_device *vdev, u32 flags, void __user *arg,
				     size_t size)
{
	struct vfio_device_feature_mig_data_size data = {};
	unsigned long length;
	int ret;

	if ((flags & VFIO_DEVICE_FEATURE_MASK) != VFIO_DEVICE_FEATURE_MIG_DATA_SIZE)
		return -ENOTTY;
	ret = vfio_check_feature(flags, size, VFIO_DEVICE_FEATURE_GET, sizeof(data));
	if (ret != 1)
		return ret;
	ret = vrdma_migration_data_size(vdev, &length);
	data.stop_copy_length = length;
	if (!ret && copy_to_user(arg, &data, sizeof(data)))
		ret = -EFAULT;
	return ret;
}
#endif

/*
 * States in which the VM still runs. An older core passes them on, as it does with all states. Only
 * vfio_mig_get_next_state() would refuse them.
 */
#if !VRDMA_HAVE_VFIO_PRE_COPY
#define VFIO_MIGRATION_PRE_COPY BIT(2)
#define VFIO_DEVICE_STATE_PRE_COPY 6
#define VFIO_DEVICE_STATE_PRE_COPY_P2P 7
#define VFIO_MIG_GET_PRECOPY_INFO _IO(VFIO_TYPE, VFIO_BASE + 21)

struct vfio_precopy_info {
	__u32 argsz;
	__u32 flags;
	__aligned_u64 initial_bytes;
	__aligned_u64 dirty_bytes;
};
#endif

#endif /* VRDMA_MDEV_COMPAT_H */
