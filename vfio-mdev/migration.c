// SPDX-License-Identifier: GPL-2.0-only
/*
 * VFIO's migration protocol, version 2. The states are here. An arc between two states asks the
 * mediator for a step, for which the VM's thread waits a bounded time. If the mediator refuses a
 * step, the device stays in its state. If the mediator does not answer, or cannot restore the state
 * that it got, the device goes to VFIO_DEVICE_STATE_ERROR, which only a reset leaves. That a device
 * cannot be announced ends the VM's attempt to move, and nothing else.
 *
 * In PRE_COPY the device runs, and the VM reads what the device needs of its destination, so that
 * the destination can refuse it before the VM stops. Then it reads what does not change of the
 * device's state.
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

/*
 * Without an answer the device's state is unknown, so it does nothing from now on. An announcement
 * changes nothing in the device, which runs on.
 */
static int take_step(struct vrdma_device *dev, u32 step)
{
	bool answered;
	int ret = vrdma_state_step(dev, step, &answered);

	if (!answered && step != VRDMA_MDEV_STEP_ANNOUNCE) {
		dev->migration.state = VFIO_DEVICE_STATE_ERROR;
		vrdma_fail(dev);
	}
	return ret;
}

/* The mediator's step decides what the transfer is for. */
static struct file *begin_transfer(struct vrdma_device *dev, u32 step)
{
	const bool saving = step != VRDMA_MDEV_STEP_LOAD;
	const bool early = step == VRDMA_MDEV_STEP_ANNOUNCE;
	struct vrdma_transfer *transfer = vrdma_transfer_create(saving, early);
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
	ret = take_step(dev, step);
	if (ret) {
		drop_transfer(dev, ret);
		fput(file);
		return ERR_PTR(ret);
	}
	return file;
}

/* From now on, the pinned pages become those in use. */
static struct file *announce(struct vrdma_device *dev)
{
	struct file *file = begin_transfer(dev, VRDMA_MDEV_STEP_ANNOUNCE);

	if (!IS_ERR(file))
		vrdma_sweep_set(dev, true);
	return file;
}

/*
 * Freezes the device, whose state follows what the VM has read in PRE_COPY. If the mediator refuses
 * to save it, or is another one by now, the VM learns that when it reads. QEMU then resumes the
 * device. If this arc failed, it would reset the device.
 */
