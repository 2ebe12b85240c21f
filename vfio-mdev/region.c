// SPDX-License-Identifier: GPL-2.0-only
/*
 * The VFIO regions of a device, and the dispatch of accesses to them. As in vfio-pci, the file
 * offset holds the region's index in its upper bits.
 */
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "vrdma_mdev.h"

#define REGION_SHIFT 40
#define REGION_OFFSET_MASK ((1ull << REGION_SHIFT) - 1)

enum region { NOTHING, CONFIG, REGISTERS, DOORBELLS, MSIX };

/* Both devices have their doorbells in one BAR. */
static_assert(VRDMA_BAR_DOORBELLS == PVRDMA_BAR_UAR);

static enum region region_of(const struct vrdma_device *dev, u32 index)
{
	if (index == VFIO_PCI_CONFIG_REGION_INDEX)
		return CONFIG;
	if (index == VFIO_PCI_BAR0_REGION_INDEX + VRDMA_BAR_DOORBELLS)
		return DOORBELLS;
	if (index ==
	    VFIO_PCI_BAR0_REGION_INDEX + (dev->pvrdma ? PVRDMA_BAR_REGISTERS : VRDMA_BAR_REGISTERS))
		return REGISTERS;
	if (index == VFIO_PCI_BAR0_REGION_INDEX + (dev->pvrdma ? PVRDMA_BAR_MSIX : VRDMA_BAR_MSIX))
		return MSIX;
	return NOTHING;
}

static u64 region_size(const struct vrdma_device *dev, u32 index)
{
	switch (region_of(dev, index)) {
	case CONFIG:
		return VRDMA_PCI_CONFIG_SIZE;
	case REGISTERS:
		return dev->pvrdma ? PVRDMA_BAR_REGISTERS_SIZE : VRDMA_BAR0_SIZE;
	case DOORBELLS:
		return vrdma_doorbells_size(dev);
	case MSIX:
		return dev->pvrdma ? PVRDMA_BAR_MSIX_SIZE : VRDMA_BAR4_SIZE;
	default:
		return 0;
	}
}

/* A store to VMware's doorbells is a message, so they are not mapped. */
static bool may_map(const struct vrdma_device *dev, u32 index)
{
	return !dev->pvrdma && region_of(dev, index) == DOORBELLS;
}

/* The regions have no capabilities. */
int vrdma_region_info(struct vfio_device *vdev, struct vfio_region_info *info,
		      struct vfio_info_cap *caps)
{
	if (info->index >= VFIO_PCI_NUM_REGIONS)
		return -EINVAL;

	info->cap_offset = 0;
	info->offset = (u64)info->index << REGION_SHIFT;
	info->size = region_size(vrdma_device_of(vdev), info->index);
	info->flags = info->size ? VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE : 0;
	/* Without WRITE, a guest's store into the mapping would stop its VM. */
	if (may_map(vrdma_device_of(vdev), info->index))
		info->flags |= VFIO_REGION_INFO_FLAG_MMAP;
	return 0;
}

/* Cuts an access to the part that lies in its region. */
static ssize_t clip(const struct vrdma_device *dev, u32 index, u64 offset, size_t count)
{
	u64 size = region_size(dev, index);

	if (offset >= size)
		return -EINVAL;
	return min_t(u64, count, size - offset);
}

ssize_t vrdma_region_read(struct vfio_device *vdev, char __user *buf, size_t count, loff_t *pos)
{
	struct vrdma_device *dev = vrdma_device_of(vdev);
	u32 index = *pos >> REGION_SHIFT;
	u64 offset = *pos & REGION_OFFSET_MASK;
	ssize_t ret = clip(dev, index, offset, count);

	if (ret <= 0)
		return ret;
	count = ret;

	switch (region_of(dev, index)) {
	case CONFIG:
		ret = vrdma_config_read(dev, buf, count, offset);
		break;
	case REGISTERS:
		ret = vrdma_registers_read(dev, buf, count, offset);
		break;
	case DOORBELLS: /* VMware's stay zero */
		ret = copy_to_user(buf, dev->doorbells + offset, count) ? -EFAULT : count;
		break;
	default: /* QEMU keeps the MSI-X table */
		ret = clear_user(buf, count) ? -EFAULT : count;
	}
	if (ret > 0)
		*pos += ret;
	return ret;
}

ssize_t vrdma_region_write(struct vfio_device *vdev, const char __user *buf, size_t count,
			   loff_t *pos)
{
	struct vrdma_device *dev = vrdma_device_of(vdev);
	u32 index = *pos >> REGION_SHIFT;
	u64 offset = *pos & REGION_OFFSET_MASK;
	ssize_t ret = clip(dev, index, offset, count);

	if (ret <= 0)
		return ret;
	count = ret;

	switch (region_of(dev, index)) {
	case CONFIG:
		ret = vrdma_config_write(dev, buf, count, offset);
		break;
	case REGISTERS:
		ret = vrdma_registers_write(dev, buf, count, offset);
		break;
	case DOORBELLS:
		if (dev->pvrdma)
			ret = vrdma_pvrdma_ring(dev, buf, count, offset);
		else
			ret = copy_from_user(dev->doorbells + offset, buf, count) ? -EFAULT : count;
		break;
	default: /* QEMU keeps the MSI-X table */
		ret = count;
	}
	if (ret > 0)
		*pos += ret;
	return ret;
}

int vrdma_region_mmap(struct vfio_device *vdev, struct vm_area_struct *vma)
{
	struct vrdma_device *dev = vrdma_device_of(vdev);
	u32 index = vma->vm_pgoff >> (REGION_SHIFT - PAGE_SHIFT);
	unsigned long page = vma->vm_pgoff & (REGION_OFFSET_MASK >> PAGE_SHIFT);

	if (!may_map(dev, index))
		return -EINVAL;
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	return remap_vmalloc_range(vma, dev->doorbells, page);
}
