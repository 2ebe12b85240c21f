// SPDX-License-Identifier: GPL-2.0-only
/* The PCI function: probe and remove, and creating a new device after the old one has failed. */
#include <linux/dma-mapping.h>
#include <linux/module.h>

#include "vrdma_ib.h"

#define VRDMA_BARS (BIT(VRDMA_BAR_REGISTERS) | BIT(VRDMA_BAR_DOORBELLS))
#define VRDMA_RESTART_INTERVAL HZ

MODULE_DESCRIPTION("vrdma: RDMA for virtual machines, guest driver");
MODULE_LICENSE("GPL");
MODULE_VERSION(VRDMA_RELEASE);

/* Creates a device soon, if there is none that works and the function is still ours. */
void vrdma_function_restart(struct vrdma_function *fn)
{
	if (!READ_ONCE(fn->stopped))
		mod_delayed_work(system_long_wq, &fn->restart, 0);
}

static int vrdma_alloc_vectors(struct vrdma_function *fn)
{
	unsigned int wanted = min(fn->id.num_vectors, VRDMA_FIRST_COMP_VECTOR + num_online_cpus());
	int num;

	num = pci_alloc_irq_vectors(fn->pdev, 1, wanted, PCI_IRQ_MSIX);
	if (num < 0)
		return num;
	fn->id.num_vectors = num;
	return 0;
}

/*
 * A mediator fills the registers, perhaps later than now. When the function is READY, all registers
 * are from that mediator.
 */
static int vrdma_get_to_know(struct vrdma_function *fn)
{
	int err;

	if (fn->known)
		return 0;
	err = vrdma_identify(fn);
	if (!err)
		err = vrdma_reset(fn);
	if (!err)
		err = vrdma_identify(fn);
	if (!err)
		err = vrdma_alloc_vectors(fn);
	if (err)
		return err;
	fn->known = true;
	return 0;
}

/*
 * A failed device stays until the function can be enabled anew, so that its users see their errors:
 * the mediator may be gone for an unknown time.
 */
static int vrdma_restart(struct vrdma_function *fn)
{
	struct vrdma_dev *dev = fn->dev;
	int err;

	err = vrdma_get_to_know(fn);
	if (err)
		return err;
	if (dev) {
		if (!vrdma_dev_failed(dev))
			return 0;
		vrdma_dev_quiesce(dev);
		if (!vrdma_ready(fn))
			return -EAGAIN;
		fn->dev = NULL;
		vrdma_dev_destroy(dev);
	}

	dev = vrdma_dev_create(fn);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	fn->dev = dev;
	dev_info(&fn->pdev->dev, "registered as %s\n", dev_name(&dev->ibdev.dev));
	return 0;
}

static void vrdma_restart_work(struct work_struct *work)
{
	struct vrdma_function *fn = container_of(work, struct vrdma_function, restart.work);
	int err;

	if (READ_ONCE(fn->stopped))
		return;

	/* The device reports when it is READY again, but a report of a dead device may be lost. */
	err = vrdma_restart(fn);
	if (err)
		queue_delayed_work(system_long_wq, &fn->restart, VRDMA_RESTART_INTERVAL);
	if (err == -ENODEV && err != fn->start_error)
		dev_warn(&fn->pdev->dev,
			 "the function has no registers of a supported version yet, will retry\n");
	else if (err && err != fn->start_error)
		dev_warn(&fn->pdev->dev, "cannot enable the device yet (%pe), will retry\n",
			 ERR_PTR(err));
	fn->start_error = err;
}

/*
 * Bus addresses from an IOMMU must be below VRDMA_IOVA_SPACE. If bus addresses are memory addresses
 * and the memory reaches farther, they stay as they are: the mediator may be configured with
 * another limit, and pages that are used in place cannot be exchanged for lower ones.
 */
static int vrdma_set_dma_mask(struct device *dev)
{
	u64 mask = VRDMA_IOVA_SPACE - 1;

	if (dma_get_required_mask(dev) > mask)
		mask = DMA_BIT_MASK(64);
	return dma_set_mask_and_coherent(dev, mask);
}

static int vrdma_map(struct vrdma_function *fn)
{
	struct pci_dev *pdev = fn->pdev;
	int err;

	if (pci_resource_len(pdev, VRDMA_BAR_REGISTERS) < VRDMA_BAR0_SIZE)
		return -ENODEV;

	err = vrdma_set_dma_mask(&pdev->dev);
	if (err)
		return err;
	dma_set_max_seg_size(&pdev->dev, UINT_MAX);

	err = pci_request_selected_regions(pdev, VRDMA_BARS, KBUILD_MODNAME);
	if (err)
		return err;

	fn->regs = pci_iomap(pdev, VRDMA_BAR_REGISTERS, VRDMA_BAR0_SIZE);
	if (!fn->regs)
		goto err_release;
	fn->doorbells = pci_iomap(pdev, VRDMA_BAR_DOORBELLS, VRDMA_DOORBELL_PAGE_SIZE);
	if (!fn->doorbells)
		goto err_unmap;
	return 0;

err_unmap:
	pci_iounmap(pdev, fn->regs);
err_release:
	pci_release_selected_regions(pdev, VRDMA_BARS);
	return -ENOMEM;
}

