// SPDX-License-Identifier: GPL-2.0-only
/*
 * VMware's device (vrdma/pvrdma/device.h): its registers, and its doorbells (UAR pages).
 *
 * Its driver reads what a register's write has done as soon as the write is done. So the VM's
 * thread waits until the mediator has executed the write. QEMU holds its big lock meanwhile, and
 * the wait is bounded (VRDMA_MDEV_WRITE_MS). A doorbell waits only while there is no room for it. A
 * polling program rings all the time, and only some of it is for the mediator.
 *
 * An access is 32 bits wide and aligned.
 */
#include <linux/uaccess.h>

#include "vrdma_mdev.h"

/* The shadow page is the mediator's, which may be dead. */
__le32 vrdma_pvrdma_read(struct vrdma_device *dev, u32 offset)
{
	if (offset == PVRDMA_REG_ERROR && vrdma_state_fatal(dev))
		return cpu_to_le32(EIO);
	return READ_ONCE(dev->shadow[offset / sizeof(__le32)]);
}

static void post(struct vrdma_device *dev, struct vrdma_write write, bool executed)
{
	if (!vrdma_state_post(dev, write, executed))
		vrdma_fail(dev);
}

void vrdma_pvrdma_write(struct vrdma_device *dev, u32 offset, u32 value)
{
	const struct vrdma_write write = { VRDMA_MDEV_MESSAGE_WRITE, offset, value };

	post(dev, write, true);
}

/*
 * Whether the mediator needs to know. The driver rings each time that it finds a CQ empty, and QPs
 * look at an SRQ when a message needs a WQE.
 */
static bool tells(u64 offset, u32 value)
{
	switch (offset % PVRDMA_PAGE_SIZE) {
	case PVRDMA_UAR_QP:
		return true;
	case PVRDMA_UAR_CQ:
		return value & (PVRDMA_UAR_CQ_ARM | PVRDMA_UAR_CQ_ARM_SOLICITED);
	default:
		return false;
	}
}

/* Accesses of other widths are dropped. */
ssize_t vrdma_pvrdma_ring(struct vrdma_device *dev, const char __user *buf, size_t count,
			  u64 offset)
{
	struct vrdma_write write = { VRDMA_MDEV_MESSAGE_DOORBELL, offset };
	__le32 value;

	if (count != sizeof(value) || offset % sizeof(value))
		return count;
	if (copy_from_user(&value, buf, sizeof(value)))
		return -EFAULT;
	write.value = le32_to_cpu(value);
	if (tells(offset, write.value))
		post(dev, write, false);
	return count;
}
