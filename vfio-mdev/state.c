// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device's state for its guest (condition), and the messages for its mediator.
 *
 * A guest's register access takes only state.lock, for a few instructions, so it never waits for
 * the mediator. A write to VMware's device does, with no lock held. Lock order: reset_lock, the
 * lock of window.pages, state.lock. Interrupts are raised, and memory is revoked, with state.lock
 * dropped.
 *
 * A holder of reset_lock waits for no other thread, and inherits the priority of its waiters.
 */
#include <linux/jiffies.h>

#include "vrdma_mdev.h"

/* Timeout of a migration step: a VM's thread waits for it with QEMU's big lock held. */
#define STEP_TIME (5 * HZ)

void vrdma_state_init(struct vrdma_device *dev)
{
	struct vrdma_state *state = &dev->state;

	mutex_init(&state->read_lock);
	rt_mutex_init(&state->reset_lock);
	spin_lock_init(&state->lock);
	init_waitqueue_head(&state->wait);
	init_waitqueue_head(&state->step_wait);
	init_waitqueue_head(&state->done_wait);
	vrdma_handover_init(dev);
	state->condition = VRDMA_RESETTING;
}

u32 vrdma_state_status(struct vrdma_device *dev)
{
	struct vrdma_state *state = &dev->state;
	u32 status = 0;

	spin_lock(&state->lock);
	if (state->condition == VRDMA_FATAL)
		status = VRDMA_STATUS_FATAL;
	else if (state->condition == VRDMA_HANDED_OVER)
		status = state->handover.status;
	else if (state->condition == VRDMA_LIVE && !dev->pvrdma)
		status = le32_to_cpu(READ_ONCE(dev->shadow[VRDMA_REG_STATUS / sizeof(u32)]));
	spin_unlock(&state->lock);
	return status;
}

bool vrdma_state_fatal(struct vrdma_device *dev)
{
	return vrdma_state_status(dev) == VRDMA_STATUS_FATAL;
}

/* Reports a change of STATUS. VMware's driver has no interrupt for that. */
static void tell_driver(struct vrdma_device *dev)
{
	if (!dev->pvrdma)
		vrdma_irq_raise(dev, 0);
}

/* Whether the device fd is of no use any more. */
bool vrdma_state_defunct(struct vrdma_device *dev)
{
	struct vrdma_state *state = &dev->state;
	bool defunct;

	spin_lock(&state->lock);
	defunct = state->abandoned || state->removed || state->handover.awaited;
	spin_unlock(&state->lock);
	return defunct;
}

/*
 * Messages. Register writes are queued; each other kind has one pending flag. So a guest that
 * writes without pause uses a bounded amount of memory.
 */
static void queue_write(struct vrdma_state *state, struct vrdma_write write)
{
	lockdep_assert_held(&state->lock);

	state->writes[state->tail % VRDMA_MDEV_MAX_MESSAGES] = write;
	state->tail++;
}

void vrdma_state_write(struct vrdma_device *dev, u32 offset, u32 value)
{
	struct vrdma_state *state = &dev->state;
	const bool enables = offset == VRDMA_REG_CONTROL && (value & VRDMA_CONTROL_ENABLE);
	const bool without_memory = enables && !vrdma_config_bus_master(dev);
	const struct vrdma_write write = { VRDMA_MDEV_MESSAGE_WRITE, offset, value };
	bool fails = false;

	spin_lock(&state->lock);
	if (state->condition == VRDMA_FATAL) {
		/* Only a reset helps, and it would drop this write. */
	} else if (without_memory || state->tail - state->head == VRDMA_MDEV_MAX_MESSAGES) {
		state->condition = VRDMA_FATAL;
		fails = true;
	} else {
		queue_write(state, write);
	}
	spin_unlock(&state->lock);

	if (fails)
		tell_driver(dev);
	else
		wake_up_interruptible(&state->wait);
}

/* A write to VMware's device, on its way. */
struct vrdma_post {
	struct vrdma_write write;
	u32 generation; /* in which the guest writes */
	bool queued;
	u32 end; /* the index after it, once it is queued */
};

