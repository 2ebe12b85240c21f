// SPDX-License-Identifier: GPL-2.0-only
/*
 * One mediated device, as the mdev bus creates and removes it and as VFIO opens and closes it.
 */
#include <linux/module.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "vrdma_mdev.h"

struct vrdma_device *vrdma_device_get(struct vrdma_device *dev)
{
	get_device(&dev->vdev.device);
	return dev;
}

void vrdma_device_put(struct vrdma_device *dev)
{
	vfio_put_device(&dev->vdev);
}

static struct vrdma_hca *hca_of(struct mdev_device *mdev)
{
	return container_of(mdev->type->parent, struct vrdma_hca, parent);
}

static u32 type_of(struct mdev_device *mdev)
{
	return container_of(mdev->type, struct vrdma_type, mdev) - hca_of(mdev)->types;
}

static int device_init(struct vfio_device *vdev)
{
	struct vrdma_device *dev = vrdma_device_of(vdev);
	struct mdev_device *mdev = to_mdev_device(vdev->dev);
	const struct vrdma_mdev_type *spec;
	int ret;

	dev->type = type_of(mdev);
	spec = &hca_of(mdev)->spec.types[dev->type];
	dev->pvrdma = spec->personality == VRDMA_MDEV_PERSONALITY_PVRDMA;
	dev->vectors = dev->pvrdma ? PVRDMA_VECTORS : spec->vectors;
	dev->doorbell_pages = spec->doorbell_pages;
	/* uuid_parse() gives the bytes in the order of the text; mdev->uuid has a guid's order. */
	ret = uuid_parse(dev_name(vdev->dev), &dev->uuid);
	if (ret)
		return ret;

	ret = vrdma_window_init(dev, spec->max_pinned);
	if (ret)
		return ret;
	dev->shadow = vmalloc_user(PAGE_SIZE);
	dev->doorbells = vrdma_doorbells_alloc(dev);
	if (!dev->shadow || !dev->doorbells) {
		vfree(dev->doorbells);
		vfree(dev->shadow);
		vrdma_window_destroy(dev);
		return -ENOMEM;
	}
	vrdma_state_init(dev);
	vrdma_irqs_init(dev);
	vrdma_config_init(dev);
	vrdma_migration_init(dev);
	vrdma_log_init(dev);
	return 0;
}

static void device_release(struct vfio_device *vdev)
{
	struct vrdma_device *dev = vrdma_device_of(vdev);

	vfree(dev->doorbells);
	vfree(dev->shadow);
	vrdma_window_destroy(dev);
	vrdma_vfio_free_device(vdev);
}

static int device_open(struct vfio_device *vdev)
{
	struct vrdma_device *dev = vrdma_device_of(vdev);
	int ret;

	ret = vrdma_doorbells_renew(dev);
	if (ret)
		return ret;
	ret = vrdma_pins_open(dev);
	if (ret)
		return ret;
	vrdma_file_open(&dev->window);
	vrdma_reset_open(dev, true);
	return 0;
}

static void device_close(struct vfio_device *vdev)
{
	struct vrdma_device *dev = vrdma_device_of(vdev);

	vrdma_irqs_close(dev);
	vrdma_migration_reset(dev);
	vrdma_reset_open(dev, false);
	vrdma_file_close(&dev->window);
	vrdma_pins_close(dev);
	vrdma_log_stop(&dev->window);
}

static long get_info(struct vfio_device_info __user *arg)
{
	const size_t minsz = offsetofend(struct vfio_device_info, num_irqs);
	struct vfio_device_info info;

	if (copy_from_user(&info, arg, minsz))
		return -EFAULT;
	if (info.argsz < minsz)
		return -EINVAL;
	info.flags = VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET;
	info.num_regions = VFIO_PCI_NUM_REGIONS;
	info.num_irqs = VFIO_PCI_NUM_IRQS;
	return copy_to_user(arg, &info, minsz) ? -EFAULT : 0;
}

static long get_region_info(struct vfio_device *vdev, struct vfio_region_info __user *arg)
{
	const size_t minsz = offsetofend(struct vfio_region_info, offset);
	struct vfio_region_info info;
	int ret;

	if (copy_from_user(&info, arg, minsz))
		return -EFAULT;
	if (info.argsz < minsz)
		return -EINVAL;
	ret = vrdma_region_info(vdev, &info, NULL);
	if (ret)
		return ret;
	return copy_to_user(arg, &info, minsz) ? -EFAULT : 0;
}

