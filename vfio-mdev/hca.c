// SPDX-License-Identifier: GPL-2.0-only
/* /dev/vrdma_mdev: a mediator registers an HCA, gets events for its devices, and opens them. */
#include <linux/device.h>
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/log2.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "vrdma_mdev.h"

#define MAX_INSTANCES 4096
#define MIN_DOORBELL_PAGES 2
#define MAX_DOORBELL_PAGES 4096
#define MIN_VECTORS 2

/* Whether the field is a string that is padded with zeroes. */
static bool valid_string(const char *field, size_t size)
{
	size_t length = strnlen(field, size);

	return length < size && !memchr_inv(field + length, 0, size - length);
}

/* A name becomes a part of file names in sysfs. */
static bool valid_name(const char *name)
{
	if (!valid_string(name, VRDMA_MDEV_NAME_SIZE) || !name[0])
		return false;
	return !name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")];
}

/* Accepts the names that a network interface may have, but for that which means no uplink. */
bool vrdma_valid_uplink(const char *name)
{
	const char *c;

	for (c = name; *c; c++)
		if (*c <= ' ' || *c > '~' || *c == '/')
			return false;
	return *name && strcmp(name, ".") && strcmp(name, "..") && strcmp(name, VRDMA_NO_UPLINK);
}

static bool valid_uplinks(const struct vrdma_mdev_register *spec)
{
	u32 i, j;

	if (spec->num_uplinks > VRDMA_MDEV_MAX_UPLINKS || spec->reserved)
		return false;
	for (i = 0; i < spec->num_uplinks; i++) {
		if (!valid_string(spec->uplinks[i], sizeof(spec->uplinks[i])) ||
		    !vrdma_valid_uplink(spec->uplinks[i]))
			return false;
		for (j = 0; j < i; j++)
			if (!strcmp(spec->uplinks[i], spec->uplinks[j]))
				return false;
	}
	return !memchr_inv(&spec->uplinks[i], 0,
			   (VRDMA_MDEV_MAX_UPLINKS - i) * sizeof(spec->uplinks[0]));
}

static bool valid_default_uplink(const struct vrdma_mdev_register *spec,
				 const struct vrdma_mdev_type *type)
{
	u32 i;

	if (!valid_string(type->uplink, sizeof(type->uplink)))
		return false;
	for (i = 0; i < spec->num_uplinks; i++)
		if (!strcmp(type->uplink, spec->uplinks[i]))
			return true;
	return !type->uplink[0];
}

static bool valid_personality(const struct vrdma_mdev_type *type)
{
	if (type->personality == VRDMA_MDEV_PERSONALITY_PVRDMA)
		return type->vectors >= PVRDMA_VECTORS;
	return type->personality == VRDMA_MDEV_PERSONALITY_VRDMA;
}

static bool valid_type(const struct vrdma_mdev_type *type)
{
	return valid_name(type->name) &&
	       valid_string(type->description, sizeof(type->description)) &&
	       type->max_instances >= 1 && type->max_instances <= MAX_INSTANCES &&
	       type->doorbell_pages >= MIN_DOORBELL_PAGES &&
	       type->doorbell_pages <= MAX_DOORBELL_PAGES && is_power_of_2(type->doorbell_pages) &&
	       type->vectors >= MIN_VECTORS && type->vectors <= VRDMA_MAX_VECTORS &&
	       valid_personality(type) && type->max_pinned >= PAGE_SIZE;
}

static bool valid_types(const struct vrdma_mdev_register *spec)
{
	u32 i, j;

	if (!spec->num_types || spec->num_types > VRDMA_MDEV_MAX_TYPES)
		return false;
	for (i = 0; i < spec->num_types; i++) {
		if (!valid_type(&spec->types[i]) || !valid_default_uplink(spec, &spec->types[i]))
			return false;
		for (j = 0; j < i; j++)
			if (!strcmp(spec->types[i].name, spec->types[j].name))
				return false;
	}
	return !memchr_inv(&spec->types[i], 0, (VRDMA_MDEV_MAX_TYPES - i) * sizeof(spec->types[0]));
}

