/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The function by Linux VFIO: a mediated device that was given to this process instead of a VM.
 *
 * The device is named by its directory in sysfs. It is alone in its group. The process maps memory
 * into its container (type 1), which pins a page when the device touches it. A container has at
 * most 65535 mappings (dma_entry_limit of vfio_iommu_type1). A mapping can only be removed as a
 * whole. A register access is a system call.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vrdma/device.h>

#include "bus.h"

struct vfio {
	struct vrdma_bus base;
	int container;
	int group;
	int device;
	uint64_t registers; /* offset of BAR0 in the device's file */
	uint64_t mapped;    /* bytes; atomic */
};

static struct vfio *to_vfio(struct vrdma_bus *bus)
{
	return (struct vfio *)bus;
}

static uint32_t bus_read(struct vrdma_bus *bus, uint32_t offset)
{
	struct vfio *vfio = to_vfio(bus);
	uint32_t value;

	if (pread(vfio->device, &value, sizeof(value), (off_t)(vfio->registers + offset)) !=
	    sizeof(value))
		return UINT32_MAX;
	return value;
}

/* As with a store to a BAR, only a later read shows a failure. */
static void bus_write(struct vrdma_bus *bus, uint32_t offset, uint32_t value)
{
	struct vfio *vfio = to_vfio(bus);
	ssize_t written = pwrite(vfio->device, &value, sizeof(value),
				 (off_t)(vfio->registers + offset));

	(void)written;
}

static bool has_capability(unsigned int capability)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};

	return syscall(SYS_capget, &header, data) == 0 &&
	       data[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability);
}

/*
 * The kernel counts pages when they are pinned, which is in the middle of a work request. So memory
 * that may be pinned is counted here, and a request for too much fails at once.
 */
static bool may_lock(uint64_t bytes)
{
	struct rlimit limit;

	return (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && bytes <= limit.rlim_cur) ||
	       has_capability(CAP_IPC_LOCK);
}

static int bus_map(struct vrdma_bus *bus, const struct vrdma_dma *dma)
{
	struct vfio *vfio = to_vfio(bus);
	struct vfio_iommu_type1_dma_map map = {
		.argsz = sizeof(map),
		.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
		.vaddr = (uintptr_t)dma->start,
		.iova = dma->iova,
		.size = dma->length,
	};
	int err = 0;

	if (!may_lock(__atomic_add_fetch(&vfio->mapped, dma->length, __ATOMIC_RELAXED)))
		err = -ENOMEM;
	else if (ioctl(vfio->container, VFIO_IOMMU_MAP_DMA, &map))
		err = -errno;
	if (err)
		__atomic_sub_fetch(&vfio->mapped, dma->length, __ATOMIC_RELAXED);
	return err;
}

static int bus_unmap(struct vrdma_bus *bus, uint64_t iova, uint64_t length)
{
	struct vfio *vfio = to_vfio(bus);
	struct vfio_iommu_type1_dma_unmap unmap = {
		.argsz = sizeof(unmap),
		.iova = iova,
		.size = length,
	};

	if (ioctl(vfio->container, VFIO_IOMMU_UNMAP_DMA, &unmap))
		return -errno;
	__atomic_sub_fetch(&vfio->mapped, length, __ATOMIC_RELAXED);
	return 0;
}

static int set_irqs(const struct vfio *vfio, unsigned int index, const int *eventfds,
		    unsigned int count)
{
	union {
		struct vfio_irq_set set;
		char bytes[sizeof(struct vfio_irq_set) + VRDMA_MAX_VECTORS * sizeof(int)];
	} irqs = {
		.set =
			{
				.argsz = (__u32)(sizeof(irqs.set) + count * sizeof(int)),
				.flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
				.index = index,
				.count = count,
			},
	};

	memcpy(irqs.bytes + sizeof(irqs.set), eventfds, count * sizeof(int));
	return ioctl(vfio->device, VFIO_DEVICE_SET_IRQS, &irqs) ? -errno : 0;
}

