// SPDX-License-Identifier: GPL-2.0-only
/*
 * A device's state on its way between the VM's file and the mediator's: a pipe of a bounded size.
 *
 * The VM's side waits for the mediator, but at most TRANSFER_TIME. A write of the VM returns when
 * the mediator has read all of it and found no error: QEMU gives the migration up if a write fails,
 * but it cannot do so after the last write. The mediator's side never waits. Bytes pass through a
 * separate page for each caller, so that no lock is held while memory of a VM's process is touched.
 *
 * A transfer that begins while the VM runs (PRE_COPY) first carries what the mediator has written
 * until then, and what it has promised to write. A VM that has read all of it gets ENOMSG, and does
 * not wait.
 */
#include <linux/anon_inodes.h>
#include <linux/fs.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "vrdma_mdev.h"

#define TRANSFER_TIME (10 * HZ)

struct vrdma_transfer {
	struct kref ref;
	bool saving;	 /* from the mediator to the VM, else the reverse */
	spinlock_t lock; /* everything below */
	wait_queue_head_t wait;
	bool taken;   /* the mediator has opened its end */
	bool early;   /* the VM runs: the device's state comes later */
	u64 promised; /* bytes that the mediator will write while early */
	u64 rest;     /* its estimate of the bytes after them */
	u64 passes;   /* how often the VM monitor has asked what is left, while early */
	bool ended;   /* nothing more will be written */
	bool drained; /* the reader has asked for more than there was */
	int error;    /* the reason if it ended early */
	u32 head, tail;
	u8 bytes[VRDMA_TRANSFER_SIZE];
};

struct vrdma_transfer *vrdma_transfer_create(bool saving, bool early)
{
	struct vrdma_transfer *transfer = kvzalloc(sizeof(*transfer), GFP_KERNEL_ACCOUNT);

	if (!transfer)
		return NULL;
	kref_init(&transfer->ref);
	transfer->saving = saving;
	transfer->early = early;
	spin_lock_init(&transfer->lock);
	init_waitqueue_head(&transfer->wait);
	return transfer;
}

static void transfer_free(struct kref *ref)
{
	kvfree(container_of(ref, struct vrdma_transfer, ref));
}

struct vrdma_transfer *vrdma_transfer_get(struct vrdma_transfer *transfer)
{
	kref_get(&transfer->ref);
	return transfer;
}

void vrdma_transfer_put(struct vrdma_transfer *transfer)
{
	kref_put(&transfer->ref, transfer_free);
}

/*
 * Ends the transfer: after the written bytes if error is 0, else at once. Only the first call
 * counts.
 */
void vrdma_transfer_end(struct vrdma_transfer *transfer, int error)
{
	spin_lock(&transfer->lock);
	if (!transfer->ended && !transfer->error) {
		transfer->ended = !error;
		transfer->error = error;
	}
	spin_unlock(&transfer->lock);
	wake_up(&transfer->wait);
}

/* The VM has stopped: from now on, it waits for the device's state. Returns why none will come. */
int vrdma_transfer_stop(struct vrdma_transfer *transfer)
{
	int error;

	spin_lock(&transfer->lock);
	transfer->early = false;
	transfer->promised = 0;
	error = transfer->error;
	spin_unlock(&transfer->lock);
	return error;
}

/* Succeeds once: a second end of the mediator's would take bytes from the first. */
static bool take(struct vrdma_transfer *transfer)
{
	bool first;

	spin_lock(&transfer->lock);
	first = !transfer->taken;
	transfer->taken = true;
	spin_unlock(&transfer->lock);
	return first;
}

