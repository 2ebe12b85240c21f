// SPDX-License-Identifier: GPL-2.0-only
/* The lifetime of one device: from enabling the function until the device is removed or fails. */
#include <linux/dma-mapping.h>
#include <linux/interrupt.h>
#include <linux/sysfs.h>

#include "compat_ops.h"
#include "vrdma_ib.h"

bool vrdma_dev_failed(struct vrdma_dev *dev)
{
	return READ_ONCE(dev->admin.dead);
}

/* Fails the device: it gets no commands any more. Safe in interrupts; a work item does the rest. */
void vrdma_dev_fail(struct vrdma_dev *dev, const char *why)
{
	if (vrdma_admin_kill(&dev->admin)) {
		dev_err(&dev->fn->pdev->dev, "device failed: %s (STATUS %#x)\n", why,
			vrdma_read(dev->fn, VRDMA_REG_STATUS));
		vrdma_dev_event(dev, IB_EVENT_DEVICE_FATAL);
	}
	vrdma_function_restart(dev->fn);
}

void vrdma_dev_check(struct vrdma_dev *dev)
{
	if (!vrdma_enabled(dev->fn))
		vrdma_dev_fail(dev, "STATUS is not ENABLED any more");
}

/*
 * Returns when the device does not use the guest's memory any more. If the device does not answer
 * the reset, the full timeout has passed; the hypervisor itself takes the memory away at the reset.
 */
void vrdma_dev_quiesce(struct vrdma_dev *dev)
{
	vrdma_admin_kill(&dev->admin);
	mutex_lock(&dev->quiesce_lock);
	if (!dev->quiesced) {
		if (vrdma_reset(dev->fn) == -ETIMEDOUT)
			dev_warn(&dev->fn->pdev->dev,
				 "device does not complete a reset (STATUS %#x)\n",
				 vrdma_read(dev->fn, VRDMA_REG_STATUS));
		WRITE_ONCE(dev->quiesced, true); /* read without the lock too */
		smp_mb(); /* a poster sees quiesced, or the flush sees its WQE */
		schedule_work(&dev->flush);
	}
	mutex_unlock(&dev->quiesce_lock);
}

/* ib_core must get events only while the device is registered. */
static void vrdma_dev_event_locked(struct vrdma_dev *dev, enum ib_event_type type)
{
	struct ib_event event = {
		.device = &dev->ibdev,
		.element.port_num = VRDMA_PORT,
		.event = type,
	};

	lockdep_assert_held(&dev->event_lock);
	if (dev->events_open)
		ib_dispatch_event(&event);
}

void vrdma_dev_event(struct vrdma_dev *dev, enum ib_event_type type)
{
	unsigned long flags;

	spin_lock_irqsave(&dev->event_lock, flags);
	vrdma_dev_event_locked(dev, type);
	spin_unlock_irqrestore(&dev->event_lock, flags);
}

static bool vrdma_dev_port_up(struct vrdma_dev *dev)
{
	return READ_ONCE(dev->netdev_up) && READ_ONCE(dev->uplink_up);
}

/* Sets netdev_up or uplink_up, and reports a change of the port's state. */
static void vrdma_dev_set_up(struct vrdma_dev *dev, bool *which, bool up)
{
	unsigned long flags;
	bool before;

	spin_lock_irqsave(&dev->event_lock, flags);
	before = vrdma_dev_port_up(dev);
	WRITE_ONCE(*which, up);
	if (vrdma_dev_port_up(dev) != before)
		vrdma_dev_event_locked(dev, before ? IB_EVENT_PORT_ERR : IB_EVENT_PORT_ACTIVE);
	spin_unlock_irqrestore(&dev->event_lock, flags);
}

void vrdma_dev_set_netdev_up(struct vrdma_dev *dev, bool up)
{
	vrdma_dev_set_up(dev, &dev->netdev_up, up);
}

void vrdma_dev_set_uplink_up(struct vrdma_dev *dev, bool up)
{
	vrdma_dev_set_up(dev, &dev->uplink_up, up);
}

static void vrdma_dev_open_events(struct vrdma_dev *dev, bool open)
{
	spin_lock_irq(&dev->event_lock);
	dev->events_open = open;
	spin_unlock_irq(&dev->event_lock);
}

/* Vector 0: FATAL appeared, READY followed it, or there is an async event (see eq.c). */
static irqreturn_t vrdma_status_interrupt(int irq, void *data)
{
	vrdma_dev_check(data);
	return IRQ_HANDLED;
}

