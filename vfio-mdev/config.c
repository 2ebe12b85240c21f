// SPDX-License-Identifier: GPL-2.0-only
/*
 * A guest's accesses to the PCI configuration space (vrdma/pci_config.h,
 * vrdma/pvrdma/pci_config.h). Bus Master changes with state.reset_lock held, so that its change and
 * that of the window are atomic.
 */
#include <linux/uaccess.h>

#include "vrdma_mdev.h"

void vrdma_config_init(struct vrdma_device *dev)
{
	spin_lock_init(&dev->config.lock);
	if (dev->pvrdma)
		pvrdma_pci_config_init(&dev->config.pci, dev->doorbell_pages);
	else
		vrdma_pci_config_init(&dev->config.pci, dev->doorbell_pages, dev->vectors);
}

void vrdma_config_reset(struct vrdma_device *dev)
{
	struct vrdma_config *config = &dev->config;

	lockdep_assert_held(&dev->state.reset_lock);

	spin_lock(&config->lock);
	vrdma_pci_config_reset(&config->pci);
	spin_unlock(&config->lock);
}

bool vrdma_config_bus_master(struct vrdma_device *dev)
{
	struct vrdma_config *config = &dev->config;
	bool master;

	spin_lock(&config->lock);
	master = vrdma_pci_bus_master(&config->pci);
	spin_unlock(&config->lock);
	return master;
}

/* Returns whether the caller must reset the device. */
bool vrdma_config_change(struct vrdma_device *dev, u64 offset, const u8 *bytes, size_t count)
{
	struct vrdma_config *config = &dev->config;
	bool reset;

	lockdep_assert_held(&dev->state.reset_lock);

	spin_lock(&config->lock);
	reset = vrdma_pci_config_write(&config->pci, offset, bytes, count);
	spin_unlock(&config->lock);
	return reset;
}

ssize_t vrdma_config_read(struct vrdma_device *dev, char __user *buf, size_t count, u64 offset)
{
	struct vrdma_config *config = &dev->config;
	u8 bytes[VRDMA_PCI_CONFIG_SIZE];

	spin_lock(&config->lock);
	memcpy(bytes, config->pci.bytes + offset, count);
	spin_unlock(&config->lock);
	return copy_to_user(buf, bytes, count) ? -EFAULT : count;
}

ssize_t vrdma_config_write(struct vrdma_device *dev, const char __user *buf, size_t count,
			   u64 offset)
{
	u8 bytes[VRDMA_PCI_CONFIG_SIZE];

	if (copy_from_user(bytes, buf, count))
		return -EFAULT;
	vrdma_configure(dev, offset, bytes, count);
	return count;
}