static int bus_set_vectors(struct vrdma_bus *bus, const int *eventfds, unsigned int count)
{
	return set_irqs(to_vfio(bus), VFIO_PCI_MSIX_IRQ_INDEX, eventfds, count);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void close_fds(struct vfio *vfio)
{
	close_fd(&vfio->base.hangup_fd);
	close_fd(&vfio->device);
	close_fd(&vfio->group);
	close_fd(&vfio->container);
}

static void bus_abandon(struct vrdma_bus *bus)
{
	close_fds(to_vfio(bus));
	vrdma_bus_disconnect(bus);
}

static void bus_close(struct vrdma_bus *bus)
{
	if (bus->doorbells)
		munmap(bus->doorbells, bus->doorbells_size);
	close_fd(&bus->kick_fd);
	close_fds(to_vfio(bus));
	free(to_vfio(bus));
}

static const struct vrdma_bus_ops vfio_ops = {
	.read = bus_read,
	.write = bus_write,
	.post = bus_write,
	.map = bus_map,
	.unmap = bus_unmap,
	.set_vectors = bus_set_vectors,
	.abandon = bus_abandon,
	.close = bus_close,
};

/* Resolves symbolic links. The last part of the path is the device's name. */
static int find_directory(const char *directory, char path[PATH_MAX])
{
	return realpath(directory, path) ? 0 : -errno;
}

static const char *last_part(const char *path)
{
	return strrchr(path, '/') + 1;
}

/* The group's number is the last part of the link's target. */
static int open_group(const char *directory)
{
	char link[PATH_MAX + sizeof("/iommu_group")];
	char target[PATH_MAX];
	char path[PATH_MAX + sizeof("/dev/vfio/")];
	int fd;

	snprintf(link, sizeof(link), "%s/iommu_group", directory);
	if (find_directory(link, target))
		return -ENODEV;
	snprintf(path, sizeof(path), "/dev/vfio/%s", last_part(target));
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int attach_group(const struct vfio *vfio)
{
	struct vfio_group_status status = {.argsz = sizeof(status)};

	if (ioctl(vfio->group, VFIO_GROUP_GET_STATUS, &status))
		return -errno;
	if (!(status.flags & VFIO_GROUP_FLAGS_VIABLE))
		return -EBUSY;
	if (ioctl(vfio->group, VFIO_GROUP_SET_CONTAINER, &vfio->container) ||
	    ioctl(vfio->container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU))
		return -errno;
	return 0;
}

static int open_device(struct vfio *vfio, const char *directory)
{
	char path[PATH_MAX];
	int err = find_directory(directory, path);

	if (err)
		return err;
	vfio->group = open_group(path);
	if (vfio->group < 0)
		return vfio->group;
	vfio->container = open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC);
	if (vfio->container < 0)
		return -errno;
	err = attach_group(vfio);
	if (err)
		return err;
	vfio->device = ioctl(vfio->group, VFIO_GROUP_GET_DEVICE_FD, last_part(path));
	return vfio->device < 0 ? -errno : 0;
}

static int find_region(const struct vfio *vfio, unsigned int index, struct vfio_region_info *info)
{
	*info = (struct vfio_region_info){.argsz = sizeof(*info), .index = index};
	if (ioctl(vfio->device, VFIO_DEVICE_GET_REGION_INFO, info))
		return -errno;
	return info->size ? 0 : -ENODEV;
}

static int map_regions(struct vfio *vfio)
{
	struct vfio_region_info info;
	int err = find_region(vfio, VFIO_PCI_BAR0_REGION_INDEX, &info);
	void *pages;

	if (err)
		return err;
	vfio->registers = info.offset;
	vfio->base.kick_offset = (off_t)(info.offset + VRDMA_BAR0_KICK_OFFSET);
	vfio->base.kick_fd = fcntl(vfio->device, F_DUPFD_CLOEXEC, 0);
	if (vfio->base.kick_fd < 0)
		return -errno;
	err = find_region(vfio, VFIO_PCI_BAR2_REGION_INDEX, &info);
	if (err)
		return err;
	pages = mmap(NULL, info.size, PROT_READ | PROT_WRITE, MAP_SHARED, vfio->device,
		     (off_t)info.offset);
	if (pages == MAP_FAILED)
		return -errno;
	vfio->base.doorbells = pages;
	vfio->base.doorbells_size = info.size;
	return 0;
}

/* Allows the device to access our memory. Each process that opens it has to do so. */
static int set_bus_master(const struct vfio *vfio)
{
	struct vfio_region_info info;
	int err = find_region(vfio, VFIO_PCI_CONFIG_REGION_INDEX, &info);
	uint16_t command = PCI_COMMAND_MASTER;

	if (err)
		return err;
	if (pwrite(vfio->device, &command, sizeof(command), (off_t)(info.offset + PCI_COMMAND)) !=
	    sizeof(command))
		return -EIO;
	return 0;
}

/* A process that removes the device waits until we close it. VFIO signals that by this eventfd. */
static int watch_removal(struct vfio *vfio)
{
	vfio->base.hangup_event = POLLIN;
	vfio->base.hangup_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (vfio->base.hangup_fd < 0)
		return -errno;
	return set_irqs(vfio, VFIO_PCI_REQ_IRQ_INDEX, &vfio->base.hangup_fd, 1);
}

static int set_up(struct vfio *vfio, const char *directory)
{
	int err = open_device(vfio, directory);

	if (!err)
		err = map_regions(vfio);
	if (!err)
		err = set_bus_master(vfio);
	if (!err)
		err = watch_removal(vfio);
	return err;
}

struct vrdma_bus *vrdma_vfio_open(const char *directory)
{
	struct vfio *vfio = calloc(1, sizeof(*vfio));
	int err;

	if (!vfio)
		return NULL;
	vfio->base.ops = &vfio_ops;
	vfio->base.in_place = true;
	vfio->base.kick_fd = -1;
	vfio->base.hangup_fd = -1;
	vfio->base.request_fd = -1;
	vfio->container = -1;
	vfio->group = -1;
	vfio->device = -1;
	err = set_up(vfio, directory);
	if (err) {
		bus_close(&vfio->base);
		errno = -err;
		return NULL;
	}
	return &vfio->base;
}
