// SPDX-License-Identifier: GPL-2.0-only
/*
 * The admin queue: many commands may be in flight, and the device answers each separately, in any
 * order.
 *
 * A command costs one trapped register write. It ends with the device's answer. If the device makes
 * no step of any command for VRDMA_ADMIN_TIMEOUT_MS, the whole device fails, which ends all
 * commands.
 */
#include <linux/dma-mapping.h>
#include <linux/interrupt.h>

#include "vrdma_ib.h"

/* Time without an answer after which the queue is polled without an interrupt. */
#define VRDMA_ADMIN_POLL_MS 100

/* Takes the answers that have arrived. False if an answer is to no outstanding command. */
static bool vrdma_admin_reap(struct vrdma_admin *admin)
{
	unsigned int budget;
	int id;

	lockdep_assert_held(&admin->lock);
	for (budget = VRDMA_ADMIN_DEPTH; budget && !admin->dead; budget--) {
		id = vrdma_admin_take_answer(&admin->queue);
		if (id < 0)
			return id == -EAGAIN;
		complete(&admin->done[id]);
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

/* Queues the command and returns its id. The caller holds one of free_ids. */
static int vrdma_admin_submit(struct vrdma_admin *admin, u32 opcode, struct vrdma_admin_cmd *cmd,
			      struct vrdma_admin_cpl *cpl)
{
	unsigned long flags;
	int id = -EIO;

	spin_lock_irqsave(&admin->lock, flags);
	if (!admin->dead) {
		id = vrdma_admin_take_id(&admin->queue);
		reinit_completion(&admin->done[id]);
		vrdma_admin_queue_command(&admin->queue, opcode, id, cmd, cpl);
	}
	spin_unlock_irqrestore(&admin->lock, flags);
	return id;
}

static void vrdma_admin_wait(struct vrdma_dev *dev, struct completion *done)
{
	const struct vrdma_status_page *status = page_address(dev->status_page);
	unsigned long interval = msecs_to_jiffies(VRDMA_ADMIN_POLL_MS);
	unsigned long timeout = msecs_to_jiffies(VRDMA_ADMIN_TIMEOUT_MS);
	unsigned long deadline = jiffies + timeout;
	u32 before = vrdma_load(&status->admin_steps);
	u32 steps;

	/* A failure ends all commands, and with them this loop. */
	while (!wait_for_completion_timeout(done, interval)) {
		vrdma_admin_poll(dev);
		if (completion_done(done))
			continue;
		steps = vrdma_load(&status->admin_steps);
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
	int id;

	down(&admin->free_ids);
	id = vrdma_admin_submit(admin, opcode, cmd, cpl);
	if (id >= 0) {
		vrdma_write(dev->fn, VRDMA_REG_ADMIN_DOORBELL, 1);
		vrdma_admin_wait(dev, &admin->done[id]);
		spin_lock_irqsave(&admin->lock, flags);
		vrdma_admin_give_id(&admin->queue, id);
		spin_unlock_irqrestore(&admin->lock, flags);
	}
	up(&admin->free_ids);
	return id < 0 ? id : vrdma_admin_error(cpl);
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
	for (id = 0; first && id < VRDMA_ADMIN_DEPTH; id++) {
		if (!admin->queue.answer_to[id])
			continue;
		vrdma_admin_answer(&admin->queue, id, &eio);
		complete(&admin->done[id]);
	}
	spin_unlock_irqrestore(&admin->lock, flags);
	return first;
}

static void vrdma_admin_free_rings(struct vrdma_dev *dev)
{
	struct vrdma_admin *admin = &dev->admin;
	struct vrdma_admin_queue *queue = &admin->queue;
	struct device *dma_dev = &dev->fn->pdev->dev;

	if (queue->answers)
		dma_free_coherent(dma_dev, VRDMA_ADMIN_DEPTH * sizeof(*queue->answers),
				  queue->answers, admin->acq_dma);
	if (queue->commands)
		dma_free_coherent(dma_dev, VRDMA_ADMIN_DEPTH * sizeof(*queue->commands),
				  queue->commands, admin->asq_dma);
}

static int vrdma_admin_alloc_rings(struct vrdma_dev *dev)
{
	struct vrdma_admin *admin = &dev->admin;
	struct vrdma_admin_queue *queue = &admin->queue;
	struct device *dma_dev = &dev->fn->pdev->dev;

	queue->commands = dma_alloc_coherent(dma_dev, VRDMA_ADMIN_DEPTH * sizeof(*queue->commands),
					     &admin->asq_dma, GFP_KERNEL);
	queue->answers = dma_alloc_coherent(dma_dev, VRDMA_ADMIN_DEPTH * sizeof(*queue->answers),
					    &admin->acq_dma, GFP_KERNEL);
	if (queue->commands && queue->answers)
		return 0;
	vrdma_admin_free_rings(dev);
	return -ENOMEM;
}

int vrdma_admin_init(struct vrdma_dev *dev)
{
	struct vrdma_admin *admin = &dev->admin;
	struct pci_dev *pdev = dev->fn->pdev;
	unsigned int id;
	int err;

	spin_lock_init(&admin->lock);
	sema_init(&admin->free_ids, VRDMA_ADMIN_DEPTH);
	for (id = 0; id < VRDMA_ADMIN_DEPTH; id++)
		init_completion(&admin->done[id]);
	err = vrdma_admin_alloc_rings(dev);
	if (err)
		return err;

	snprintf(admin->irq_name, sizeof(admin->irq_name), "vrdma-admin@%s", pci_name(pdev));
	admin->irq = pci_irq_vector(pdev, vrdma_admin_vector(dev->fn->id.num_vectors));
	err = request_irq(admin->irq, vrdma_admin_interrupt, IRQF_SHARED, admin->irq_name, admin);
	if (err)
		vrdma_admin_free_rings(dev);
	return err;
}

/* The caller has reset the device, and no verb is running. */
void vrdma_admin_cleanup(struct vrdma_dev *dev)
{
	free_irq(dev->admin.irq, &dev->admin);
	vrdma_admin_free_rings(dev);
}
