// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupts: MSI-X vectors, and the request to give the device back.
 *
 * QEMU enables vectors one at a time. Each time it removes all eventfds and sets them anew. A
 * vector that is raised in between stays pending, and is signalled when its eventfd is set.
 */
#include "vrdma_mdev.h"

void vrdma_irqs_init(struct vrdma_device *dev)
{
	spin_lock_init(&dev->irqs.lock);
}

u32 vrdma_irq_count(const struct vrdma_device *dev, u32 index)
{
	switch (index) {
	case VFIO_PCI_MSIX_IRQ_INDEX:
		return dev->vectors;
	case VFIO_PCI_REQ_IRQ_INDEX:
		return 1;
	default:
		return 0;
	}
}

void vrdma_irq_raise(struct vrdma_device *dev, u32 vector)
{
	struct vrdma_irqs *irqs = &dev->irqs;

	spin_lock(&irqs->lock);
	if (irqs->msix[vector])
		vrdma_eventfd_signal(irqs->msix[vector]);
	else
		__set_bit(vector, irqs->pending);
	spin_unlock(&irqs->lock);
}

static void set_vector(struct vrdma_irqs *irqs, u32 vector, struct eventfd_ctx *eventfd)
{
	spin_lock(&irqs->lock);
	swap(irqs->msix[vector], eventfd);
	if (irqs->msix[vector] && __test_and_clear_bit(vector, irqs->pending))
		vrdma_eventfd_signal(irqs->msix[vector]);
	spin_unlock(&irqs->lock);
	if (eventfd)
		eventfd_ctx_put(eventfd);
}

static void set_request(struct vrdma_irqs *irqs, struct eventfd_ctx *eventfd)
{
	spin_lock(&irqs->lock);
	swap(irqs->request, eventfd);
	spin_unlock(&irqs->lock);
	if (eventfd)
		eventfd_ctx_put(eventfd);
}

static void set_one(struct vrdma_irqs *irqs, u32 index, u32 vector, struct eventfd_ctx *eventfd)
{
	if (index == VFIO_PCI_MSIX_IRQ_INDEX)
		set_vector(irqs, vector, eventfd);
	else
		set_request(irqs, eventfd);
}

static int set_eventfd(struct vrdma_irqs *irqs, u32 index, u32 vector, s32 fd)
{
	struct eventfd_ctx *eventfd = NULL;

	if (fd < -1)
		return -EINVAL;
	if (fd >= 0) {
		eventfd = eventfd_ctx_fdget(fd);
		if (IS_ERR(eventfd))
			return PTR_ERR(eventfd);
	}
	set_one(irqs, index, vector, eventfd);
	return 0;
}

/* A VM triggers its own interrupt, as a loopback test. */
static void trigger_one(struct vrdma_device *dev, u32 index, u32 vector)
{
	if (index == VFIO_PCI_MSIX_IRQ_INDEX)
		vrdma_irq_raise(dev, vector);
	else
		vrdma_irq_request(&dev->vdev, 0);
}

/* @set was validated by vfio_set_irqs_validate_and_prepare() with vrdma_irq_count(). */
int vrdma_irqs_set(struct vrdma_device *dev, const struct vfio_irq_set *set, const void *data)
{
	struct vrdma_irqs *irqs = &dev->irqs;
	u32 i;
	int ret;

	/* QEMU masks MSI-X itself, in its own table. */
	if ((set->flags & VFIO_IRQ_SET_ACTION_TYPE_MASK) != VFIO_IRQ_SET_ACTION_TRIGGER)
		return -ENOTTY;

	if ((set->flags & VFIO_IRQ_SET_DATA_NONE) && !set->count) {
		for (i = 0; i < vrdma_irq_count(dev, set->index); i++)
			set_one(irqs, set->index, i, NULL);
		return 0;
	}

	for (i = 0; i < set->count; i++) {
		u32 vector = set->start + i;

		if (set->flags & VFIO_IRQ_SET_DATA_EVENTFD) {
			ret = set_eventfd(irqs, set->index, vector, ((const s32 *)data)[i]);
			if (ret)
				return ret;
		} else if ((set->flags & VFIO_IRQ_SET_DATA_NONE) || ((const u8 *)data)[i]) {
			trigger_one(dev, set->index, vector);
		}
	}
	return 0;
}

/* VFIO calls this from time to time while removal waits for the VM to close the device. */
void vrdma_irq_request(struct vfio_device *vdev, unsigned int count)
{
	struct vrdma_irqs *irqs = &vrdma_device_of(vdev)->irqs;

	spin_lock(&irqs->lock);
	if (irqs->request)
		vrdma_eventfd_signal(irqs->request);
	else if (!count)
		dev_notice(vdev->dev,
			   "removal waits until the process that has the device open closes it\n");
	spin_unlock(&irqs->lock);
}

void vrdma_irqs_reset(struct vrdma_device *dev)
{
	struct vrdma_irqs *irqs = &dev->irqs;

	spin_lock(&irqs->lock);
	bitmap_zero(irqs->pending, VRDMA_MAX_VECTORS);
	spin_unlock(&irqs->lock);
}

void vrdma_irqs_close(struct vrdma_device *dev)
{
	u32 i;

	for (i = 0; i < dev->vectors; i++)
		set_vector(&dev->irqs, i, NULL);
	set_request(&dev->irqs, NULL);
}
