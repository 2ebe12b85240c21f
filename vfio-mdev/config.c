// SPDX-License-Identifier: GPL-2.0-only
/*
 * PCI configuration space: bytes, and for each a mask of what a guest may change. A BAR whose
 * address bits below its size cannot be written is all that sizing needs.
 */
#include <asm/unaligned.h>
#include <linux/uaccess.h>

#include "vrdma_mdev.h"

#define MSIX_CAPABILITY 0x40

static void set16(u8 *space, unsigned int offset, u16 value)
{
	put_unaligned_le16(value, space + offset);
}

static void set32(u8 *space, unsigned int offset, u32 value)
{
	put_unaligned_le32(value, space + offset);
}

static void add_bar(struct vrdma_config *config, unsigned int bar, u32 flags, u64 size)
{
	unsigned int offset = PCI_BASE_ADDRESS_0 + bar * sizeof(u32);

	set32(config->bytes, offset, flags);
	set32(config->writable, offset, ~(u32)(size - 1) & PCI_BASE_ADDRESS_MEM_MASK);
	if (flags & PCI_BASE_ADDRESS_MEM_TYPE_64)
		set32(config->writable, offset + sizeof(u32), U32_MAX);
}

static void add_msix(struct vrdma_config *config, u32 vectors)
{
	u8 *bytes = config->bytes;

	set16(bytes, PCI_STATUS, PCI_STATUS_CAP_LIST);
	bytes[PCI_CAPABILITY_LIST] = MSIX_CAPABILITY;
	bytes[MSIX_CAPABILITY + PCI_CAP_LIST_ID] = PCI_CAP_ID_MSIX;
	set16(bytes, MSIX_CAPABILITY + PCI_MSIX_FLAGS, vectors - 1);
	set16(config->writable, MSIX_CAPABILITY + PCI_MSIX_FLAGS,
	      PCI_MSIX_FLAGS_ENABLE | PCI_MSIX_FLAGS_MASKALL);
	set32(bytes, MSIX_CAPABILITY + PCI_MSIX_TABLE, VRDMA_BAR_MSIX | VRDMA_MSIX_TABLE_OFFSET);
	set32(bytes, MSIX_CAPABILITY + PCI_MSIX_PBA, VRDMA_BAR_MSIX | VRDMA_MSIX_PBA_OFFSET);
}

void vrdma_config_init(struct vrdma_device *dev)
{
	struct vrdma_config *config = &dev->config;
	u8 *bytes = config->bytes;

	spin_lock_init(&config->lock);
	set16(bytes, PCI_VENDOR_ID, VRDMA_PCI_VENDOR_ID);
	set16(bytes, PCI_DEVICE_ID, VRDMA_PCI_DEVICE_ID);
	set32(bytes, PCI_CLASS_REVISION, VRDMA_PCI_CLASS << 8 | VRDMA_PCI_REVISION);
	set16(bytes, PCI_SUBSYSTEM_VENDOR_ID, VRDMA_PCI_VENDOR_ID);
	set16(bytes, PCI_SUBSYSTEM_ID, VRDMA_PCI_DEVICE_ID);
	set16(config->writable, PCI_COMMAND,
	      PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER | PCI_COMMAND_INTX_DISABLE);
	config->writable[PCI_CACHE_LINE_SIZE] = U8_MAX;
	config->writable[PCI_INTERRUPT_LINE] = U8_MAX;

	add_bar(config, VRDMA_BAR_REGISTERS, 0, VRDMA_BAR0_SIZE);
	add_bar(config, VRDMA_BAR_DOORBELLS,
		PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH,
		vrdma_doorbells_size(dev));
	add_bar(config, VRDMA_BAR_MSIX, 0, VRDMA_BAR4_SIZE);
	add_msix(config, dev->vectors);
}

void vrdma_config_reset(struct vrdma_device *dev)
{
	struct vrdma_config *config = &dev->config;
	unsigned int i;

	spin_lock(&config->lock);
	for (i = 0; i < PCI_CFG_SPACE_SIZE; i++)
		config->bytes[i] &= ~config->writable[i];
	spin_unlock(&config->lock);
}

ssize_t vrdma_config_read(struct vrdma_device *dev, char __user *buf, size_t count, u64 offset)
{
	struct vrdma_config *config = &dev->config;
	u8 bytes[PCI_CFG_SPACE_SIZE];

	spin_lock(&config->lock);
	memcpy(bytes, config->bytes + offset, count);
	spin_unlock(&config->lock);
	return copy_to_user(buf, bytes, count) ? -EFAULT : count;
}

ssize_t vrdma_config_write(struct vrdma_device *dev, const char __user *buf, size_t count,
			   u64 offset)
{
	struct vrdma_config *config = &dev->config;
	u8 bytes[PCI_CFG_SPACE_SIZE];
	size_t i;

	if (copy_from_user(bytes, buf, count))
		return -EFAULT;

	spin_lock(&config->lock);
	for (i = 0; i < count; i++) {
		u8 *byte = &config->bytes[offset + i];
		u8 mask = config->writable[offset + i];

		*byte = (*byte & ~mask) | (bytes[i] & mask);
	}
	spin_unlock(&config->lock);
	return count;
}
