// SPDX-License-Identifier: GPL-2.0-only
/*
 * The admin queue: many commands may be in flight, and the device answers each separately, in any
 * order.
 *
 * A command costs one trapped register write. It ends with the device's answer. If the device makes
 * no step of any command for VRDMA_ADMIN_TIMEOUT_MS, the whole device fails, which ends all
 * commands.
 */
#include <linux/bitmap.h>
#include <linux/dma-mapping.h>
#include <linux/interrupt.h>

#include "vrdma_ib.h"

/* Time without an answer after which the queue is polled without an interrupt. */
#define VRDMA_ADMIN_POLL_MS 100

static void vrdma_admin_finish(struct vrdma_admin_slot *slot, const struct vrdma_admin_cpl *cpl)
{
	memcpy(slot->cpl, cpl, sizeof(*cpl));
	slot->cpl = NULL;
	complete(&slot->done);
}

/* Takes the answers that have arrived. False if an answer is to no outstanding command. */
static bool vrdma_admin_reap(struct vrdma_admin *admin)
{
	unsigned int budget;

	lockdep_assert_held(&admin->lock);
	for (budget = VRDMA_ADMIN_DEPTH; budget && !admin->dead; budget--) {
		u32 index = admin->consumer;
		struct vrdma_admin_cpl *cpl =
			&admin->acq[vrdma_ring_slot(index, VRDMA_ADMIN_DEPTH)];
		u32 header = le32_to_cpu(READ_ONCE(cpl->header));
		u32 id = VRDMA_GET(VRDMA_ADMIN_ID, header);

		if (!vrdma_ring_valid(header, index, VRDMA_ADMIN_DEPTH, VRDMA_ADMIN_PHASE))
			return true;
		dma_rmb(); /* the rest of the entry is written before its phase */
		if (id >= VRDMA_ADMIN_DEPTH || !admin->slots[id].cpl)
			return false;
		admin->consumer++;
		vrdma_admin_finish(&admin->slots[id], cpl);
	}
	return true;
}

static void vrdma_admin_poll(struct vrdma_dev *dev)
{
	struct vrdma_admin *admin = &dev->admin;
	unsigned long flags;
	bool sane;

	spin_lock_irqsave(&admin->lock, flags);
	sane = vrdma_admin_reap(admin);
	spin_unlock_irqrestore(&admin->lock, flags);
	if (!sane)
		vrdma_dev_fail(dev, "an admin completion names a command that was not issued");
}

static irqreturn_t vrdma_admin_interrupt(int irq, void *data)
{
	vrdma_admin_poll(container_of(data, struct vrdma_dev, admin));
	return IRQ_HANDLED;
}

/* Queues the command and returns its id. The caller holds one of free_slots. */
static int vrdma_admin_submit(struct vrdma_admin *admin, u32 opcode, struct vrdma_admin_cmd *cmd,
			      struct vrdma_admin_cpl *cpl)
{
	struct vrdma_admin_cmd *entry;
	struct vrdma_admin_slot *slot;
	unsigned long flags;
	u32 phase;
	int id;

	spin_lock_irqsave(&admin->lock, flags);
	if (admin->dead) {
		spin_unlock_irqrestore(&admin->lock, flags);
		return -EIO;
	}

	id = find_first_zero_bit(admin->used_ids, VRDMA_ADMIN_DEPTH);
	__set_bit(id, admin->used_ids);
	slot = &admin->slots[id];
	slot->cpl = cpl;
	reinit_completion(&slot->done);

	/*
	 * The entry is free. The device takes commands in order: until it has taken the previous
	 * command of this entry, all later ones are in flight too, and free_slots admits no more.
	 */
	phase = vrdma_ring_phase(admin->producer, VRDMA_ADMIN_DEPTH, VRDMA_ADMIN_PHASE);
	entry = &admin->asq[vrdma_ring_slot(admin->producer, VRDMA_ADMIN_DEPTH)];
	entry->reserved = 0;
	memcpy(entry->bytes, cmd->bytes, sizeof(entry->bytes));
	dma_wmb();
	WRITE_ONCE(entry->header, cpu_to_le32(vrdma_admin_header(phase, opcode, id)));
	admin->producer++;
	spin_unlock_irqrestore(&admin->lock, flags);
	return id;
}

static void vrdma_admin_wait(struct vrdma_dev *dev, struct vrdma_admin_slot *slot)
{
	const struct vrdma_status_page *status = page_address(dev->status_page);
	unsigned long interval = msecs_to_jiffies(VRDMA_ADMIN_POLL_MS);
	unsigned long timeout = msecs_to_jiffies(VRDMA_ADMIN_TIMEOUT_MS);
	unsigned long deadline = jiffies + timeout;
	__le32 before = READ_ONCE(status->admin_steps);
	__le32 steps;

	/* A failure ends all commands, and with them this loop. */
	while (!wait_for_completion_timeout(&slot->done, interval)) {
		vrdma_admin_poll(dev);
		if (completion_done(&slot->done))
			continue;
		steps = READ_ONCE(status->admin_steps);
		if (steps != before) {
			before = steps;
			deadline = jiffies + timeout;
		}
		if (time_after(jiffies, deadline))
			vrdma_dev_fail(dev, "an admin command timed out");
		else
			vrdma_dev_check(dev);
	}
}

