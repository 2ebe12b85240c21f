// SPDX-License-Identifier: GPL-2.0-only
/*
 * A mediator that ends on purpose hands its devices over to its successor. Between the two, the
 * guest finds a device that is slow, and not one that has failed: STATUS stays, memory stays
 * pinned, and messages wait. The module keeps a file for the successor, and does not look into it.
 *
 * A successor that does not come in time is as good as a mediator that has died.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/jiffies.h>

#include "vrdma_mdev.h"

static void expired(struct work_struct *work)
{
	struct vrdma_handover *handover = container_of(work, struct vrdma_handover, timeout.work);

	vrdma_abandon_late(container_of(handover, struct vrdma_device, state.handover));
}

void vrdma_handover_init(struct vrdma_device *dev)
{
	INIT_DELAYED_WORK(&dev->state.handover.timeout, expired);
}

/* The file has no operations of this module, which could refer to the device and keep it. */
static struct file *get_file_of(int fd)
{
	struct file *file = fget(fd);

	if (!file)
		return ERR_PTR(-EBADF);
	if (!S_ISREG(file_inode(file)->i_mode)) {
		fput(file);
		return ERR_PTR(-EINVAL);
	}
	return file;
}

/* With the migration's lock held: the state of a device that its VM has stopped is the VM's. */
static bool is_stopped(const struct vrdma_device *dev)
{
	return dev->migration.state == VFIO_DEVICE_STATE_STOP ||
	       dev->migration.state == VFIO_DEVICE_STATE_STOP_COPY ||
	       dev->migration.state == VFIO_DEVICE_STATE_RESUMING ||
	       dev->migration.state == VFIO_DEVICE_STATE_ERROR;
}

/*
 * With the lock held, when STATUS is still the mediator's. Takes the file's reference, but not
 * during a reset, after which there is nothing to continue.
 */
static int begin(struct vrdma_state *state, u32 status, struct file **file)
{
	struct vrdma_handover *handover = &state->handover;

	lockdep_assert_held(&state->lock);

	if (state->abandoned || state->removed || handover->awaited)
		return -ENODEV;
	if (state->condition == VRDMA_FATAL)
		return -EBUSY;
	if (state->condition == VRDMA_LIVE) {
		state->condition = VRDMA_HANDED_OVER;
		swap(handover->file, *file);
	}
	handover->awaited = true;
	handover->status = status;
	handover->deadline = jiffies + VRDMA_MDEV_HANDOVER_SECONDS * HZ;
	/* That of an earlier handover may be left. */
	cancel_delayed_work(&handover->timeout);
	schedule_delayed_work(&handover->timeout, VRDMA_MDEV_HANDOVER_SECONDS * HZ);
	return 0;
}

static int hand_over(struct vrdma_device *dev, int fd)
{
	struct vrdma_state *state = &dev->state;
	struct file *file;
	u32 status;
	int ret;

	file = get_file_of(fd);
	if (IS_ERR(file))
		return PTR_ERR(file);
	status = vrdma_state_status(dev);
	spin_lock(&state->lock);
	ret = begin(state, status, &file);
	spin_unlock(&state->lock);
	if (file)
		fput(file);
	return ret;
}

/* A thread of the VM holds the lock while it waits for the mediator, which must not wait for it. */
int vrdma_hand_over(struct vrdma_device *dev, int fd)
{
	int ret;

	if (!mutex_trylock(&dev->migration.lock))
		return -EBUSY;
	ret = is_stopped(dev) ? -EBUSY : hand_over(dev, fd);
	mutex_unlock(&dev->migration.lock);
	return ret;
}

/* Returns an fd for the file that the predecessor has left. The device has none afterwards. */
int vrdma_take_over(struct vrdma_device *dev)
{
	struct vrdma_state *state = &dev->state;
	struct file *file;
	int fd;

	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		return fd;
	spin_lock(&state->lock);
	file = state->handover.file;
	state->handover.file = NULL;
	spin_unlock(&state->lock);
	if (!file) {
		put_unused_fd(fd);
		return -ENOENT;
	}
	fd_install(fd, file);
	return fd;
}

/* With the lock held: what the predecessor left is void. */
void vrdma_handover_forget(struct vrdma_state *state)
{
	lockdep_assert_held(&state->lock);

	if (state->handover.file)
		fput(state->handover.file);
	state->handover.file = NULL;
}

/* The device is removed, so nobody can hand it over again. */
void vrdma_handover_cancel(struct vrdma_device *dev)
{
	struct vrdma_state *state = &dev->state;

	cancel_delayed_work_sync(&state->handover.timeout);
	spin_lock(&state->lock);
	vrdma_handover_forget(state);
	spin_unlock(&state->lock);
}