static bool is_void(const struct vrdma_state *state, const struct vrdma_post *post)
{
	lockdep_assert_held(&state->lock);

	return state->condition == VRDMA_FATAL || state->removed ||
	       state->generation != post->generation;
}

/* An equal doorbell that nobody has read yet tells as much. */
static bool is_told(const struct vrdma_state *state, const struct vrdma_write *write)
{
	const struct vrdma_write *last =
		&state->writes[(state->tail - 1) % VRDMA_MDEV_MAX_MESSAGES];

	lockdep_assert_held(&state->lock);

	return write->type == VRDMA_MDEV_MESSAGE_DOORBELL && state->tail != state->head &&
	       last->type == write->type && last->offset == write->offset &&
	       last->value == write->value;
}

/* Returns whether it is queued, void, or told already. */
static bool is_queued(struct vrdma_state *state, struct vrdma_post *post)
{
	bool over;

	spin_lock(&state->lock);
	over = post->queued || is_void(state, post) || is_told(state, &post->write);
	if (!over && state->tail - state->head != VRDMA_MDEV_MAX_MESSAGES) {
		queue_write(state, post->write);
		post->end = state->tail;
		post->queued = true;
		over = true;
	}
	spin_unlock(&state->lock);
	return over;
}

static bool is_executed(struct vrdma_state *state, const struct vrdma_post *post)
{
	bool over;

	spin_lock(&state->lock);
	over = is_void(state, post) || (s32)(state->done - post->end) >= 0;
	spin_unlock(&state->lock);
	return over;
}

/*
 * Queues a write to VMware's device, and waits until it is executed if that is wanted. Returns
 * false if the mediator was too slow. A VM's thread that is being killed does not wait.
 */
bool vrdma_state_post(struct vrdma_device *dev, struct vrdma_write write, bool executed)
{
	struct vrdma_state *state = &dev->state;
	const unsigned long limit = msecs_to_jiffies(VRDMA_MDEV_WRITE_MS);
	struct vrdma_post post = { .write = write };
	long left;

	spin_lock(&state->lock);
	post.generation = state->generation;
	spin_unlock(&state->lock);
	left = wait_event_killable_timeout(state->done_wait, is_queued(state, &post), limit);
	if (!post.queued)
		return left;
	wake_up_interruptible(&state->wait);
	if (executed)
		left = wait_event_killable_timeout(state->done_wait, is_executed(state, &post),
						   limit);
	return left;
}

int vrdma_write_done(struct vrdma_device *dev, u32 number)
{
	struct vrdma_state *state = &dev->state;
	int ret = -ESTALE;

	spin_lock(&state->lock);
	if (number != state->done && number - state->done <= state->head - state->done) {
		state->done = number;
		ret = 0;
	}
	spin_unlock(&state->lock);
	if (!ret)
		wake_up(&state->done_wait);
	return ret;
}

void vrdma_state_doorbell(struct vrdma_device *dev)
{
	struct vrdma_state *state = &dev->state;

	spin_lock(&state->lock);
	state->doorbell_pending = true;
	spin_unlock(&state->lock);
	wake_up_interruptible(&state->wait);
}

/* Sets one value of the share, or returns it to the type's. */
void vrdma_state_set_share(struct vrdma_device *dev, unsigned int which, bool set, u64 value)
{
	struct vrdma_state *state = &dev->state;

	spin_lock(&state->lock);
	state->share.set = (state->share.set & ~BIT(which)) | (set ? BIT(which) : 0);
	state->share.values[which] = value;
	state->share_pending = true;
	spin_unlock(&state->lock);
	wake_up_interruptible(&state->wait);
}

/* Tells one range: the hull of those that the mediator has not read yet. */
void vrdma_state_revoked(struct vrdma_device *dev, u32 first, u32 last)
{
	struct vrdma_state *state = &dev->state;

	spin_lock(&state->lock);
	if (state->revoked_pending) {
		first = min(first, state->revoked_first);
		last = max(last, state->revoked_last);
	}
	state->revoked_first = first;
	state->revoked_last = last;
	state->revoked_pending = true;
	spin_unlock(&state->lock);
	wake_up_interruptible(&state->wait);
}