/* Writes as much as there is room for. -EAGAIN if there is none. */
static ssize_t push(struct vrdma_transfer *transfer, const u8 *bytes, u32 count)
{
	u32 at, first;
	ssize_t ret;

	spin_lock(&transfer->lock);
	count = min_t(u32, count, VRDMA_TRANSFER_SIZE - (transfer->tail - transfer->head));
	at = transfer->tail % VRDMA_TRANSFER_SIZE;
	first = min_t(u32, count, VRDMA_TRANSFER_SIZE - at);
	if (transfer->error) {
		ret = transfer->error;
	} else if (transfer->ended) {
		ret = -EPIPE;
	} else if (!count) {
		ret = -EAGAIN;
	} else {
		memcpy(transfer->bytes + at, bytes, first);
		memcpy(transfer->bytes, bytes + first, count - first);
		transfer->tail += count;
		transfer->promised -= min_t(u64, transfer->promised, count);
		transfer->drained = false;
		ret = count;
	}
	spin_unlock(&transfer->lock);
	if (ret > 0)
		wake_up(&transfer->wait);
	return ret;
}

/* The result of a read when there is nothing. */
static int empty(const struct vrdma_transfer *transfer)
{
	if (transfer->ended)
		return 0;
	return transfer->early && !transfer->promised ? -ENOMSG : -EAGAIN;
}

/*
 * Reads as much as there is. If there is nothing: 0 at the end, -ENOMSG if nothing comes before the
 * VM has stopped, else -EAGAIN.
 */
static ssize_t pull(struct vrdma_transfer *transfer, u8 *bytes, u32 count)
{
	bool drained = false;
	u32 at, first;
	ssize_t ret;

	spin_lock(&transfer->lock);
	count = min_t(u32, count, transfer->tail - transfer->head);
	at = transfer->head % VRDMA_TRANSFER_SIZE;
	first = min_t(u32, count, VRDMA_TRANSFER_SIZE - at);
	if (transfer->error) {
		ret = transfer->error;
	} else if (!count) {
		drained = !transfer->drained;
		transfer->drained = true;
		ret = empty(transfer);
	} else {
		memcpy(bytes, transfer->bytes + at, first);
		memcpy(bytes + first, transfer->bytes, count - first);
		transfer->head += count;
		ret = count;
	}
	spin_unlock(&transfer->lock);
	if (ret > 0 || drained)
		wake_up(&transfer->wait);
	return ret;
}

static bool may_push(struct vrdma_transfer *transfer)
{
	bool may;

	spin_lock(&transfer->lock);
	may = transfer->error || transfer->ended ||
	      transfer->tail - transfer->head < VRDMA_TRANSFER_SIZE;
	spin_unlock(&transfer->lock);
	return may;
}

static bool may_pull(struct vrdma_transfer *transfer)
{
	bool may;

	spin_lock(&transfer->lock);
	may = transfer->error || transfer->ended || transfer->tail != transfer->head;
	spin_unlock(&transfer->lock);
	return may;
}

/* The reader has handled all that was written and asked for more, or never will. */
static bool is_settled(struct vrdma_transfer *transfer)
{
	bool settled;

	spin_lock(&transfer->lock);
	settled = transfer->error || transfer->ended || transfer->drained;
	spin_unlock(&transfer->lock);
	return settled;
}

static int transfer_error(struct vrdma_transfer *transfer)
{
	int error;

	spin_lock(&transfer->lock);
	error = transfer->error;
	spin_unlock(&transfer->lock);
	return error;
}

/* Reads up to a page: the caller calls again for more. */
static ssize_t read_once(struct vrdma_transfer *transfer, char __user *buf, size_t count)
{
	u8 *page = (u8 *)__get_free_page(GFP_KERNEL);
	ssize_t ret;

	if (!page)
		return -ENOMEM;
	ret = pull(transfer, page, min_t(size_t, count, PAGE_SIZE));
	if (ret > 0 && copy_to_user(buf, page, ret))
		ret = -EFAULT;
	free_page((unsigned long)page);
	return ret;
}

