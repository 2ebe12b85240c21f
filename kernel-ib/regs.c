// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registers. Each access is trapped by the hypervisor, so nothing here is on the way of a verb.
 * A function that was unplugged reads as all ones.
 */
#include <linux/iopoll.h>
#include <asm/unaligned.h>

#include "vrdma_ib.h"

#define VRDMA_STATUS_POLL_US 1000

int vrdma_identify(struct vrdma_function *fn)
{
	struct device *dev = &fn->pdev->dev;
	u32 version, mac_low, mac_high;

	if (vrdma_read(fn, VRDMA_REG_MAGIC) != VRDMA_MAGIC) {
		dev_err(dev, "not a vrdma function\n");
		return -ENODEV;
	}

	version = vrdma_read(fn, VRDMA_REG_VERSION);
	if (VRDMA_GET(VRDMA_VERSION_MAJOR, version) !=
	    VRDMA_GET(VRDMA_VERSION_MAJOR, VRDMA_VERSION)) {
		dev_err(dev, "device speaks version %#x, driver %#x\n", version, VRDMA_VERSION);
		return -ENODEV;
	}

	mac_low = vrdma_read(fn, VRDMA_REG_MAC_LOW);
	mac_high = vrdma_read(fn, VRDMA_REG_MAC_HIGH);
	put_unaligned_le32(mac_low, fn->mac);
	put_unaligned_le16(mac_high, fn->mac + 4);

	fn->num_doorbell_pages = vrdma_read(fn, VRDMA_REG_DOORBELL_PAGES);
	fn->num_vectors = vrdma_read(fn, VRDMA_REG_VECTORS);
	if (!fn->num_vectors || fn->num_vectors > VRDMA_MAX_VECTORS ||
	    fn->num_doorbell_pages >
	    pci_resource_len(fn->pdev, VRDMA_BAR_DOORBELLS) / VRDMA_DOORBELL_PAGE_SIZE) {
		dev_err(dev, "device has %u vectors, %u doorbell pages\n", fn->num_vectors,
			fn->num_doorbell_pages);
		return -ENODEV;
	}
	return 0;
}

bool vrdma_ready(struct vrdma_function *fn)
{
	return vrdma_read(fn, VRDMA_REG_STATUS) == VRDMA_STATUS_READY;
}

bool vrdma_enabled(struct vrdma_function *fn)
{
	return vrdma_read(fn, VRDMA_REG_STATUS) == VRDMA_STATUS_ENABLED;
}

/* Until STATUS is want, or shows that it never will be. */
static int vrdma_wait_status(struct vrdma_function *fn, u32 want)
{
	u32 status;
	int err;

	/* All ones have FATAL among them. */
	err = read_poll_timeout(vrdma_read, status, status == want || status & VRDMA_STATUS_FATAL,
				VRDMA_STATUS_POLL_US, VRDMA_RESET_TIMEOUT_MS * USEC_PER_MSEC,
				false, fn, VRDMA_REG_STATUS);
	if (err)
		return err;
	return status == want ? 0 : -EIO;
}

/* The device forgets all that it was told, or there is none: either way memory is left alone. */
int vrdma_reset(struct vrdma_function *fn)
{
	if (vrdma_ready(fn))
		return 0;
	vrdma_write(fn, VRDMA_REG_CONTROL, VRDMA_CONTROL_RESET);
	return vrdma_wait_status(fn, VRDMA_STATUS_READY);
}

static void vrdma_write_address(struct vrdma_function *fn, enum vrdma_register low,
				enum vrdma_register high, dma_addr_t address)
{
	vrdma_write(fn, low, lower_32_bits(address));
	vrdma_write(fn, high, upper_32_bits(address));
}

int vrdma_enable(struct vrdma_dev *dev)
{
	struct vrdma_function *fn = dev->fn;
	struct vrdma_admin *admin = &dev->admin;

	vrdma_write_address(fn, VRDMA_REG_ASQ_LOW, VRDMA_REG_ASQ_HIGH, admin->asq_dma);
	vrdma_write_address(fn, VRDMA_REG_ACQ_LOW, VRDMA_REG_ACQ_HIGH, admin->acq_dma);
	vrdma_write(fn, VRDMA_REG_AQ_DEPTH, VRDMA_ADMIN_DEPTH);
	vrdma_write(fn, VRDMA_REG_AQ_VECTOR, vrdma_admin_vector(fn));
	vrdma_write_address(fn, VRDMA_REG_STATUS_PAGE_LOW, VRDMA_REG_STATUS_PAGE_HIGH,
			    dev->status_page_dma);
	vrdma_write(fn, VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE);
	return vrdma_wait_status(fn, VRDMA_STATUS_ENABLED);
}
