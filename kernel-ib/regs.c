// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registers. The hypervisor traps each access, so no verb's fast path uses them. A function that
 * was unplugged reads as all ones.
 */
#include <linux/iopoll.h>

#include "vrdma_ib.h"

#define VRDMA_STATUS_POLL_US 1000

u32 vrdma_read(struct vrdma_function *fn, enum vrdma_register reg)
{
	return readl(fn->regs + reg);
}

void vrdma_write(struct vrdma_function *fn, enum vrdma_register reg, u32 value)
{
	writel(value, fn->regs + reg);
}

int vrdma_identify(struct vrdma_function *fn)
{
	struct device *dev = &fn->pdev->dev;
	int err;

	err = vrdma_read_identity(fn, &fn->id);
	if (err)
		return err; /* not known to this driver, or not yet filled */
	if (!fn->id.num_vectors || fn->id.num_vectors > VRDMA_MAX_VECTORS ||
	    fn->id.num_doorbell_pages >
		    pci_resource_len(fn->pdev, VRDMA_BAR_DOORBELLS) / VRDMA_DOORBELL_PAGE_SIZE) {
		if (fn->start_error != -EINVAL) /* else it was logged */
			dev_err(dev,
				"device has %u vectors (1 to %u are valid), %u doorbell pages\n",
				fn->id.num_vectors, VRDMA_MAX_VECTORS, fn->id.num_doorbell_pages);
		return -EINVAL;
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

/* Waits until STATUS is want, or shows that it never will be. */
static int vrdma_wait_status(struct vrdma_function *fn, u32 want)
{
	u32 status;
	int err;

	/* All ones (an unplugged function) include FATAL. */
	err = read_poll_timeout(vrdma_read, status, status == want || status & VRDMA_STATUS_FATAL,
				VRDMA_STATUS_POLL_US, VRDMA_RESET_TIMEOUT_MS * USEC_PER_MSEC, false,
				fn, VRDMA_REG_STATUS);
	if (err)
		return err;
	return status == want ? 0 : -EIO;
}

/* Afterwards the device has forgotten all objects or is gone: either way it leaves memory alone. */
int vrdma_reset(struct vrdma_function *fn)
{
	if (vrdma_ready(fn))
		return 0;
	vrdma_write(fn, VRDMA_REG_CONTROL, VRDMA_CONTROL_RESET);
	return vrdma_wait_status(fn, VRDMA_STATUS_READY);
}

int vrdma_enable(struct vrdma_dev *dev)
{
	struct vrdma_function *fn = dev->fn;
	struct vrdma_function_queues queues = {
		.asq = dev->admin.asq_dma,
		.acq = dev->admin.acq_dma,
		.status_page = dev->status_page_dma,
		.depth = VRDMA_ADMIN_DEPTH,
		.vector = vrdma_admin_vector(fn->id.num_vectors),
	};

	vrdma_write_enable(fn, &queues);
	return vrdma_wait_status(fn, VRDMA_STATUS_ENABLED);
}
