/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Registers, reset and interrupts of the function. */
#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "device.h"

#define STATUS_POLL_MS 1

__u32 vrdma_read(struct vrdma_function *fn, enum vrdma_register reg)
{
	return fn->bus->ops->read(fn->bus, reg);
}

void vrdma_write(struct vrdma_function *fn, enum vrdma_register reg, __u32 value)
{
	fn->bus->ops->write(fn->bus, reg, value);
}

/* One eventfd per vector. */
static int make_vectors(struct vrdma_function *fn)
{
	for (unsigned int i = 0; i < fn->id.num_vectors; i++) {
		fn->vector_fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (fn->vector_fds[i] < 0)
			return -errno;
	}
	return fn->bus->ops->set_vectors(fn->bus, fn->vector_fds, fn->id.num_vectors);
}

static int identify(struct vrdma_function *fn)
{
	const int err = vrdma_read_identity(fn, &fn->id);

	if (err)
		return err;
	if (!fn->id.num_vectors || fn->id.num_vectors > VRDMA_MAX_VECTORS ||
	    fn->id.num_doorbell_pages > fn->bus->doorbells_size / VRDMA_DOORBELL_PAGE_SIZE)
		return -ENODEV;
	return 0;
}

/*
 * Before the reset, the registers show the MAC of the last opening. Another one may have been
 * written since. The mediator reads it at the reset.
 */
int vrdma_function_init(struct vrdma_function *fn, struct vrdma_bus *bus)
{
	int err;

	fn->bus = bus;
	for (unsigned int i = 0; i < VRDMA_MAX_VECTORS; i++)
		fn->vector_fds[i] = -1;
	err = identify(fn);
	if (!err)
		err = vrdma_function_reset(fn);
	if (!err)
		err = identify(fn);
	if (!err)
		err = make_vectors(fn);
	if (err)
		vrdma_function_cleanup(fn);
	return err;
}

void vrdma_function_cleanup(struct vrdma_function *fn)
{
	for (unsigned int i = 0; i < VRDMA_MAX_VECTORS; i++)
		if (fn->vector_fds[i] >= 0)
			close(fn->vector_fds[i]);
}

bool vrdma_function_enabled(struct vrdma_function *fn)
{
	return vrdma_read(fn, VRDMA_REG_STATUS) == VRDMA_STATUS_ENABLED;
}

/* Waits until STATUS is `want`, or shows that it never will be. All ones include FATAL. */
static int wait_status(struct vrdma_function *fn, uint32_t want)
{
	const struct timespec pause = {.tv_nsec = STATUS_POLL_MS * 1000000L};

	for (int tries = VRDMA_RESET_TIMEOUT_MS / STATUS_POLL_MS; tries; tries--) {
		uint32_t status = vrdma_read(fn, VRDMA_REG_STATUS);

		if (status == want)
			return 0;
		if (status & VRDMA_STATUS_FATAL)
			return -EIO;
		nanosleep(&pause, NULL);
	}
	return -ETIMEDOUT;
}

/* Afterwards the device has forgotten its state, or is gone. Either way, it accesses no memory. */
int vrdma_function_reset(struct vrdma_function *fn)
{
	if (vrdma_read(fn, VRDMA_REG_STATUS) == VRDMA_STATUS_READY)
		return 0;
	vrdma_write(fn, VRDMA_REG_CONTROL, VRDMA_CONTROL_RESET);
	return wait_status(fn, VRDMA_STATUS_READY);
}

int vrdma_function_enable(struct vrdma_dev *dev)
{
	const struct vrdma_function_queues queues = {
		.asq = dev->admin.asq.address,
		.acq = dev->admin.acq.address,
		.status_page = dev->status_page.address,
		.depth = VRDMA_ADMIN_DEPTH,
		.vector = vrdma_admin_vector(dev->fn.id.num_vectors),
	};

	vrdma_write_enable(&dev->fn, &queues);
	return wait_status(&dev->fn, VRDMA_STATUS_ENABLED);
}