static int stop_and_save(struct vrdma_device *dev)
{
	struct vrdma_transfer *transfer = vrdma_state_transfer(dev);
	int ret = take_step(dev, VRDMA_MDEV_STEP_FREEZE);
	int error;

	if (!ret)
		vrdma_sweep_set(dev, false);
	if (!ret && !vrdma_transfer_stop(transfer)) {
		error = take_step(dev, VRDMA_MDEV_STEP_SAVE);
		if (error)
			vrdma_transfer_end(transfer, error);
		if (dev->migration.state == VFIO_DEVICE_STATE_ERROR)
			ret = error;
	}
	vrdma_transfer_put(transfer);
	return ret;
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

enum {
	ERROR = VFIO_DEVICE_STATE_ERROR,
	STOP = VFIO_DEVICE_STATE_STOP,
	RUNNING = VFIO_DEVICE_STATE_RUNNING,
	STOP_COPY = VFIO_DEVICE_STATE_STOP_COPY,
	RESUMING = VFIO_DEVICE_STATE_RESUMING,
	RUNNING_P2P = VFIO_DEVICE_STATE_RUNNING_P2P,
	PRE_COPY = VFIO_DEVICE_STATE_PRE_COPY,
	PRE_COPY_P2P = VFIO_DEVICE_STATE_PRE_COPY_P2P,
	STATES,
};

#define ARC(from, to) ((from) << 8 | (to))

/* Takes one arc. Returns the VM's data file if the arc begins a transfer, else NULL. */
static struct file *take_arc(struct vrdma_device *dev, u32 next)
{
	switch (ARC(dev->migration.state, next)) {
	case ARC(RUNNING, RUNNING_P2P):
	case ARC(RUNNING_P2P, RUNNING):
	case ARC(PRE_COPY, PRE_COPY_P2P):
	case ARC(PRE_COPY_P2P, PRE_COPY):
		/* The device accesses only its VM's memory, never another device's. */
		return NULL;
	case ARC(RUNNING, PRE_COPY):
	case ARC(RUNNING_P2P, PRE_COPY_P2P):
		return announce(dev);
	case ARC(PRE_COPY_P2P, STOP_COPY):
		return ERR_PTR(stop_and_save(dev));
	case ARC(RUNNING_P2P, STOP):
		return ERR_PTR(take_step(dev, VRDMA_MDEV_STEP_FREEZE));
	case ARC(STOP, RUNNING_P2P):
		return ERR_PTR(take_step(dev, VRDMA_MDEV_STEP_THAW));
	case ARC(STOP, STOP_COPY):
		return begin_transfer(dev, VRDMA_MDEV_STEP_SAVE);
	case ARC(PRE_COPY, RUNNING):
	case ARC(PRE_COPY_P2P, RUNNING_P2P):
		vrdma_sweep_set(dev, false);
		fallthrough;
	case ARC(STOP_COPY, STOP):
		drop_transfer(dev, -EPIPE);
		return NULL;
	case ARC(STOP, RESUMING):
		return begin_transfer(dev, VRDMA_MDEV_STEP_LOAD);
	case ARC(RESUMING, STOP):
		return ERR_PTR(finish_loading(dev));
	default:
		return ERR_PTR(-EINVAL);
	}
}

/*
 * The next state on the way from one to another, or ERROR if there is no way. The kernel has the
 * same table, but kernel 6.1's is without PRE_COPY.
 */
static const u8 ways[STATES][STATES] = {
	[STOP] = {
		[RUNNING] = RUNNING_P2P,
		[STOP_COPY] = STOP_COPY,
		[RESUMING] = RESUMING,
		[RUNNING_P2P] = RUNNING_P2P,
		[PRE_COPY] = RUNNING_P2P,
		[PRE_COPY_P2P] = RUNNING_P2P,
	},
	[RUNNING] = {
		[STOP] = RUNNING_P2P,
		[STOP_COPY] = RUNNING_P2P,
		[RESUMING] = RUNNING_P2P,
		[RUNNING_P2P] = RUNNING_P2P,
		[PRE_COPY] = PRE_COPY,
		[PRE_COPY_P2P] = RUNNING_P2P,
	},
	[STOP_COPY] = {
		[STOP] = STOP,
		[RUNNING] = STOP,
		[RESUMING] = STOP,
		[RUNNING_P2P] = STOP,
	},
	[RESUMING] = {
		[STOP] = STOP,
		[RUNNING] = STOP,
		[STOP_COPY] = STOP,
		[RUNNING_P2P] = STOP,
		[PRE_COPY] = STOP,
		[PRE_COPY_P2P] = STOP,
	},
	[RUNNING_P2P] = {
		[STOP] = STOP,
		[RUNNING] = RUNNING,
		[STOP_COPY] = STOP,
		[RESUMING] = STOP,
		[PRE_COPY] = RUNNING,
		[PRE_COPY_P2P] = PRE_COPY_P2P,
	},
	[PRE_COPY] = {
		[STOP] = RUNNING,
		[RUNNING] = RUNNING,
		[STOP_COPY] = PRE_COPY_P2P,
		[RESUMING] = RUNNING,
		[RUNNING_P2P] = RUNNING,
		[PRE_COPY_P2P] = PRE_COPY_P2P,
	},
	[PRE_COPY_P2P] = {
		[STOP] = RUNNING_P2P,
		[RUNNING] = RUNNING_P2P,
		[STOP_COPY] = STOP_COPY,
		[RESUMING] = RUNNING_P2P,
		[RUNNING_P2P] = RUNNING_P2P,
		[PRE_COPY] = PRE_COPY,
	},
};

static u32 next_state(const struct vrdma_device *dev, u32 wanted)
{
	return wanted < STATES ? ways[dev->migration.state][wanted] : ERROR;
}

/* Takes all arcs that lead to the wanted state. The VM gets the file of the last one. */
static struct file *set_state(struct vfio_device *vdev, enum vfio_device_mig_state wanted)
{
	struct vrdma_device *dev = vrdma_device_of(vdev);
	struct vrdma_migration *migration = &dev->migration;
	struct file *file = NULL;
	u32 next;

	if (mutex_lock_killable(&migration->lock))
		return ERR_PTR(-EINTR);
	while (migration->state != wanted) {
		next = next_state(dev, wanted);
		file = next == ERROR ? ERR_PTR(-EINVAL) : take_arc(dev, next);
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
 * The size is known only when the device is saved, and estimated when it is announced. QEMU reads
 * pieces of at most this size, and reads nothing from a device that reports 0.
 */
int vrdma_migration_data_size(struct vfio_device *vdev, unsigned long *length)
{
	struct vrdma_transfer *transfer = vrdma_state_transfer(vrdma_device_of(vdev));
	u64 rest = 0;

	if (transfer) {
		rest = vrdma_transfer_rest(transfer);
		vrdma_transfer_put(transfer);
	}
	*length = max_t(u64, VRDMA_TRANSFER_SIZE, rest);
	return 0;
}

static const struct vfio_migration_ops migration_ops = {
	.migration_set_state = set_state,
	.migration_get_state = get_state,
	/* clang-format off */
	VRDMA_VFIO_MIGRATION_OPS
	/* clang-format on */
};

void vrdma_migration_init(struct vrdma_device *dev)
{
	mutex_init(&dev->migration.lock);
	dev->migration.state = VFIO_DEVICE_STATE_RUNNING;
	dev->vdev.migration_flags = VFIO_MIGRATION_STOP_COPY | VFIO_MIGRATION_P2P |
				    VFIO_MIGRATION_PRE_COPY;
	dev->vdev.mig_ops = &migration_ops;
}

/* The caller then resets the device, which tells the mediator. */
void vrdma_migration_reset(struct vrdma_device *dev)
{
	struct vrdma_migration *migration = &dev->migration;

	mutex_lock(&migration->lock);
	vrdma_sweep_set(dev, false);
	drop_transfer(dev, -EPIPE);
	migration->state = VFIO_DEVICE_STATE_RUNNING;
	mutex_unlock(&migration->lock);
}