static long register_hca(struct file *file, const void __user *arg)
{
	struct vrdma_mdev_register *spec;
	struct vrdma_hca *hca;
	long ret = 0;

	spec = memdup_user(arg, sizeof(*spec));
	if (IS_ERR(spec))
		return PTR_ERR(spec);

	if (spec->abi_version != VRDMA_MDEV_ABI_VERSION) {
		ret = -EPROTONOSUPPORT;
	} else if (!valid_name(spec->name) || !valid_uplinks(spec) || !valid_types(spec)) {
		ret = -EINVAL;
	} else {
		hca = vrdma_hca_register(spec);
		if (IS_ERR(hca)) {
			ret = PTR_ERR(hca);
		} else if (cmpxchg(&file->private_data, NULL, hca)) {
			/* The fd has an HCA already. */
			vrdma_hca_release(hca);
			ret = -EBUSY;
		}
	}
	kfree(spec);
	return ret;
}

static long open_device(struct vrdma_hca *hca, struct vrdma_mdev_open_device __user *arg)
{
	struct vrdma_mdev_open_device open;
	struct vrdma_device *dev;

	if (copy_from_user(&open, arg, sizeof(open)))
		return -EFAULT;

	mutex_lock(&hca->lock);
	dev = xa_load(&hca->devices, open.device);
	if (dev && !xa_is_value(dev))
		vrdma_device_get(dev);
	else
		dev = NULL;
	mutex_unlock(&hca->lock);
	if (!dev)
		return -ENOENT;

	open.fd = vrdma_mediator_open(dev);
	vrdma_device_put(dev);
	if (open.fd < 0)
		return open.fd;
	if (copy_to_user(arg, &open, sizeof(open))) {
		close_fd(open.fd);
		return -EFAULT;
	}
	return 0;
}

static long hca_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct vrdma_hca *hca = READ_ONCE(file->private_data);
	void __user *user = (void __user *)arg;

	switch (cmd) {
	case VRDMA_MDEV_REGISTER:
		return hca ? -EBUSY : register_hca(file, user);
	case VRDMA_MDEV_OPEN_DEVICE:
		return hca ? open_device(hca, user) : -ENODEV;
	default:
		return -ENOTTY;
	}
}

/* The event stays pending until take_event(). */
static bool next_event(struct vrdma_hca *hca, struct vrdma_mdev_event *event)
{
	unsigned long id = 0;
	void *entry;

	mutex_lock(&hca->lock);
	entry = xa_find(&hca->devices, &id, ULONG_MAX, VRDMA_EVENT_PENDING);
	event->device = id;
	event->type = entry == VRDMA_REMOVED ? VRDMA_MDEV_DEVICE_REMOVED : VRDMA_MDEV_DEVICE_ADDED;
	mutex_unlock(&hca->lock);
	return entry;
}

/*
 * The mediator has read the event. A device that was removed since then has another pending event.
 */
static void take_event(struct vrdma_hca *hca, const struct vrdma_mdev_event *event)
{
	mutex_lock(&hca->lock);
	if (event->type == VRDMA_MDEV_DEVICE_REMOVED)
		xa_erase(&hca->devices, event->device);
	else if (xa_load(&hca->devices, event->device) != VRDMA_REMOVED)
		xa_clear_mark(&hca->devices, event->device, VRDMA_EVENT_PENDING);
	mutex_unlock(&hca->lock);
}

/* An event that cannot be copied stays pending. */
static ssize_t read_events(struct vrdma_hca *hca, char __user *buf, size_t count)
{
	struct vrdma_mdev_event event;
	size_t done;

	for (done = 0; count - done >= sizeof(event); done += sizeof(event)) {
		if (!next_event(hca, &event))
			break;
		if (copy_to_user(buf + done, &event, sizeof(event)))
			return done ? done : -EFAULT;
		take_event(hca, &event);
	}
	return done ? done : -EAGAIN;
}

