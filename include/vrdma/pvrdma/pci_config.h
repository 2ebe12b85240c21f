/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The PCI configuration space of VMware's paravirtual RDMA device. All but identity and BARs is
 * that of vrdma's own function.
 */
#ifndef VRDMA_PVRDMA_PCI_CONFIG_H
#define VRDMA_PVRDMA_PCI_CONFIG_H

#include "../pci_config.h"
#include "device.h"

#define PVRDMA_MSIX_TABLE_OFFSET 0x000
#define PVRDMA_MSIX_PBA_OFFSET 0x800

/* The caller zeroed config. */
static inline void pvrdma_pci_config_init(struct vrdma_pci_config *config, __u32 uar_pages)
{
	__u8 *bytes = config->bytes;
	const unsigned int msix = VRDMA_PCI_MSIX_CAPABILITY;

	vrdma_pci_config_init(config, uar_pages, PVRDMA_VECTORS);
	vrdma_pci_set16(bytes, PCI_VENDOR_ID, PVRDMA_PCI_VENDOR_ID);
	vrdma_pci_set16(bytes, PCI_DEVICE_ID, PVRDMA_PCI_DEVICE_ID);
	vrdma_pci_set32(bytes, PCI_CLASS_REVISION, PVRDMA_PCI_CLASS << 8 | PVRDMA_PCI_REVISION);
	vrdma_pci_set16(bytes, PCI_SUBSYSTEM_VENDOR_ID, PVRDMA_PCI_VENDOR_ID);
	vrdma_pci_set16(bytes, PCI_SUBSYSTEM_ID, PVRDMA_PCI_DEVICE_ID);

	/* BAR4 goes, and BAR0 gets another size. BAR2 has doorbells in both. */
	vrdma_pci_set32(config->writable, PCI_BASE_ADDRESS_0 + VRDMA_BAR_MSIX * 4, 0);
	vrdma_pci_add_bar(config, PVRDMA_BAR_MSIX, 0, PVRDMA_BAR_MSIX_SIZE);
	vrdma_pci_add_bar(config, PVRDMA_BAR_REGISTERS, 0, PVRDMA_BAR_REGISTERS_SIZE);
	vrdma_pci_add_bar(config, PVRDMA_BAR_UAR, PCI_BASE_ADDRESS_MEM_TYPE_64,
			  uar_pages * PVRDMA_PAGE_SIZE);
	vrdma_pci_set32(bytes, msix + PCI_MSIX_TABLE, PVRDMA_BAR_MSIX | PVRDMA_MSIX_TABLE_OFFSET);
	vrdma_pci_set32(bytes, msix + PCI_MSIX_PBA, PVRDMA_BAR_MSIX | PVRDMA_MSIX_PBA_OFFSET);
}

#endif /* VRDMA_PVRDMA_PCI_CONFIG_H */