void vrdma_state_kick(struct vrdma_device *dev)
{
	struct vrdma_state *state = &dev->state;

	spin_lock(&state->lock);
	if (state->kick)
		vrdma_eventfd_signal(state->kick);
	spin_unlock(&state->lock);
}

void vrdma_state_set_kick(struct vrdma_device *dev, struct eventfd_ctx *kick)
{
	struct vrdma_state *state = &dev->state;

	spin_lock(&state->lock);
	swap(state->kick, kick);
	spin_unlock(&state->lock);
	if (kick)
		eventfd_ctx_put(kick);
}

static bool has_message(const struct vrdma_state *state)
{
	return state->share_pending || state->reset_pending || state->revoked_pending ||
	       state->head != state->tail || state->doorbell_pending || state->step_pending;
}

bool vrdma_has_message(struct vrdma_device *dev)
{
	struct vrdma_state *state = &dev->state;
	bool any;

	spin_lock(&state->lock);
	any = has_message(state);
	spin_unlock(&state->lock);
	return any;
}

/*
 * A reset precedes later writes of the guest, and a doorbell follows the writes that it needs. The
 * message stays pending until vrdma_take_message(), which gets *head to recognize it.
 */
bool vrdma_next_message(struct vrdma_device *dev, struct vrdma_mdev_message *message, u32 *head)
{
	struct vrdma_state *state = &dev->state;
	bool any;

	memset(message, 0, sizeof(*message));
	spin_lock(&state->lock);
	any = has_message(state);
	*head = state->head;
	if (state->share_pending) {
		message->type = VRDMA_MDEV_MESSAGE_SHARE;
	} else if (state->reset_pending) {
		message->type = VRDMA_MDEV_MESSAGE_RESET;
		message->value = state->generation;
	} else if (state->revoked_pending) {
		message->type = VRDMA_MDEV_MESSAGE_REVOKED;
		message->offset = state->revoked_first;
		message->value = state->revoked_last;
	} else if (state->head != state->tail) {
		const struct vrdma_write *write =
			&state->writes[state->head % VRDMA_MDEV_MAX_MESSAGES];

		message->type = write->type;
		message->offset = write->offset;
		message->value = write->value;
		if (dev->pvrdma && write->type == VRDMA_MDEV_MESSAGE_WRITE)
			message->number = state->head + 1;
	} else if (state->doorbell_pending) {
		message->type = VRDMA_MDEV_MESSAGE_ADMIN_DOORBELL;
	} else if (state->step_pending) {
		message->type = VRDMA_MDEV_MESSAGE_STEP;
		message->offset = state->step;
		message->value = state->step_number;
	}
	spin_unlock(&state->lock);
	return any;
}

/*
 * The mediator has read the message. A reset may have voided it meanwhile, or replaced it by its
 * own.
 */
void vrdma_take_message(struct vrdma_device *dev, const struct vrdma_mdev_message *message,
			u32 head)
{
	struct vrdma_state *state = &dev->state;

	spin_lock(&state->lock);
	if (message->type == VRDMA_MDEV_MESSAGE_SHARE)
		state->share_pending = false; /* the mediator reads its values later */
	else if (message->type == VRDMA_MDEV_MESSAGE_RESET)
		state->reset_pending &= message->value != state->generation;
	else if (message->type == VRDMA_MDEV_MESSAGE_STEP)
		state->step_pending &= message->value != state->step_number;
	else if (state->reset_pending)
		; /* voided */
	else if (message->type == VRDMA_MDEV_MESSAGE_REVOKED)
		state->revoked_pending &= message->offset != state->revoked_first ||
					  message->value != state->revoked_last;
	else if (message->type == VRDMA_MDEV_MESSAGE_ADMIN_DOORBELL)
		state->doorbell_pending = false;
	else
		state->head += state->head == head;
	spin_unlock(&state->lock);
	if (dev->pvrdma)
		wake_up(&state->done_wait); /* there is room */
}

