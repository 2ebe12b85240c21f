// SPDX-License-Identifier: GPL-2.0-only
/* The device fd, through which the mediator serves one device. */
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "vrdma_mdev.h"

/* A message that cannot be copied stays pending. */
static ssize_t read_messages(struct vrdma_device *dev, char __user *buf, size_t count)
{
	struct vrdma_mdev_message message;
	size_t done;
	u32 head;

	for (done = 0; count - done >= sizeof(message); done += sizeof(message)) {
		if (!vrdma_next_message(dev, &message, &head))
			break;
		if (copy_to_user(buf + done, &message, sizeof(message)))
			return done ? done : -EFAULT;
		vrdma_take_message(dev, &message, head);
	}
	return done ? done : -EAGAIN;
}

static ssize_t mediator_read(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	struct vrdma_device *dev = file->private_data;
	ssize_t ret;

	if (count < sizeof(struct vrdma_mdev_message))
		return -EINVAL;
	if (vrdma_state_defunct(dev))
		return -ENODEV;
	if (mutex_lock_killable(&dev->state.read_lock))
		return -EINTR;
	ret = read_messages(dev, buf, count);
	mutex_unlock(&dev->state.read_lock);
	return ret;
}

static __poll_t mediator_poll(struct file *file, poll_table *wait)
{
	struct vrdma_device *dev = file->private_data;

	poll_wait(file, &dev->state.wait, wait);
	if (vrdma_state_defunct(dev))
		return EPOLLHUP | EPOLLERR;
	return vrdma_has_message(dev) ? EPOLLIN | EPOLLRDNORM : 0;
}

static long device_info(struct vrdma_device *dev, void __user *arg)
{
	struct vrdma_state *state = &dev->state;
	struct vrdma_mdev_device_info info = { .type = dev->type };

	static_assert(sizeof(info.uuid) == sizeof(dev->uuid));
	memcpy(info.uuid, &dev->uuid, sizeof(info.uuid));
	spin_lock(&state->lock);
	info.open = state->open;
	info.reset_generation = state->generation;
	memcpy(info.mac, state->mac, sizeof(info.mac));
	memcpy(info.addresses, state->addresses, sizeof(info.addresses));
	info.uplink_set = state->uplink_set;
	memcpy(info.uplink, state->uplink, sizeof(info.uplink));
	info.vlans_set = state->vlans_set;
	bitmap_to_arr64(info.vlans, state->vlans, VRDMA_MDEV_VLANS);
	info.share = state->share;
	spin_unlock(&state->lock);
	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

static long reset_done(struct vrdma_device *dev, void __user *arg)
{
	struct vrdma_mdev_reset_done done;

	if (copy_from_user(&done, arg, sizeof(done)))
		return -EFAULT;
	if (done.reserved)
		return -EINVAL;
	return vrdma_reset_done(dev, done.generation);
}

static long set_kick(struct vrdma_device *dev, void __user *arg)
{
	struct vrdma_mdev_kick kick;
	struct eventfd_ctx *eventfd = NULL;

	if (copy_from_user(&kick, arg, sizeof(kick)))
		return -EFAULT;
	if (kick.reserved || kick.eventfd < -1)
		return -EINVAL;
	if (kick.eventfd >= 0) {
		eventfd = eventfd_ctx_fdget(kick.eventfd);
		if (IS_ERR(eventfd))
			return PTR_ERR(eventfd);
	}
	vrdma_state_set_kick(dev, eventfd);
	return 0;
}

static long raise(struct vrdma_device *dev, unsigned long vector)
{
	if (vector >= dev->vectors)
		return -EINVAL;
	vrdma_irq_raise(dev, vector);
	return 0;
}

static bool in_window(u64 iova, u64 length)
{
	return length && PAGE_ALIGNED(iova | length) && length <= VRDMA_MDEV_WINDOW_SIZE &&
	       iova <= VRDMA_MDEV_WINDOW_SIZE - length;
}

static long unpin(struct vrdma_device *dev, void __user *arg)
{
	struct vrdma_mdev_range range;

	if (copy_from_user(&range, arg, sizeof(range)))
		return -EFAULT;
	if (!in_window(range.iova, range.length))
		return -EINVAL;
	vrdma_window_unpin(dev, range.iova, range.length);
	return 0;
}

static long step_done(struct vrdma_device *dev, void __user *arg)
{
	struct vrdma_mdev_step_done done;

	if (copy_from_user(&done, arg, sizeof(done)))
		return -EFAULT;
	if (done.error > VRDMA_MDEV_MAX_ERRNO)
		return -EINVAL;
	return vrdma_step_done(dev, done.number, done.error);
}

static long hand_over(struct vrdma_device *dev, void __user *arg)
{
	struct vrdma_mdev_handover handover;

	if (copy_from_user(&handover, arg, sizeof(handover)))
		return -EFAULT;
	if (handover.reserved)
		return -EINVAL;
	return vrdma_hand_over(dev, handover.file);
}

static long open_transfer(struct vrdma_device *dev)
{
	struct vrdma_transfer *transfer = vrdma_state_transfer(dev);

	return transfer ? vrdma_transfer_open(transfer) : -ENOENT;
}

static long precopy(struct vrdma_device *dev, void __user *arg)
{
	struct vrdma_transfer *transfer = vrdma_state_transfer(dev);
	struct vrdma_mdev_precopy precopy;
	bool moves;

	if (!transfer)
		return -ENOENT;
	moves = vrdma_transfer_passes(transfer, &precopy.passes);
	vrdma_transfer_put(transfer);
	if (!moves)
		return -ENOENT;
	vrdma_pins_count(&dev->window, &precopy);
	return copy_to_user(arg, &precopy, sizeof(precopy)) ? -EFAULT : 0;
}

static long install_file(struct file *file, struct vrdma_mdev_file *answer, void __user *arg)
{
	answer->fd = get_unused_fd_flags(O_CLOEXEC);
	if (answer->fd < 0)
		return answer->fd;
	if (copy_to_user(arg, answer, sizeof(*answer))) {
		put_unused_fd(answer->fd);
		return -EFAULT;
	}
	fd_install(answer->fd, get_file(file));
	return 0;
}

static long give_file(struct vrdma_device *dev, void __user *arg)
{
	struct vrdma_mdev_file answer;
	unsigned long count;
	struct file *file;
	pgoff_t pgoff;
	long ret;

	if (copy_from_user(&answer, arg, sizeof(answer)))
		return -EFAULT;
	if (answer.reserved || !in_window(answer.iova, answer.length))
		return -EINVAL;
	count = answer.length >> PAGE_SHIFT;
	file = vrdma_file_of(dev, answer.iova >> PAGE_SHIFT, &count, &pgoff);
	if (IS_ERR(file))
		return PTR_ERR(file);
	answer.length = (u64)count << PAGE_SHIFT;
	answer.offset = (u64)pgoff << PAGE_SHIFT;
	ret = install_file(file, &answer, arg);
	fput(file);
	return ret;
}

static long mediator_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct vrdma_device *dev = file->private_data;
	void __user *user = (void __user *)arg;

	if (vrdma_state_defunct(dev))
		return -ENODEV;

	switch (cmd) {
	case VRDMA_MDEV_DEVICE_INFO:
		return device_info(dev, user);
	case VRDMA_MDEV_RESET_DONE:
		return reset_done(dev, user);
	case VRDMA_MDEV_SET_KICK:
		return set_kick(dev, user);
	case VRDMA_MDEV_RAISE:
		return raise(dev, arg);
	case VRDMA_MDEV_UNPIN:
		return unpin(dev, user);
	case VRDMA_MDEV_STEP_DONE:
		return step_done(dev, user);
	case VRDMA_MDEV_TRANSFER:
		return open_transfer(dev);
	case VRDMA_MDEV_HAND_OVER:
		return hand_over(dev, user);
	case VRDMA_MDEV_TAKE_OVER:
		return vrdma_take_over(dev);
	case VRDMA_MDEV_PRECOPY:
		return precopy(dev, user);
	case VRDMA_MDEV_FILE:
		return give_file(dev, user);
	case VRDMA_MDEV_WRITE_DONE:
		return arg > U32_MAX ? -EINVAL : vrdma_write_done(dev, arg);
	default:
		return -ENOTTY;
	}
}