static void vrdma_unmap(struct vrdma_function *fn)
{
	pci_iounmap(fn->pdev, fn->doorbells);
	pci_iounmap(fn->pdev, fn->regs);
	pci_release_selected_regions(fn->pdev, VRDMA_BARS);
}

static int vrdma_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct vrdma_function *fn;
	int err;

	fn = kzalloc(sizeof(*fn), GFP_KERNEL);
	if (!fn)
		return -ENOMEM;
	fn->pdev = pdev;
	INIT_DELAYED_WORK(&fn->restart, vrdma_restart_work);
	pci_set_drvdata(pdev, fn);

	err = pci_enable_device_mem(pdev);
	if (err)
		goto err_free;

	err = vrdma_map(fn);
	if (err)
		goto err_disable;

	pci_set_master(pdev);

	/* A mediator that is absent now may come later, so probe does not fail. */
	vrdma_function_restart(fn);
	flush_delayed_work(&fn->restart);
	return 0;

err_disable:
	pci_disable_device(pdev);
err_free:
	kfree(fn);
	return err;
}

static void vrdma_stop_restarting(struct vrdma_function *fn)
{
	WRITE_ONCE(fn->stopped, true);
	cancel_delayed_work_sync(&fn->restart);
}

static void vrdma_remove(struct pci_dev *pdev)
{
	struct vrdma_function *fn = pci_get_drvdata(pdev);

	vrdma_stop_restarting(fn);
	if (fn->dev) {
		vrdma_dev_check(fn->dev);
		vrdma_dev_destroy(fn->dev);
	}
	/* Cancels a restart that was being queued while stopped was set. */
	cancel_delayed_work_sync(&fn->restart);

	if (fn->known)
		pci_free_irq_vectors(pdev);
	pci_clear_master(pdev);
	vrdma_unmap(fn);
	pci_disable_device(pdev);
	kfree(fn);
}

/* Before kexec or power off: the device must not touch this kernel's memory any more. */
static void vrdma_shutdown(struct pci_dev *pdev)
{
	struct vrdma_function *fn = pci_get_drvdata(pdev);

	vrdma_stop_restarting(fn);
	if (fn->dev) {
		vrdma_admin_kill(&fn->dev->admin);
		vrdma_dev_quiesce(fn->dev);
	}
}

/*
 * The device's state does not survive a power loss. While an image of this memory is written or
 * restored, the device must not write to it. So the device ends as if it had failed, which its
 * users can handle, and a new one is created after resume.
 */
static int vrdma_suspend(struct device *device)
{
	struct vrdma_function *fn = dev_get_drvdata(device);

	vrdma_stop_restarting(fn);
	if (fn->dev) {
		vrdma_dev_fail(fn->dev, "the machine is being suspended");
		vrdma_dev_quiesce(fn->dev);
	}
	return 0;
}

/* Another kernel may have enabled the function, or one that was never suspended. */
static int vrdma_resume(struct device *device)
{
	struct vrdma_function *fn = dev_get_drvdata(device);

	if (vrdma_reset(fn))
		dev_warn(device, "device does not complete a reset (STATUS %#x)\n",
			 vrdma_read(fn, VRDMA_REG_STATUS));
	WRITE_ONCE(fn->stopped, false);
	vrdma_function_restart(fn);
	return 0;
}

static DEFINE_SIMPLE_DEV_PM_OPS(vrdma_pm_ops, vrdma_suspend, vrdma_resume);

static const struct pci_device_id vrdma_pci_ids[] = {
	{ PCI_DEVICE(VRDMA_PCI_VENDOR_ID, VRDMA_PCI_DEVICE_ID) },
	{},
};
MODULE_DEVICE_TABLE(pci, vrdma_pci_ids);

static struct pci_driver vrdma_pci_driver = {
	.name = KBUILD_MODNAME,
	.id_table = vrdma_pci_ids,
	.probe = vrdma_probe,
	.remove = vrdma_remove,
	.shutdown = vrdma_shutdown,
	.driver.pm = pm_sleep_ptr(&vrdma_pm_ops),
};
module_pci_driver(vrdma_pci_driver);