/* Starts a generation: the guest's requests to the last one are void. */
static void begin_reset(struct vrdma_state *state)
{
	lockdep_assert_held(&state->lock);

	state->generation++;
	state->condition = state->abandoned ? VRDMA_FATAL : VRDMA_RESETTING;
	vrdma_handover_forget(state);
	state->head = state->tail;
	state->done = state->tail;
	state->doorbell_pending = false;
	state->revoked_pending = false;
	state->reset_pending = true;
}

/*
 * Afterwards the mediator cannot reach any memory of the guest, whatever it does.
 *
 * The caller has held reset_lock since before begin_reset(). So if the mediator serves the reset
 * quickly, it opens the window after this has closed it.
 */
static void finish_reset(struct vrdma_device *dev)
{
	lockdep_assert_held(&dev->state.reset_lock);

	vrdma_irqs_reset(dev);
	vrdma_window_disable(dev);
	wake_up_interruptible(&dev->state.wait);
	wake_up(&dev->state.done_wait);
}

/* A reset that the VM asked for. */
static void reset(struct vrdma_device *dev)
{
	struct vrdma_state *state = &dev->state;

	lockdep_assert_held(&state->reset_lock);

	spin_lock(&state->lock);
	state->recovering = false;
	begin_reset(state);
	spin_unlock(&state->lock);
	finish_reset(dev);
}

/*
 * A reset by the device's own register: the driver polls STATUS and needs no interrupt for READY.
 */
void vrdma_reset(struct vrdma_device *dev)
{
	rt_mutex_lock(&dev->state.reset_lock);
	reset(dev);
	rt_mutex_unlock(&dev->state.reset_lock);
	vrdma_pins_settle(&dev->window);
}

/* A reset by VFIO. */
void vrdma_reset_function(struct vrdma_device *dev)
{
	rt_mutex_lock(&dev->state.reset_lock);
	vrdma_config_reset(dev);
	reset(dev);
	rt_mutex_unlock(&dev->state.reset_lock);
	vrdma_pins_settle(&dev->window);
}

/* A VM has opened or closed the device. */
void vrdma_reset_open(struct vrdma_device *dev, bool open)
{
	struct vrdma_state *state = &dev->state;

	rt_mutex_lock(&state->reset_lock);
	vrdma_config_reset(dev);
	spin_lock(&state->lock);
	state->open = open;
	spin_unlock(&state->lock);
	reset(dev);
	rt_mutex_unlock(&state->reset_lock);
}

/* The window shows the VM's memory only while all of these conditions hold. */
static bool may_show_memory(struct vrdma_device *dev)
{
	struct vrdma_state *state = &dev->state;
	bool live;

	lockdep_assert_held(&state->reset_lock);

	spin_lock(&state->lock);
	live = state->open && state->condition == VRDMA_LIVE;
	spin_unlock(&state->lock);
	return live && vrdma_config_bus_master(dev);
}

/*
 * The VM writes to the configuration space. If this resets the device, a driver that has enabled it
 * may not know, so an interrupt reports the change of STATUS.
 */
void vrdma_configure(struct vrdma_device *dev, u64 offset, const u8 *bytes, size_t count)
{
	struct vrdma_state *state = &dev->state;
	bool was_enabled, was_master, resets;

	rt_mutex_lock(&state->reset_lock);
	was_enabled = vrdma_state_status(dev) == VRDMA_STATUS_ENABLED;
	was_master = vrdma_config_bus_master(dev);
	resets = vrdma_config_change(dev, offset, bytes, count);
	if (resets)
		reset(dev);
	else if (!was_master && may_show_memory(dev))
		vrdma_window_enable(dev);
	rt_mutex_unlock(&state->reset_lock);

	if (resets && was_enabled)
		tell_driver(dev);
	if (resets)
		vrdma_pins_settle(&dev->window);
}