static int vrdma_admin_issue(struct vrdma_dev *dev, u32 opcode, struct vrdma_admin_cmd *cmd,
			     struct vrdma_admin_cpl *cpl)
{
	struct vrdma_admin *admin = &dev->admin;
	unsigned long flags;
	u32 status;
	int id;

	down(&admin->free_slots);
	id = vrdma_admin_submit(admin, opcode, cmd, cpl);
	if (id >= 0) {
		vrdma_write(dev->fn, VRDMA_REG_ADMIN_DOORBELL, 1);
		vrdma_admin_wait(dev, &admin->slots[id]);
		spin_lock_irqsave(&admin->lock, flags);
		__clear_bit(id, admin->used_ids);
		spin_unlock_irqrestore(&admin->lock, flags);
	}
	up(&admin->free_slots);
	if (id < 0)
		return id;

	status = le32_to_cpu(cpl->status);
	return status <= MAX_ERRNO ? -(int)status : -EIO;
}

int vrdma_admin_exec(struct vrdma_dev *dev, u32 opcode, struct vrdma_admin_cmd *cmd,
		     struct vrdma_admin_cpl *cpl)
{
	int err = vrdma_admin_issue(dev, opcode, cmd, cpl);

	if (err && vrdma_dev_failed(dev))
		vrdma_dev_quiesce(dev);
	return err;
}

/* Ends all commands, present and future, with EIO. Returns true for the first call. */
bool vrdma_admin_kill(struct vrdma_admin *admin)
{
	static const struct vrdma_admin_cpl eio = { .status = cpu_to_le32(EIO) };
	unsigned long flags;
	unsigned int id;
	bool first;

	spin_lock_irqsave(&admin->lock, flags);
	first = !admin->dead;
	WRITE_ONCE(admin->dead, true); /* read without the lock too */
	for (id = 0; first && id < VRDMA_ADMIN_DEPTH; id++)
		if (admin->slots[id].cpl)
			vrdma_admin_finish(&admin->slots[id], &eio);
	spin_unlock_irqrestore(&admin->lock, flags);
	return first;
}

static int vrdma_admin_alloc_slots(struct vrdma_admin *admin)
{
	unsigned int id;

	admin->slots = kcalloc(VRDMA_ADMIN_DEPTH, sizeof(*admin->slots), GFP_KERNEL);
	if (!admin->slots)
		return -ENOMEM;
	admin->used_ids = bitmap_zalloc(VRDMA_ADMIN_DEPTH, GFP_KERNEL);
	if (!admin->used_ids) {
		kfree(admin->slots);
		return -ENOMEM;
	}
	for (id = 0; id < VRDMA_ADMIN_DEPTH; id++)
		init_completion(&admin->slots[id].done);
	return 0;
}

static void vrdma_admin_free_slots(struct vrdma_admin *admin)
{
	bitmap_free(admin->used_ids);
	kfree(admin->slots);
}

int vrdma_admin_init(struct vrdma_dev *dev)
{
	struct vrdma_admin *admin = &dev->admin;
	struct pci_dev *pdev = dev->fn->pdev;
	int err;

	spin_lock_init(&admin->lock);
	sema_init(&admin->free_slots, VRDMA_ADMIN_DEPTH);
	err = vrdma_admin_alloc_slots(admin);
	if (err)
		return err;

	err = -ENOMEM;
	admin->asq = dma_alloc_coherent(&pdev->dev, VRDMA_ADMIN_DEPTH * sizeof(*admin->asq),
					&admin->asq_dma, GFP_KERNEL);
	if (!admin->asq)
		goto err_slots;
	admin->acq = dma_alloc_coherent(&pdev->dev, VRDMA_ADMIN_DEPTH * sizeof(*admin->acq),
					&admin->acq_dma, GFP_KERNEL);
	if (!admin->acq)
		goto err_asq;

	snprintf(admin->irq_name, sizeof(admin->irq_name), "vrdma-admin@%s", pci_name(pdev));
	admin->irq = pci_irq_vector(pdev, vrdma_admin_vector(dev->fn->id.num_vectors));
	err = request_irq(admin->irq, vrdma_admin_interrupt, IRQF_SHARED, admin->irq_name, admin);
	if (err)
		goto err_acq;
	return 0;

err_acq:
	dma_free_coherent(&pdev->dev, VRDMA_ADMIN_DEPTH * sizeof(*admin->acq), admin->acq,
			  admin->acq_dma);
err_asq:
	dma_free_coherent(&pdev->dev, VRDMA_ADMIN_DEPTH * sizeof(*admin->asq), admin->asq,
			  admin->asq_dma);
err_slots:
	vrdma_admin_free_slots(admin);
	return err;
}

/* The caller has reset the device, and no verb is running. */
void vrdma_admin_cleanup(struct vrdma_dev *dev)
{
	struct vrdma_admin *admin = &dev->admin;
	struct device *dma_dev = &dev->fn->pdev->dev;

	free_irq(admin->irq, admin);
	dma_free_coherent(dma_dev, VRDMA_ADMIN_DEPTH * sizeof(*admin->acq), admin->acq,
			  admin->acq_dma);
	dma_free_coherent(dma_dev, VRDMA_ADMIN_DEPTH * sizeof(*admin->asq), admin->asq,
			  admin->asq_dma);
	vrdma_admin_free_slots(admin);
}
