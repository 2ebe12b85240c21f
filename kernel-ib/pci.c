// SPDX-License-Identifier: GPL-2.0-only
/*
 * The PCI function: probe and remove, and making a new device when the old one failed.
 */
#include <linux/dma-mapping.h>
#include <linux/module.h>

#include "vrdma_ib.h"

#define VRDMA_BARS (BIT(VRDMA_BAR_REGISTERS) | BIT(VRDMA_BAR_DOORBELLS))
#define VRDMA_RESTART_INTERVAL HZ

MODULE_DESCRIPTION("vrdma: RDMA for virtual machines, guest driver");
MODULE_LICENSE("GPL");

/* Makes sure that a device is there, soon and for as long as the function is ours. */
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
 * A mediator fills the registers, which may be later than now. When the function is READY, all of
 * them are its own.
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
 * A failed device stays, so that its users see their errors, until the function can be enabled
 * anew: its mediator may be gone, and nobody knows for how long.
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

	/* The device tells when it is READY again, but what a dead one tells may be lost. */
	err = vrdma_restart(fn);
	if (err)
		queue_delayed_work(system_long_wq, &fn->restart, VRDMA_RESTART_INTERVAL);
	if (err == -ENODEV && err != fn->start_error)
		dev_warn(&fn->pdev->dev, "not a vrdma function that this driver knows, or not yet\n");
	else if (err && err != fn->start_error)
		dev_warn(&fn->pdev->dev, "cannot be enabled yet (%pe), will try again\n",
			 ERR_PTR(err));
	fn->start_error = err;
}

/*
 * Bus addresses that an IOMMU gives out are to be below VRDMA_IOVA_SPACE. Where they are those of
 * memory that reaches farther they stay: its mediator may have been told of another limit, and
 * pages that are used in place cannot be exchanged for lower ones.
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

	/* A mediator that is away now may come later: that is no reason to refuse the function. */
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
	/* One that was being queued while stopped was set. */
	cancel_delayed_work_sync(&fn->restart);

	if (fn->known)
		pci_free_irq_vectors(pdev);
	pci_clear_master(pdev);
	vrdma_unmap(fn);
	pci_disable_device(pdev);
	kfree(fn);
}

/* Before kexec or power off: no memory of this kernel is touched any more. */
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
 * What the device holds does not survive its power, and while an image of this memory is made or
 * put back the device must not write there. So a device ends as if it had failed, which its users
 * know how to deal with, and another one is made afterwards.
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

/* The function may have been enabled for another kernel, or by one that was never suspended. */
static int vrdma_resume(struct device *device)
{
	struct vrdma_function *fn = dev_get_drvdata(device);

	if (vrdma_reset(fn))
		dev_warn(device, "device does not answer a reset\n");
	WRITE_ONCE(fn->stopped, false);
	vrdma_function_restart(fn);
	return 0;
}

static DEFINE_SIMPLE_DEV_PM_OPS(vrdma_pm_ops, vrdma_suspend, vrdma_resume);

static const struct pci_device_id vrdma_pci_ids[] = {
	{ PCI_DEVICE(VRDMA_PCI_VENDOR_ID, VRDMA_PCI_DEVICE_ID) },
	{ }
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
