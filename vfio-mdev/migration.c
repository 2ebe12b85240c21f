// SPDX-License-Identifier: GPL-2.0-only
/*
 * VFIO's migration protocol, version 2. The states are here. An arc between two states asks the
 * mediator for a step, for which the VM's thread waits a bounded time. If the mediator refuses a
 * step, the device stays in its state. If the mediator does not answer, or cannot restore the state
 * that it got, the device goes to VFIO_DEVICE_STATE_ERROR, which only a reset leaves.
 *
 * PRE_COPY is not offered: kernel 6.1 does not have it.
 */
#include <linux/err.h>
#include <linux/file.h>

#include "vrdma_mdev.h"

static void drop_transfer(struct vrdma_device *dev, int error)
{
	struct vrdma_transfer *transfer = vrdma_state_set_transfer(dev, NULL);

	if (!transfer)
		return;
	vrdma_transfer_end(transfer, error);
	vrdma_transfer_put(transfer);
}

/* Without an answer the device's state is unknown, so it does nothing from now on. */
static int take_step(struct vrdma_device *dev, u32 step)
{
	bool answered;
	int ret = vrdma_state_step(dev, step, &answered);

	if (!answered) {
		dev->migration.state = VFIO_DEVICE_STATE_ERROR;
		vrdma_fail(dev);
	}
	return ret;
}

static struct file *begin_transfer(struct vrdma_device *dev, bool saving)
{
	struct vrdma_transfer *transfer = vrdma_transfer_create(saving);
	struct file *file;
	int ret;

	if (!transfer)
		return ERR_PTR(-ENOMEM);
	file = vrdma_transfer_vm_file(transfer);
	vrdma_state_set_transfer(dev, transfer);
	if (IS_ERR(file)) {
		drop_transfer(dev, PTR_ERR(file));
		return file;
	}
	ret = take_step(dev, saving ? VRDMA_MDEV_STEP_SAVE : VRDMA_MDEV_STEP_LOAD);
	if (ret) {
		drop_transfer(dev, ret);
		fput(file);
		return ERR_PTR(ret);
	}
	return file;
}

/* The VM has written the whole state. */
static int finish_loading(struct vrdma_device *dev)
{
	struct vrdma_transfer *transfer = vrdma_state_transfer(dev);
	int ret;

	vrdma_transfer_end(transfer, 0);
	vrdma_transfer_put(transfer);
	ret = take_step(dev, VRDMA_MDEV_STEP_RESTORE);
	drop_transfer(dev, -EPIPE);
	if (ret)
		dev->migration.state = VFIO_DEVICE_STATE_ERROR;
	return ret;
}

#define ARC(from, to) ((from) << 8 | (to))

/* Takes one arc. Returns the VM's data file if the arc begins a transfer, else NULL. */
static struct file *take_arc(struct vrdma_device *dev, enum vfio_device_mig_state next)
{
	switch (ARC(dev->migration.state, next)) {
	case ARC(VFIO_DEVICE_STATE_RUNNING, VFIO_DEVICE_STATE_RUNNING_P2P):
	case ARC(VFIO_DEVICE_STATE_RUNNING_P2P, VFIO_DEVICE_STATE_RUNNING):
		/* The device accesses only its VM's memory, never another device's. */
		return NULL;
	case ARC(VFIO_DEVICE_STATE_RUNNING_P2P, VFIO_DEVICE_STATE_STOP):
		return ERR_PTR(take_step(dev, VRDMA_MDEV_STEP_FREEZE));
	case ARC(VFIO_DEVICE_STATE_STOP, VFIO_DEVICE_STATE_RUNNING_P2P):
		return ERR_PTR(take_step(dev, VRDMA_MDEV_STEP_THAW));
	case ARC(VFIO_DEVICE_STATE_STOP, VFIO_DEVICE_STATE_STOP_COPY):
		return begin_transfer(dev, true);
	case ARC(VFIO_DEVICE_STATE_STOP_COPY, VFIO_DEVICE_STATE_STOP):
		drop_transfer(dev, -EPIPE);
		return NULL;
	case ARC(VFIO_DEVICE_STATE_STOP, VFIO_DEVICE_STATE_RESUMING):
		return begin_transfer(dev, false);
	case ARC(VFIO_DEVICE_STATE_RESUMING, VFIO_DEVICE_STATE_STOP):
		return ERR_PTR(finish_loading(dev));
	default:
		return ERR_PTR(-EINVAL);
	}
}

/* VFIO logs a warning if it is asked for a way out of ERROR. */
static int next_state(struct vrdma_device *dev, enum vfio_device_mig_state wanted,
		      enum vfio_device_mig_state *next)
{
	if (dev->migration.state == VFIO_DEVICE_STATE_ERROR)
		return -EINVAL;
	return vfio_mig_get_next_state(&dev->vdev, dev->migration.state, wanted, next);
}

/* Takes all arcs that lead to the wanted state. The VM gets the file of the last one. */
static struct file *set_state(struct vfio_device *vdev, enum vfio_device_mig_state wanted)
{
	struct vrdma_device *dev = vrdma_device_of(vdev);
	struct vrdma_migration *migration = &dev->migration;
	enum vfio_device_mig_state next;
	struct file *file = NULL;
	int ret;

	if (mutex_lock_killable(&migration->lock))
		return ERR_PTR(-EINTR);
	while (migration->state != wanted) {
		ret = next_state(dev, wanted, &next);
		file = ret ? ERR_PTR(ret) : take_arc(dev, next);
		if (IS_ERR(file))
			break;
		migration->state = next;
		if (WARN_ON(file && next != wanted)) {
			fput(file);
			file = ERR_PTR(-EINVAL);
			break;
		}
	}
	mutex_unlock(&migration->lock);
	return file;
}

static int get_state(struct vfio_device *vdev, enum vfio_device_mig_state *state)
{
	struct vrdma_migration *migration = &vrdma_device_of(vdev)->migration;

	if (mutex_lock_killable(&migration->lock))
		return -EINTR;
	*state = migration->state;
	mutex_unlock(&migration->lock);
	return 0;
}

/*
 * The size is known only when the device is saved. QEMU reads pieces of at most this size, and
 * reads nothing from a device that reports 0.
 */
int vrdma_migration_data_size(struct vfio_device *vdev, unsigned long *length)
{
	*length = VRDMA_TRANSFER_SIZE;
	return 0;
}

static const struct vfio_migration_ops migration_ops = {
	.migration_set_state = set_state,
	.migration_get_state = get_state,
	VRDMA_VFIO_MIGRATION_OPS
};

void vrdma_migration_init(struct vrdma_device *dev)
{
	mutex_init(&dev->migration.lock);
	dev->migration.state = VFIO_DEVICE_STATE_RUNNING;
	dev->vdev.migration_flags = VFIO_MIGRATION_STOP_COPY | VFIO_MIGRATION_P2P;
	dev->vdev.mig_ops = &migration_ops;
}

/* The caller then resets the device, which tells the mediator. */
void vrdma_migration_reset(struct vrdma_device *dev)
{
	struct vrdma_migration *migration = &dev->migration;

	mutex_lock(&migration->lock);
	drop_transfer(dev, -EPIPE);
	migration->state = VFIO_DEVICE_STATE_RUNNING;
	mutex_unlock(&migration->lock);
}
