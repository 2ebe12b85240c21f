/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The function's PCI configuration space, for whoever plugs it into a VM: bytes, and for each a
 * mask of what the guest may change. A BAR whose address bits below its size cannot be written is
 * all that sizing needs. Source: PCI Local Bus Specification 3.0, chapter 6.
 */
#ifndef VRDMA_PCI_CONFIG_H
#define VRDMA_PCI_CONFIG_H

#include <linux/pci_regs.h>

#include "device.h"

#define VRDMA_PCI_CONFIG_SIZE 256
#define VRDMA_PCI_MSIX_CAPABILITY 0x40

struct vrdma_pci_config {
	__u8 bytes[VRDMA_PCI_CONFIG_SIZE];
	__u8 writable[VRDMA_PCI_CONFIG_SIZE];
};

static inline void vrdma_pci_set16(__u8 *space, unsigned int offset, __u32 value)
{
	space[offset] = value & 0xff;
	space[offset + 1] = (value >> 8) & 0xff;
}

static inline void vrdma_pci_set32(__u8 *space, unsigned int offset, __u32 value)
{
	vrdma_pci_set16(space, offset, value);
	vrdma_pci_set16(space, offset + 2, value >> 16);
}

/* size: a power of two below 4 GiB. */
static inline void vrdma_pci_add_bar(struct vrdma_pci_config *config, unsigned int bar, __u32 flags,
				     __u32 size)
{
	unsigned int offset = PCI_BASE_ADDRESS_0 + bar * 4;

	vrdma_pci_set32(config->bytes, offset, flags);
	vrdma_pci_set32(config->writable, offset, ~(size - 1) & 0xfffffff0u);
	if (flags & PCI_BASE_ADDRESS_MEM_TYPE_64)
		vrdma_pci_set32(config->writable, offset + 4, 0xffffffffu);
}

static inline void vrdma_pci_add_msix(struct vrdma_pci_config *config, __u32 vectors)
{
	__u8 *bytes = config->bytes;
	const unsigned int capability = VRDMA_PCI_MSIX_CAPABILITY;

	vrdma_pci_set16(bytes, PCI_STATUS, PCI_STATUS_CAP_LIST);
	bytes[PCI_CAPABILITY_LIST] = VRDMA_PCI_MSIX_CAPABILITY;
	bytes[capability + PCI_CAP_LIST_ID] = PCI_CAP_ID_MSIX;
	vrdma_pci_set16(bytes, capability + PCI_MSIX_FLAGS, vectors - 1);
	vrdma_pci_set16(config->writable, capability + PCI_MSIX_FLAGS,
			PCI_MSIX_FLAGS_ENABLE | PCI_MSIX_FLAGS_MASKALL);
	vrdma_pci_set32(bytes, capability + PCI_MSIX_TABLE,
			VRDMA_BAR_MSIX | VRDMA_MSIX_TABLE_OFFSET);
	vrdma_pci_set32(bytes, capability + PCI_MSIX_PBA, VRDMA_BAR_MSIX | VRDMA_MSIX_PBA_OFFSET);
}

/* The caller zeroed config. */
static inline void vrdma_pci_config_init(struct vrdma_pci_config *config, __u32 doorbell_pages,
					 __u32 vectors)
{
	__u8 *bytes = config->bytes;

	vrdma_pci_set16(bytes, PCI_VENDOR_ID, VRDMA_PCI_VENDOR_ID);
	vrdma_pci_set16(bytes, PCI_DEVICE_ID, VRDMA_PCI_DEVICE_ID);
	vrdma_pci_set32(bytes, PCI_CLASS_REVISION, VRDMA_PCI_CLASS << 8 | VRDMA_PCI_REVISION);
	vrdma_pci_set16(bytes, PCI_SUBSYSTEM_VENDOR_ID, VRDMA_PCI_VENDOR_ID);
	vrdma_pci_set16(bytes, PCI_SUBSYSTEM_ID, VRDMA_PCI_DEVICE_ID);
	vrdma_pci_set16(config->writable, PCI_COMMAND,
			PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER | PCI_COMMAND_INTX_DISABLE);
	config->writable[PCI_CACHE_LINE_SIZE] = 0xff;
	config->writable[PCI_INTERRUPT_LINE] = 0xff;

	vrdma_pci_add_bar(config, VRDMA_BAR_REGISTERS, 0, VRDMA_BAR0_SIZE);
	vrdma_pci_add_bar(config, VRDMA_BAR_DOORBELLS,
			  PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH,
			  doorbell_pages * VRDMA_DOORBELL_PAGE_SIZE);
	vrdma_pci_add_bar(config, VRDMA_BAR_MSIX, 0, VRDMA_BAR4_SIZE);
	vrdma_pci_add_msix(config, vectors);
}

static inline void vrdma_pci_config_reset(struct vrdma_pci_config *config)
{
	unsigned int i;

	for (i = 0; i < VRDMA_PCI_CONFIG_SIZE; i++)
		config->bytes[i] = config->bytes[i] & ~config->writable[i] & 0xff;
}

/* offset + count lies in the space. */
static inline void vrdma_pci_config_write(struct vrdma_pci_config *config, unsigned int offset,
					  const __u8 *bytes, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		__u8 mask = config->writable[offset + i];

		config->bytes[offset + i] =
			(config->bytes[offset + i] & ~mask & 0xff) | (bytes[i] & mask);
	}
}

#endif /* VRDMA_PCI_CONFIG_H */