static long get_irq_info(struct vrdma_device *dev, struct vfio_irq_info __user *arg)
{
	const size_t minsz = offsetofend(struct vfio_irq_info, count);
	struct vfio_irq_info info;

	if (copy_from_user(&info, arg, minsz))
		return -EFAULT;
	if (info.argsz < minsz || info.index >= VFIO_PCI_NUM_IRQS)
		return -EINVAL;
	/* The same as vfio-pci for a device without AER; QEMU warns of a count of 0. */
	if (info.index == VFIO_PCI_ERR_IRQ_INDEX)
		return -EINVAL;
	info.count = vrdma_irq_count(dev, info.index);
	info.flags = info.count ? VFIO_IRQ_INFO_EVENTFD : 0;
	return copy_to_user(arg, &info, minsz) ? -EFAULT : 0;
}

static long set_irqs(struct vrdma_device *dev, struct vfio_irq_set __user *arg)
{
	const size_t minsz = offsetofend(struct vfio_irq_set, count);
	struct vfio_irq_set set;
	void *data = NULL;
	size_t size = 0;
	int ret;

	if (copy_from_user(&set, arg, minsz))
		return -EFAULT;
	ret = vfio_set_irqs_validate_and_prepare(&set, vrdma_irq_count(dev, set.index),
						 VFIO_PCI_NUM_IRQS, &size);
	if (ret)
		return ret;
	if (size) {
		data = memdup_user(arg->data, size);
		if (IS_ERR(data))
			return PTR_ERR(data);
	}
	ret = vrdma_irqs_set(dev, &set, data);
	kfree(data);
	return ret;
}

static long device_ioctl(struct vfio_device *vdev, unsigned int cmd, unsigned long arg)
{
	struct vrdma_device *dev = vrdma_device_of(vdev);
	void __user *user = (void __user *)arg;

	switch (cmd) {
	case VFIO_DEVICE_GET_INFO:
		return get_info(user);
	case VFIO_DEVICE_GET_REGION_INFO:
		return get_region_info(vdev, user);
	case VFIO_DEVICE_GET_IRQ_INFO:
		return get_irq_info(dev, user);
	case VFIO_DEVICE_SET_IRQS:
		return set_irqs(dev, user);
	case VFIO_DEVICE_RESET:
		vrdma_migration_reset(dev);
		vrdma_reset_function(dev);
		return 0;
	default:
		return -ENOTTY;
	}
}

static const struct vfio_device_ops device_ops = {
	.name = "vrdma",
	.init = device_init,
	.release = device_release,
	.open_device = device_open,
	.close_device = device_close,
	.read = vrdma_region_read,
	.write = vrdma_region_write,
	.ioctl = device_ioctl,
	.mmap = vrdma_region_mmap,
	.request = vrdma_irq_request,
	.dma_unmap = vrdma_window_dma_unmap,
	/* clang-format off */
	VRDMA_VFIO_IOMMUFD_OPS
	VRDMA_VFIO_DETACH_OPS
	VRDMA_VFIO_REGION_OPS
	VRDMA_VFIO_FEATURE_OPS
	/* clang-format on */
};

static int mdev_probe(struct mdev_device *mdev)
{
	struct vrdma_hca *hca = hca_of(mdev);
	struct vrdma_device *dev;
	int ret;

	ret = vrdma_hca_admit(hca, type_of(mdev));
	if (ret)
		return ret;
	dev = vfio_alloc_device(vrdma_device, vdev, &mdev->dev, &device_ops);
	if (IS_ERR(dev)) {
		ret = PTR_ERR(dev);
		goto err_dismiss;
	}
	ret = vfio_register_emulated_iommu_dev(&dev->vdev);
	if (ret)
		goto err_put;
	ret = vrdma_hca_publish(hca, dev);
	if (ret)
		goto err_unregister;
	dev_set_drvdata(&mdev->dev, dev);
	return 0;

err_unregister:
	vfio_unregister_group_dev(&dev->vdev);
err_put:
	vfio_put_device(&dev->vdev);
err_dismiss:
	vrdma_hca_dismiss(hca, type_of(mdev));
	return ret;
}

/* A VM that has the device keeps it, and its mediator, until it closes the device. */
static void mdev_remove(struct mdev_device *mdev)
{
	struct vrdma_device *dev = dev_get_drvdata(&mdev->dev);
	struct vrdma_hca *hca = hca_of(mdev);

	vfio_unregister_group_dev(&dev->vdev);
	vrdma_hca_unpublish(hca, dev);
	vrdma_state_remove(dev);
	vfio_put_device(&dev->vdev);
	vrdma_hca_dismiss(hca, type_of(mdev));
}

struct mdev_driver vrdma_mdev_driver = {
	.device_api = VFIO_DEVICE_API_PCI_STRING,
	.probe = mdev_probe,
	.remove = mdev_remove,
	.get_available = vrdma_hca_available,
	.show_description = vrdma_hca_describe,
	.driver = {
		.name = "vrdma-mdev",
		.owner = THIS_MODULE,
		.mod_name = KBUILD_MODNAME,
		.dev_groups = vrdma_device_groups,
		.suppress_bind_attrs = true,
	},
};