/* reset_lock makes the check and the opening of the window atomic with respect to a reset. */
int vrdma_reset_done(struct vrdma_device *dev, u32 generation)
{
	struct vrdma_state *state = &dev->state;
	bool recovered = false;
	bool done = false;
	int ret;

	ret = rt_mutex_lock_killable(&state->reset_lock);
	if (ret)
		return ret;
	spin_lock(&state->lock);
	if (state->abandoned || state->removed) {
		ret = -ENODEV;
	} else if (generation != state->generation) {
		ret = -ESTALE;
	} else if (state->condition == VRDMA_RESETTING || state->condition == VRDMA_HANDED_OVER) {
		state->condition = VRDMA_LIVE;
		done = true;
		swap(recovered, state->recovering);
	}
	spin_unlock(&state->lock);
	/* After a handover, it shows memory already, and keeps its pins. */
	if (done && may_show_memory(dev) && !dev->window.live)
		vrdma_window_enable(dev);
	rt_mutex_unlock(&state->reset_lock);

	if (recovered)
		tell_driver(dev);
	return ret;
}

/*
 * A mediator opens the device. Unless an earlier one has left what it did, a reset comes first.
 */
int vrdma_adopt(struct vrdma_device *dev)
{
	struct vrdma_state *state = &dev->state;
	bool resets = false;
	int ret;

	ret = rt_mutex_lock_killable(&state->reset_lock);
	if (ret)
		return ret;
	spin_lock(&state->lock);
	if (state->removed) {
		ret = -ENODEV;
	} else if (state->mediated) {
		ret = -EBUSY;
	} else {
		resets = !state->handover.awaited || state->condition != VRDMA_HANDED_OVER;
		state->mediated = true;
		state->handover.awaited = false;
		state->done = state->head; /* the predecessor has executed all that it has read */
	}
	if (resets) {
		state->abandoned = false;
		state->recovering = state->open && state->condition == VRDMA_FATAL;
		begin_reset(state);
	}
	spin_unlock(&state->lock);

	if (resets)
		finish_reset(dev);
	rt_mutex_unlock(&state->reset_lock);
	wake_up(&state->done_wait);
	return ret;
}

/* Returns whether the device is FATAL by this. */
static bool mark_abandoned(struct vrdma_state *state)
{
	const bool fatal = state->condition != VRDMA_FATAL;

	lockdep_assert_held(&state->lock);

	state->abandoned = true;
	state->condition = VRDMA_FATAL;
	state->handover.awaited = false;
	vrdma_handover_forget(state);
	return fatal;
}

static void tell_abandoned(struct vrdma_device *dev, bool fatal)
{
	if (fatal)
		tell_driver(dev);
	wake_up_interruptible(&dev->state.wait);
	wake_up(&dev->state.step_wait);
	wake_up(&dev->state.done_wait);
}

/*
 * The mediator is gone: its registration or its device fd was closed. If its successor is awaited,
 * the device stays as it is. The next mediator cannot open the device before this returns.
 */
void vrdma_abandon(struct vrdma_device *dev)
{
	struct vrdma_state *state = &dev->state;
	bool fatal = false;
	bool stays;

	spin_lock(&state->lock);
	stays = state->handover.awaited;
	if (!stays)
		fatal = mark_abandoned(state);
	spin_unlock(&state->lock);
	if (stays)
		return;

	rt_mutex_lock(&state->reset_lock);
	vrdma_window_disable(dev);
	rt_mutex_unlock(&state->reset_lock);
	tell_abandoned(dev, fatal);
}

/*
 * The time for the successor is over. A call that belongs to an earlier handover does nothing. The
 * successor may open the device at any time, so reset_lock is held from the check on.
 */
void vrdma_abandon_late(struct vrdma_device *dev)
{
	struct vrdma_state *state = &dev->state;
	bool fatal = false;
	bool late;

	rt_mutex_lock(&state->reset_lock);
	spin_lock(&state->lock);
	late = state->handover.awaited && time_after_eq(jiffies, state->handover.deadline);
	if (late)
		fatal = mark_abandoned(state);
	spin_unlock(&state->lock);
	if (late)
		vrdma_window_disable(dev);
	rt_mutex_unlock(&state->reset_lock);
	if (late)
		tell_abandoned(dev, fatal);
}