/* Only for a provider that asks, because it takes a command. */
static int vrdma_query_clock(struct vrdma_dev *dev, struct ib_udata *udata)
{
	struct vrdma_uverbs_query_device_resp resp = {};
	u64 clock;
	int err;

	if (!udata || !udata->outlen)
		return 0;
	err = vrdma_cmd_query_clock(dev, &clock);
	if (err)
		return err;
	resp.clock = clock;
	return vrdma_udata_out(udata, &resp, sizeof(resp));
}

static int vrdma_query_device(struct ib_device *ibdev, struct ib_device_attr *props,
			      struct ib_udata *udata)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibdev);
	const struct vrdma_cpl_query_device *caps = &dev->caps;
	struct pci_dev *pdev = dev->fn->pdev;
	int err;

	err = vrdma_udata_none(udata);
	if (err)
		return err;

	memset(props, 0, sizeof(*props));
	props->fw_ver = le64_to_cpu(caps->firmware_version);
	props->sys_image_guid = ibdev->node_guid;
	VRDMA_DEVICE_ATTR_FROM_CAPS(props, caps);
	props->vendor_id = pdev->vendor;
	props->vendor_part_id = pdev->device;
	props->hw_ver = pdev->revision;
	props->device_cap_flags = IB_DEVICE_CURR_QP_STATE_MOD | IB_DEVICE_PORT_ACTIVE_EVENT |
				  IB_DEVICE_SYS_IMAGE_GUID | IB_DEVICE_RC_RNR_NAK_GEN |
				  IB_DEVICE_SRQ_RESIZE | IB_DEVICE_XRC | IB_DEVICE_MEM_WINDOW |
				  IB_DEVICE_MEM_WINDOW_TYPE_2B | IB_DEVICE_MEM_MGT_EXTENSIONS;
	props->kernel_cap_flags = IBK_BLOCK_MULTICAST_LOOPBACK;
	props->max_send_sge = le16_to_cpu(caps->max_send_sge);
	props->max_recv_sge = le16_to_cpu(caps->max_recv_sge);
	props->max_fast_reg_page_list_len = VRDMA_MAX_FAST_PAGES;
	props->atomic_cap = IB_ATOMIC_HCA;
	props->max_pkeys = dev->pkeys.count;
	props->max_dm_size = VRDMA_MAX_DM_SIZE;
	props->timestamp_mask = U64_MAX;
	props->hca_core_clock = VRDMA_CLOCK_KHZ;
	props->cq_caps.max_cq_moderation_count = VRDMA_MAX_CQ_MODERATION;
	props->cq_caps.max_cq_moderation_period = VRDMA_MAX_CQ_MODERATION;
	vrdma_odp_caps(props);
	return vrdma_query_clock(dev, udata);
}

static void vrdma_get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	u64 version = le64_to_cpu(to_vrdma_dev(ibdev)->caps.firmware_version);

	snprintf(str, IB_FW_VERSION_NAME_MAX, "%u.%u.%u", upper_32_bits(version),
		 lower_32_bits(version) >> 16, lower_32_bits(version) & 0xffff);
}

static ssize_t hw_rev_show(struct device *device, struct device_attribute *attr, char *buf)
{
	struct vrdma_dev *dev = rdma_device_to_drv_device(device, struct vrdma_dev, ibdev);

	return sysfs_emit(buf, "%#x\n", dev->fn->pdev->revision);
}
static DEVICE_ATTR_RO(hw_rev);

static struct attribute *vrdma_attributes[] = { &dev_attr_hw_rev.attr, NULL };

static const struct attribute_group vrdma_attribute_group = {
	.attrs = vrdma_attributes,
};