static int mmap_info(struct vrdma_device *dev, struct vm_area_struct *vma, unsigned long page)
{
	if (vma->vm_flags & VM_WRITE)
		return -EPERM;
	vm_flags_clear(vma, VM_MAYWRITE);
	return remap_vmalloc_range(vma, dev->window.info, page);
}

/* remap_vmalloc_range() refuses ranges that go beyond its area. */
static int mediator_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct vrdma_device *dev = file->private_data;
	unsigned long page = vma->vm_pgoff;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (vrdma_state_defunct(dev))
		return -ENODEV;
	vrdma_window_attach(dev, file_inode(file));

	if (page >= VRDMA_MDEV_MMAP_WINDOW >> PAGE_SHIFT)
		return vrdma_window_mmap(dev, vma);
	if (page >= VRDMA_MDEV_MMAP_DOORBELLS >> PAGE_SHIFT)
		return vrdma_doorbells_mmap(dev, vma,
					    page - (VRDMA_MDEV_MMAP_DOORBELLS >> PAGE_SHIFT));
	if (page >= VRDMA_MDEV_MMAP_INFO >> PAGE_SHIFT)
		return mmap_info(dev, vma, page - (VRDMA_MDEV_MMAP_INFO >> PAGE_SHIFT));
	return remap_vmalloc_range(vma, dev->shadow, page);
}

static int mediator_release(struct inode *inode, struct file *file)
{
	struct vrdma_device *dev = file->private_data;

	vrdma_window_detach(dev);
	vrdma_release(dev);
	vrdma_device_put(dev);
	return 0;
}

static const struct file_operations mediator_fops = {
	.owner = THIS_MODULE,
	.read = mediator_read,
	.poll = mediator_poll,
	.unlocked_ioctl = mediator_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = mediator_mmap,
	.release = mediator_release,
	.llseek = noop_llseek,
};

/*
 * Returns an fd. Its inode is not the one that anonymous files share, because the window needs its
 * own address_space for unmapping pages.
 */
int vrdma_mediator_open(struct vrdma_device *dev)
{
	int ret = vrdma_adopt(dev);

	if (ret)
		return ret;
	vrdma_device_get(dev);
	ret = vrdma_anon_inode_getfd("[vrdma-mdev]", &mediator_fops, dev,
				     O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (ret < 0) {
		vrdma_release(dev);
		vrdma_device_put(dev);
	}
	return ret;
}