static ssize_t write_once(struct vrdma_transfer *transfer, const char __user *buf, size_t count)
{
	u8 *page = (u8 *)__get_free_page(GFP_KERNEL);
	ssize_t ret = -EFAULT;

	if (!page)
		return -ENOMEM;
	count = min_t(size_t, count, PAGE_SIZE);
	if (!copy_from_user(page, buf, count))
		ret = push(transfer, page, count);
	free_page((unsigned long)page);
	return ret;
}

/* The result of a wait for the mediator: 0, or the errno for the VM. */
static int waited(long left)
{
	return left > 0 ? 0 : left ? left : -ETIMEDOUT;
}

static ssize_t vm_read(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	struct vrdma_transfer *transfer = file->private_data;
	ssize_t ret;

	if (!count)
		return 0;
	while ((ret = read_once(transfer, buf, count)) == -EAGAIN) {
		ret = waited(wait_event_interruptible_timeout(transfer->wait, may_pull(transfer),
							      TRANSFER_TIME));
		if (ret)
			break;
	}
	return ret;
}

/* Writes all of it, because QEMU treats a short write as an error. */
static ssize_t vm_write(struct file *file, const char __user *buf, size_t count, loff_t *pos)
{
	struct vrdma_transfer *transfer = file->private_data;
	size_t done = 0;
	ssize_t ret = 0;
	long left;

	while (done < count) {
		ret = write_once(transfer, buf + done, count - done);
		if (ret == -EAGAIN)
			ret = waited(wait_event_interruptible_timeout(transfer->wait,
								      may_push(transfer),
								      TRANSFER_TIME));
		if (ret < 0)
			return done ? done : ret;
		done += ret;
	}
	/* Only a fatal signal ends this wait: a restarted call would write everything again. */
	left = wait_event_killable_timeout(transfer->wait, is_settled(transfer), TRANSFER_TIME);
	ret = waited(left);
	if (!ret)
		ret = transfer_error(transfer);
	return ret ? ret : done;
}

/* What the VM can read before it stops. Nothing else is added to it later. */
static int early_bytes(struct vrdma_transfer *transfer, u64 *bytes)
{
	int ret;

	spin_lock(&transfer->lock);
	ret = transfer->early ? transfer->error : -EINVAL;
	*bytes = transfer->tail - transfer->head + transfer->promised;
	transfer->passes += !ret;
	spin_unlock(&transfer->lock);
	return ret;
}

/* QEMU asks what is left once in each pass. Returns false if the VM has stopped. */
bool vrdma_transfer_passes(struct vrdma_transfer *transfer, u64 *passes)
{
	bool early;

	spin_lock(&transfer->lock);
	early = transfer->early;
	*passes = transfer->passes;
	spin_unlock(&transfer->lock);
	return early;
}

/* How much the VM will have to read after it has stopped, as far as that is known. */
u64 vrdma_transfer_rest(struct vrdma_transfer *transfer)
{
	u64 rest;

	spin_lock(&transfer->lock);
	rest = transfer->rest;
	spin_unlock(&transfer->lock);
	return rest;
}

static long vm_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	const size_t size = offsetofend(struct vfio_precopy_info, dirty_bytes);
	void __user *const user = (void __user *)arg;
	struct vfio_precopy_info info = {};
	int ret;

	if (cmd != VFIO_MIG_GET_PRECOPY_INFO)
		return -ENOTTY;
	if (copy_from_user(&info, user, size))
		return -EFAULT;
	if (info.argsz < size)
		return -EINVAL;
	ret = early_bytes(file->private_data, &info.initial_bytes);
	if (ret)
		return ret;
	info.flags = 0;
	info.dirty_bytes = 0;
	return copy_to_user(user, &info, size) ? -EFAULT : 0;
}

/* If the VM closes its file, the mediator stops saving. Bytes that the VM has written stay. */
static int vm_release(struct inode *inode, struct file *file)
{
	struct vrdma_transfer *transfer = file->private_data;

	if (transfer->saving)
		vrdma_transfer_end(transfer, -EPIPE);
	vrdma_transfer_put(transfer);
	return 0;
}