/* The device's state is unknown, so it does nothing until a reset. */
void vrdma_fail(struct vrdma_device *dev)
{
	struct vrdma_state *state = &dev->state;

	spin_lock(&state->lock);
	state->condition = VRDMA_FATAL;
	spin_unlock(&state->lock);

	rt_mutex_lock(&state->reset_lock);
	vrdma_window_disable(dev);
	rt_mutex_unlock(&state->reset_lock);
	tell_driver(dev);
	wake_up(&state->done_wait);
}

/* Steps of a migration. */

static bool step_is_over(struct vrdma_state *state)
{
	bool over;

	spin_lock(&state->lock);
	over = !state->step_awaited || state->abandoned || state->removed;
	spin_unlock(&state->lock);
	return over;
}

/*
 * Has the mediator carry out one step, and waits. Returns 0 or an errno, which is the mediator's if
 * it has answered. A later answer is ignored.
 */
int vrdma_state_step(struct vrdma_device *dev, u32 step, bool *answered)
{
	struct vrdma_state *state = &dev->state;
	int ret = -ETIMEDOUT;

	spin_lock(&state->lock);
	state->step = step;
	state->step_number++;
	state->step_pending = true;
	state->step_awaited = true;
	spin_unlock(&state->lock);
	wake_up_interruptible(&state->wait);
	if (wait_event_killable_timeout(state->step_wait, step_is_over(state), STEP_TIME) < 0)
		ret = -EINTR;

	spin_lock(&state->lock);
	*answered = !state->step_awaited;
	if (*answered)
		ret = -state->step_error;
	else if (state->abandoned || state->removed)
		ret = -EIO;
	state->step_pending = false;
	state->step_awaited = false;
	spin_unlock(&state->lock);
	return ret;
}

int vrdma_step_done(struct vrdma_device *dev, u32 number, int error)
{
	struct vrdma_state *state = &dev->state;
	int ret = -ESTALE;

	spin_lock(&state->lock);
	if (state->step_awaited && number == state->step_number) {
		state->step_awaited = false;
		state->step_error = error;
		ret = 0;
	}
	spin_unlock(&state->lock);
	if (!ret)
		wake_up(&state->step_wait);
	return ret;
}

/* Returns the previous transfer, and its reference. */
struct vrdma_transfer *vrdma_state_set_transfer(struct vrdma_device *dev,
						struct vrdma_transfer *transfer)
{
	struct vrdma_state *state = &dev->state;

	spin_lock(&state->lock);
	swap(state->transfer, transfer);
	spin_unlock(&state->lock);
	return transfer;
}

/* Returns the transfer with a reference, or NULL. */
struct vrdma_transfer *vrdma_state_transfer(struct vrdma_device *dev)
{
	struct vrdma_state *state = &dev->state;
	struct vrdma_transfer *transfer;

	spin_lock(&state->lock);
	transfer = state->transfer ? vrdma_transfer_get(state->transfer) : NULL;
	spin_unlock(&state->lock);
	return transfer;
}

/* The device fd was closed: the next mediator may open it. */
void vrdma_release(struct vrdma_device *dev)
{
	struct vrdma_state *state = &dev->state;

	vrdma_state_set_kick(dev, NULL);
	vrdma_abandon(dev);
	spin_lock(&state->lock);
	state->mediated = false;
	spin_unlock(&state->lock);
}

void vrdma_state_remove(struct vrdma_device *dev)
{
	struct vrdma_state *state = &dev->state;

	spin_lock(&state->lock);
	state->removed = true;
	spin_unlock(&state->lock);
	vrdma_handover_cancel(dev);
	wake_up_interruptible(&state->wait);
	wake_up(&state->step_wait);
	wake_up(&state->done_wait);
}
