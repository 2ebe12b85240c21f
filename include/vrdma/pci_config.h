/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The function's PCI configuration space, for the code that plugs it into a VM: bytes, and for each
 * a mask of the bits that the guest may change. To let the guest size a BAR, it is enough that the
 * address bits below the BAR's size cannot be written. Sources: PCI Local Bus Specification 3.0,
 * chapter 6; PCI Bus Power Management Interface Specification 1.2, chapter 3; PCI Express Base
 * Specification 2.0, 7.8.
 *
 * While Bus Master is clear the function does not touch the VM's memory. Clearing it resets the
 * device, so that nothing goes on in the memory of a later owner when Bus Master is set again. A
 * Function Level Reset does the same, and also resets the configuration space.
 */
#ifndef VRDMA_PCI_CONFIG_H
#define VRDMA_PCI_CONFIG_H

#include <linux/pci_regs.h>

#include "device.h"

#define VRDMA_PCI_CONFIG_SIZE 256
#define VRDMA_PCI_MSIX_CAPABILITY 0x40
#define VRDMA_PCI_PM_CAPABILITY 0x50
#define VRDMA_PCI_EXP_CAPABILITY 0x60 /* 0x3c bytes */

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

/* Puts the capability at the head of the list. */
static inline void vrdma_pci_add_capability(struct vrdma_pci_config *config,
					    unsigned int capability, __u8 id)
{
	__u8 *bytes = config->bytes;

	vrdma_pci_set16(bytes, PCI_STATUS, PCI_STATUS_CAP_LIST);
	bytes[capability + PCI_CAP_LIST_ID] = id;
	bytes[capability + PCI_CAP_LIST_NEXT] = bytes[PCI_CAPABILITY_LIST];
	bytes[PCI_CAPABILITY_LIST] = capability & 0xff;
}

static inline void vrdma_pci_add_msix(struct vrdma_pci_config *config, __u32 vectors)
{
	__u8 *bytes = config->bytes;
	const unsigned int capability = VRDMA_PCI_MSIX_CAPABILITY;

	vrdma_pci_add_capability(config, capability, PCI_CAP_ID_MSIX);
	vrdma_pci_set16(bytes, capability + PCI_MSIX_FLAGS, vectors - 1);
	vrdma_pci_set16(config->writable, capability + PCI_MSIX_FLAGS,
			PCI_MSIX_FLAGS_ENABLE | PCI_MSIX_FLAGS_MASKALL);
	vrdma_pci_set32(bytes, capability + PCI_MSIX_TABLE,
			VRDMA_BAR_MSIX | VRDMA_MSIX_TABLE_OFFSET);
	vrdma_pci_set32(bytes, capability + PCI_MSIX_PBA, VRDMA_BAR_MSIX | VRDMA_MSIX_PBA_OFFSET);
}

/* D0 and D3hot. The device keeps its state in D3hot. */
static inline void vrdma_pci_add_pm(struct vrdma_pci_config *config)
{
	const unsigned int capability = VRDMA_PCI_PM_CAPABILITY;

	vrdma_pci_add_capability(config, capability, PCI_CAP_ID_PM);
	vrdma_pci_set16(config->bytes, capability + PCI_PM_PMC, 3);
	vrdma_pci_set16(config->bytes, capability + PCI_PM_CTRL, PCI_PM_CTRL_NO_SOFT_RESET);
	vrdma_pci_set16(config->writable, capability + PCI_PM_CTRL, PCI_PM_CTRL_STATE_MASK);
}

/* An endpoint without a real link: the slowest and narrowest one is declared. */
static inline void vrdma_pci_add_exp(struct vrdma_pci_config *config)
{
	__u8 *bytes = config->bytes;
	const unsigned int capability = VRDMA_PCI_EXP_CAPABILITY;

	vrdma_pci_add_capability(config, capability, PCI_CAP_ID_EXP);
	vrdma_pci_set16(bytes, capability + PCI_EXP_FLAGS, PCI_EXP_TYPE_ENDPOINT << 4 | 2);
	vrdma_pci_set32(bytes, capability + PCI_EXP_DEVCAP,
			PCI_EXP_DEVCAP_RBER | PCI_EXP_DEVCAP_FLR);
	vrdma_pci_set16(config->writable, capability + PCI_EXP_DEVCTL,
			PCI_EXP_DEVCTL_CERE | PCI_EXP_DEVCTL_NFERE | PCI_EXP_DEVCTL_FERE |
				PCI_EXP_DEVCTL_URRE | PCI_EXP_DEVCTL_RELAX_EN |
				PCI_EXP_DEVCTL_NOSNOOP_EN | PCI_EXP_DEVCTL_READRQ);
	vrdma_pci_set32(bytes, capability + PCI_EXP_LNKCAP, PCI_EXP_LNKCAP_SLS_2_5GB | 1 << 4);
	vrdma_pci_set16(bytes, capability + PCI_EXP_LNKSTA,
			PCI_EXP_LNKSTA_CLS_2_5GB | PCI_EXP_LNKSTA_NLW_X1);
	vrdma_pci_set32(bytes, capability + PCI_EXP_LNKCAP2, PCI_EXP_LNKCAP2_SLS_2_5GB);
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
	vrdma_pci_add_exp(config);
	vrdma_pci_add_pm(config);
	vrdma_pci_add_msix(config, vectors);
}

static inline void vrdma_pci_config_reset(struct vrdma_pci_config *config)
{
	unsigned int i;

	for (i = 0; i < VRDMA_PCI_CONFIG_SIZE; i++)
		config->bytes[i] = config->bytes[i] & ~config->writable[i] & 0xff;
}

static inline int vrdma_pci_bus_master(const struct vrdma_pci_config *config)
{
	return (config->bytes[PCI_COMMAND] & PCI_COMMAND_MASTER) != 0;
}

/* The bit lies in the upper byte of its register, and reads as 0. */
static inline int vrdma_pci_asks_for_flr(unsigned int offset, const __u8 *bytes, unsigned int count)
{
	const unsigned int at = VRDMA_PCI_EXP_CAPABILITY + PCI_EXP_DEVCTL + 1;

	return offset <= at && at < offset + count &&
	       (bytes[at - offset] & (PCI_EXP_DEVCTL_BCR_FLR >> 8)) != 0;
}

/* offset + count is within the space. Returns whether the caller must reset the device. */
static inline int vrdma_pci_config_write(struct vrdma_pci_config *config, unsigned int offset,
					 const __u8 *bytes, unsigned int count)
{
	const int was_master = vrdma_pci_bus_master(config);
	unsigned int i;

	for (i = 0; i < count; i++) {
		__u8 mask = config->writable[offset + i];

		config->bytes[offset + i] = (config->bytes[offset + i] & ~mask & 0xff) |
					    (bytes[i] & mask);
	}
	if (vrdma_pci_asks_for_flr(offset, bytes, count)) {
		vrdma_pci_config_reset(config);
		return 1;
	}
	return was_master && !vrdma_pci_bus_master(config);
}

#endif /* VRDMA_PCI_CONFIG_H */