static const struct file_operations vm_saving_fops = {
	.owner = THIS_MODULE,
	.read = vm_read,
	.unlocked_ioctl = vm_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.release = vm_release,
};

static const struct file_operations vm_loading_fops = {
	.owner = THIS_MODULE,
	.write = vm_write,
	.release = vm_release,
};

struct file *vrdma_transfer_vm_file(struct vrdma_transfer *transfer)
{
	const struct file_operations *fops = transfer->saving ? &vm_saving_fops : &vm_loading_fops;
	struct file *file = anon_inode_getfile("[vrdma-migration]", fops,
					       vrdma_transfer_get(transfer),
					       transfer->saving ? O_RDONLY : O_WRONLY);

	if (IS_ERR(file))
		vrdma_transfer_put(transfer);
	else
		stream_open(file_inode(file), file);
	return file;
}

static ssize_t mediator_read(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	struct vrdma_transfer *transfer = file->private_data;

	if (transfer->saving)
		return -EBADF;
	return count ? read_once(transfer, buf, count) : 0;
}

static ssize_t mediator_write(struct file *file, const char __user *buf, size_t count, loff_t *pos)
{
	struct vrdma_transfer *transfer = file->private_data;

	if (!transfer->saving)
		return -EBADF;
	return count ? write_once(transfer, buf, count) : 0;
}

static __poll_t mediator_poll(struct file *file, poll_table *wait)
{
	struct vrdma_transfer *transfer = file->private_data;
	__poll_t events = 0;

	poll_wait(file, &transfer->wait, wait);
	if (transfer_error(transfer))
		events |= EPOLLERR;
	if (transfer->saving && may_push(transfer))
		events |= EPOLLOUT | EPOLLWRNORM;
	if (!transfer->saving && (may_pull(transfer) || !is_settled(transfer)))
		events |= EPOLLIN | EPOLLRDNORM;
	return events;
}

static int promise(struct vrdma_transfer *transfer, const void __user *arg)
{
	struct vrdma_mdev_ahead ahead;
	int ret = -EINVAL;

	if (copy_from_user(&ahead, arg, sizeof(ahead)))
		return -EFAULT;
	spin_lock(&transfer->lock);
	if (transfer->early && !transfer->promised) {
		transfer->promised = ahead.bytes;
		transfer->rest = ahead.rest;
		ret = 0;
	}
	spin_unlock(&transfer->lock);
	return ret;
}

static int end(struct vrdma_transfer *transfer, unsigned long error)
{
	if (error > VRDMA_MDEV_MAX_ERRNO)
		return -EINVAL;
	vrdma_transfer_end(transfer, -(int)error);
	return 0;
}

static long mediator_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	switch (cmd) {
	case VRDMA_MDEV_TRANSFER_END:
		return end(file->private_data, arg);
	case VRDMA_MDEV_TRANSFER_AHEAD:
		return promise(file->private_data, (const void __user *)arg);
	default:
		return -ENOTTY;
	}
}

/* If the mediator has not ended the transfer before, it has died in the middle. */
static int mediator_release(struct inode *inode, struct file *file)
{
	struct vrdma_transfer *transfer = file->private_data;

	vrdma_transfer_end(transfer, -EIO);
	vrdma_transfer_put(transfer);
	return 0;
}

static const struct file_operations mediator_fops = {
	.owner = THIS_MODULE,
	.read = mediator_read,
	.write = mediator_write,
	.poll = mediator_poll,
	.unlocked_ioctl = mediator_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.release = mediator_release,
};

/* Returns an fd, and consumes the caller's reference. */
int vrdma_transfer_open(struct vrdma_transfer *transfer)
{
	int ret = -EBUSY;

	if (take(transfer))
		ret = anon_inode_getfd("[vrdma-migration]", &mediator_fops, transfer,
				       O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (ret < 0)
		vrdma_transfer_put(transfer);
	return ret;
}