static ssize_t hca_read(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	struct vrdma_hca *hca = READ_ONCE(file->private_data);
	ssize_t ret;

	if (!hca)
		return -ENODEV;
	if (count < sizeof(struct vrdma_mdev_event))
		return -EINVAL;
	if (mutex_lock_killable(&hca->read_lock))
		return -EINTR;
	ret = read_events(hca, buf, count);
	mutex_unlock(&hca->read_lock);
	return ret;
}

static __poll_t hca_poll(struct file *file, poll_table *wait)
{
	struct vrdma_hca *hca = READ_ONCE(file->private_data);

	if (!hca)
		return EPOLLERR;
	poll_wait(file, &hca->wait, wait);
	return xa_marked(&hca->devices, VRDMA_EVENT_PENDING) ? EPOLLIN | EPOLLRDNORM : 0;
}

static int hca_open(struct inode *inode, struct file *file)
{
	file->private_data = NULL; /* misc_open() has set its own pointer */
	return nonseekable_open(inode, file);
}

static int hca_close(struct inode *inode, struct file *file)
{
	struct vrdma_hca *hca = file->private_data;

	if (hca)
		vrdma_hca_release(hca);
	return 0;
}

/*
 * Announces a new device to the mediator. If the mediator died meanwhile, the device is FATAL from
 * the start, before a next mediator can open it.
 */
int vrdma_hca_publish(struct vrdma_hca *hca, struct vrdma_device *dev)
{
	int ret;

	mutex_lock(&hca->lock);
	ret = xa_alloc_cyclic(&hca->devices, &dev->id, dev, XA_LIMIT(1, INT_MAX), &hca->next_id,
			      GFP_KERNEL);
	if (ret >= 0)
		xa_set_mark(&hca->devices, dev->id, VRDMA_EVENT_PENDING);
	if (ret >= 0 && !hca->serving)
		vrdma_abandon(dev);
	mutex_unlock(&hca->lock);
	if (ret < 0)
		return ret;

	wake_up_interruptible(&hca->wait);
	return 0;
}

void vrdma_hca_unpublish(struct vrdma_hca *hca, struct vrdma_device *dev)
{
	mutex_lock(&hca->lock);
	if (!hca->serving || xa_get_mark(&hca->devices, dev->id, VRDMA_EVENT_PENDING)) {
		xa_erase(&hca->devices, dev->id);
	} else {
		/* Replaces an entry, so it needs no memory. */
		xa_store(&hca->devices, dev->id, VRDMA_REMOVED, GFP_KERNEL);
		xa_set_mark(&hca->devices, dev->id, VRDMA_EVENT_PENDING);
	}
	mutex_unlock(&hca->lock);
	wake_up_interruptible(&hca->wait);
}

static const struct file_operations hca_fops = {
	.owner = THIS_MODULE,
	.open = hca_open,
	.release = hca_close,
	.read = hca_read,
	.poll = hca_poll,
	.unlocked_ioctl = hca_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

/* An upgrade asks whether the next mediator fits this module, before it ends the present one. */
static ssize_t abi_version_show(struct device *device, struct device_attribute *attribute,
				char *buf)
{
	return sysfs_emit(buf, "%u\n", VRDMA_MDEV_ABI_VERSION);
}
static DEVICE_ATTR_RO(abi_version);

static struct attribute *hca_attrs[] = { &dev_attr_abi_version.attr, NULL };
ATTRIBUTE_GROUPS(hca);

static struct miscdevice hca_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "vrdma_mdev",
	.fops = &hca_fops,
	.groups = hca_groups,
	.mode = 0600,
};

static int __init vrdma_mdev_init(void)
{
	int ret = vrdma_parent_init();

	if (ret)
		return ret;
	ret = misc_register(&hca_device);
	if (ret)
		vrdma_parent_exit();
	return ret;
}

static void __exit vrdma_mdev_exit(void)
{
	misc_deregister(&hca_device);
	vrdma_parent_exit();
	vrdma_unmap_exit();
}

module_init(vrdma_mdev_init);
module_exit(vrdma_mdev_exit);

MODULE_DESCRIPTION("vrdma: mediated RDMA devices");
MODULE_AUTHOR("vrdma");
MODULE_LICENSE("GPL");
MODULE_VERSION(VRDMA_RELEASE);
