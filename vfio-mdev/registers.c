// SPDX-License-Identifier: GPL-2.0-only
/*
 * BAR0: the register page and the kick page. Register reads are answered from the shadow page, and
 * writes are queued for the mediator. Nothing here waits for the mediator, because QEMU holds its
 * big lock during the access. VMware's device has its registers in BAR1, and waits (pvrdma.c).
 */
#include <linux/uaccess.h>

#include "vrdma_mdev.h"

/* A register access is 32 bits wide and aligned. Longer ones, such as 8 bytes, are split. */
#define REGISTER_SIZE sizeof(__le32)

/* The part of an access that lies in the register in which it begins. */
static size_t next_step(size_t count, u64 offset)
{
	return min_t(size_t, count, REGISTER_SIZE - offset % REGISTER_SIZE);
}

static __le32 read_register(struct vrdma_device *dev, u32 offset)
{
	if (dev->pvrdma)
		return vrdma_pvrdma_read(dev, offset);
	if (offset == VRDMA_REG_STATUS)
		return cpu_to_le32(vrdma_state_status(dev));
	return READ_ONCE(dev->shadow[offset / REGISTER_SIZE]);
}

static void write_register(struct vrdma_device *dev, u32 offset, u32 value)
{
	if (dev->pvrdma)
		vrdma_pvrdma_write(dev, offset, value);
	else if (offset == VRDMA_REG_ADMIN_DOORBELL)
		vrdma_state_doorbell(dev);
	else if (offset == VRDMA_REG_CONTROL && (value & VRDMA_CONTROL_RESET))
		vrdma_reset(dev);
	else
		vrdma_state_write(dev, offset, value);
}

ssize_t vrdma_registers_read(struct vrdma_device *dev, char __user *buf, size_t count, u64 offset)
{
	size_t done, step;

	for (done = 0; done < count; done += step) {
		__le32 value = cpu_to_le32(U32_MAX);

		step = next_step(count - done, offset + done);
		if (offset + done >= VRDMA_BAR0_KICK_OFFSET)
			value = 0;
		else if (step == REGISTER_SIZE)
			value = read_register(dev, offset + done);
		if (copy_to_user(buf + done, &value, step))
			return -EFAULT;
	}
	return count;
}

ssize_t vrdma_registers_write(struct vrdma_device *dev, const char __user *buf, size_t count,
			      u64 offset)
{
	size_t done, step;

	for (done = 0; done < count && offset + done < VRDMA_BAR0_KICK_OFFSET; done += step) {
		__le32 value;

		step = next_step(count - done, offset + done);
		if (step != REGISTER_SIZE)
			continue;
		if (copy_from_user(&value, buf + done, sizeof(value)))
			return -EFAULT;
		write_register(dev, offset + done, le32_to_cpu(value));
	}
	if (done < count)
		vrdma_state_kick(dev);
	return count;
}