/* The provider matches the PCI id, because there is no driver id for it. */
static const struct ib_device_ops vrdma_dev_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_abi_ver = VRDMA_UVERBS_ABI_VERSION,
	.uverbs_no_driver_id_binding = 1,
	.device_group = &vrdma_attribute_group,

	.add_gid = vrdma_add_gid,
	.advise_mr = vrdma_advise_mr,
	.alloc_dm = vrdma_alloc_dm,
	.alloc_hw_port_stats = vrdma_alloc_hw_port_stats,
	.alloc_mr = vrdma_alloc_mr,
	.alloc_mw = vrdma_alloc_mw,
	.alloc_pd = vrdma_alloc_pd,
	.alloc_ucontext = vrdma_alloc_ucontext,
	.alloc_xrcd = vrdma_alloc_xrcd,
	.attach_mcast = vrdma_attach_mcast,
	.counter_alloc_stats = vrdma_counter_alloc_stats,
	.counter_dealloc = vrdma_counter_dealloc,
	.counter_update_stats = vrdma_counter_update_stats,
	.create_ah = vrdma_create_ah,
	.create_qp = vrdma_create_any_qp,
	.create_srq = vrdma_create_srq,
	.create_user_ah = vrdma_create_ah,
	.dealloc_dm = vrdma_dealloc_dm,
	.dealloc_mw = vrdma_dealloc_mw,
	.dealloc_pd = vrdma_dealloc_pd,
	.dealloc_ucontext = vrdma_dealloc_ucontext,
	.dealloc_xrcd = vrdma_dealloc_xrcd,
	.del_gid = vrdma_del_gid,
	.dereg_mr = vrdma_dereg_mr,
	.destroy_ah = vrdma_destroy_ah,
	.destroy_cq = vrdma_destroy_cq,
	.destroy_qp = vrdma_destroy_qp,
	.destroy_srq = vrdma_destroy_srq,
	.detach_mcast = vrdma_detach_mcast,
	.disassociate_ucontext = vrdma_disassociate_ucontext,
	.fill_res_cq_entry = vrdma_fill_res_cq_entry,
	.fill_res_qp_entry = vrdma_fill_res_qp_entry,
	.get_dev_fw_str = vrdma_get_dev_fw_str,
	.get_dma_mr = vrdma_get_dma_mr,
	.get_hw_stats = vrdma_get_hw_stats,
	.get_link_layer = vrdma_get_link_layer,
	.get_netdev = vrdma_get_netdev,
	.get_port_immutable = vrdma_get_port_immutable,
	.map_mr_sg = vrdma_map_mr_sg,
	.mmap = vrdma_mmap,
	.mmap_free = vrdma_mmap_free,
	.modify_cq = vrdma_modify_cq,
	.modify_qp = vrdma_modify_qp,
	.modify_srq = vrdma_modify_srq,
	.poll_cq = vrdma_poll_cq,
	.post_recv = vrdma_post_recv,
	.post_send = vrdma_post_send,
	.post_srq_recv = vrdma_post_srq_recv,
	.process_mad = vrdma_process_mad,
	.query_device = vrdma_query_device,
	.query_pkey = vrdma_query_pkey,
	.query_port = vrdma_query_port,
	.query_qp = vrdma_query_qp,
	.query_srq = vrdma_query_srq,
	.reg_dm_mr = vrdma_reg_dm_mr,
	.query_ucontext = vrdma_query_ucontext,
	.req_notify_cq = vrdma_req_notify_cq,
	.rereg_user_mr = vrdma_rereg_user_mr,

	/* clang-format off */
	VRDMA_IB_COMPAT_OPS

	INIT_RDMA_OBJ_SIZE(ib_ah, vrdma_ah, ibah),
	/* clang-format on */
	INIT_RDMA_OBJ_SIZE(ib_cq, vrdma_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_mw, vrdma_mw, ibmw),
	INIT_RDMA_OBJ_SIZE(ib_pd, vrdma_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, vrdma_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_srq, vrdma_srq, ibsrq),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, vrdma_ucontext, ibucontext),
	INIT_RDMA_OBJ_SIZE(ib_xrcd, vrdma_xrcd, ibxrcd),
};

static void vrdma_flush_work(struct work_struct *work)
{
	vrdma_wake_kernel_cqs(container_of(work, struct vrdma_dev, flush));
}

static struct vrdma_dev *vrdma_dev_alloc(struct vrdma_function *fn)
{
	struct vrdma_dev *dev = ib_alloc_device(vrdma_dev, ibdev);

	if (!dev)
		return NULL;
	dev->fn = fn;
	mutex_init(&dev->quiesce_lock);
	mutex_init(&dev->counters_lock);
	spin_lock_init(&dev->event_lock);
	dev->uplink_up = true; /* until the device reports PORT_ERR */
	INIT_WORK(&dev->flush, vrdma_flush_work);
	xa_init_flags(&dev->cqs, XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&dev->srqs, XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&dev->qps, XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&dev->odp_mrs, XA_FLAGS_LOCK_IRQ);
	dev->ibdev.node_type = RDMA_NODE_IB_CA;
	dev->ibdev.phys_port_cnt = VRDMA_PORT;
	dev->ibdev.dev.parent = &fn->pdev->dev;
	ib_set_device_ops(&dev->ibdev, &vrdma_dev_ops);
	if (IS_ENABLED(CONFIG_INFINIBAND_USER_ACCESS))
		dev->ibdev.driver_def = vrdma_uapi_definitions;
	return dev;
}

static void vrdma_dev_dealloc(struct vrdma_dev *dev)
{
	cancel_work_sync(&dev->flush);
	ib_dealloc_device(&dev->ibdev);
}

/* Enables the function's admin queue, and queries the function's properties. */
static int vrdma_dev_enable(struct vrdma_dev *dev)
{
	struct pci_dev *pdev = dev->fn->pdev;
	int err;

	dev->status_page = dma_alloc_pages(&pdev->dev, PAGE_SIZE, &dev->status_page_dma,
					   DMA_BIDIRECTIONAL, GFP_KERNEL | __GFP_ZERO);
	if (!dev->status_page)
		return -ENOMEM;

	err = vrdma_enable(dev);
	if (err)
		goto err_quiesce;

	snprintf(dev->status_irq_name, sizeof(dev->status_irq_name), "vrdma-status@%s",
		 pci_name(pdev));
	dev->status_irq = pci_irq_vector(pdev, 0);
	err = request_irq(dev->status_irq, vrdma_status_interrupt, IRQF_SHARED,
			  dev->status_irq_name, dev);
	if (err)
		goto err_quiesce;

	err = vrdma_cmd_query_device(dev, &dev->caps);
	if (!err)
		err = vrdma_cmd_query_pkeys(dev, &dev->caps, &dev->pkeys);
	if (err)
		goto err_irq;
	memcpy(&dev->ibdev.node_guid, dev->caps.node_guid, sizeof(dev->ibdev.node_guid));
	return 0;

err_irq:
	free_irq(dev->status_irq, dev);
err_quiesce:
	vrdma_dev_quiesce(dev);
	dma_free_pages(&pdev->dev, PAGE_SIZE, dev->status_page, dev->status_page_dma,
		       DMA_BIDIRECTIONAL);
	return err;
}

static void vrdma_dev_disable(struct vrdma_dev *dev)
{
	struct pci_dev *pdev = dev->fn->pdev;

	free_irq(dev->status_irq, dev);
	vrdma_dev_quiesce(dev);
	dma_free_pages(&pdev->dev, PAGE_SIZE, dev->status_page, dev->status_page_dma,
		       DMA_BIDIRECTIONAL);
}

/* Pairs the device before it registers it, so that ib_core finds the netdev's addresses at once. */
static int vrdma_dev_register(struct vrdma_dev *dev)
{
	int err;

	err = vrdma_netdev_pair(dev);
	if (err)
		return err;

	err = ib_register_device(&dev->ibdev, "vrdma%d", &dev->fn->pdev->dev);
	if (err) {
		vrdma_netdev_unpair(dev);
		return err;
	}

	/* The link may have come up after ib_core read its state. */
	vrdma_dev_open_events(dev, true);
	if (vrdma_dev_port_up(dev))
		vrdma_dev_event(dev, IB_EVENT_PORT_ACTIVE);
	return 0;
}

static void vrdma_dev_unregister(struct vrdma_dev *dev)
{
	vrdma_dev_open_events(dev, false);
	vrdma_netdev_unpair(dev);
	ib_unregister_device(&dev->ibdev);
}

struct vrdma_dev *vrdma_dev_create(struct vrdma_function *fn)
{
	struct vrdma_dev *dev;
	int err;

	err = vrdma_reset(fn);
	if (err)
		return ERR_PTR(err);

	dev = vrdma_dev_alloc(fn);
	if (!dev)
		return ERR_PTR(-ENOMEM);

	err = vrdma_odp_init(dev);
	if (err)
		goto err_dealloc;

	err = vrdma_admin_init(dev);
	if (err)
		goto err_odp;

	err = vrdma_dev_enable(dev);
	if (err)
		goto err_admin;

	err = vrdma_eqs_init(dev);
	if (err)
		goto err_disable;

	err = vrdma_dev_register(dev);
	if (err)
		goto err_eqs;
	return dev;

err_eqs:
	vrdma_dev_quiesce(dev);
	vrdma_eqs_cleanup(dev);
err_disable:
	vrdma_dev_disable(dev);
err_admin:
	vrdma_admin_cleanup(dev);
err_odp:
	vrdma_odp_cleanup(dev);
err_dealloc:
	vrdma_dev_dealloc(dev);
	return ERR_PTR(err);
}

/*
 * ib_core destroys the objects of processes, which keep their file descriptors and get EIO from
 * them.
 */
void vrdma_dev_destroy(struct vrdma_dev *dev)
{
	vrdma_dev_unregister(dev);
	vrdma_dev_quiesce(dev);
	vrdma_eqs_cleanup(dev);
	vrdma_dev_disable(dev);
	vrdma_admin_cleanup(dev);
	vrdma_odp_cleanup(dev);
	vrdma_dev_dealloc(dev);
}
