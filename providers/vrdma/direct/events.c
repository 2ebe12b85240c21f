/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Event queues, the thread that empties them, and how an event finds the object that it names.
 *
 * An object that is being created or destroyed is not in its table, and its events are dropped.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cm/cm.h"
#include "device.h"

#define COMPLETION 0 /* the one type of event that a completion channel has */

static struct vrdma_event_target **bucket_of(struct vrdma_event_target **table, uint32_t id)
{
	return &table[id % VRDMA_EVENT_BUCKETS];
}

/* The device may reuse a number before its last owner has left: lookups find the newer owner. */
static void add_target(struct vrdma_event_target **table, struct vrdma_event_target *target,
		       uint32_t id)
{
	struct vrdma_event_target **bucket = bucket_of(table, id);

	target->id = id;
	target->next = *bucket;
	*bucket = target;
}

static void remove_target(struct vrdma_event_target **table, struct vrdma_event_target *target)
{
	struct vrdma_event_target **at = bucket_of(table, target->id);

	while (*at != target)
		at = &(*at)->next;
	*at = target->next;
}

static struct vrdma_event_target *find_target(struct vrdma_event_target **table, uint32_t id)
{
	struct vrdma_event_target *target = *bucket_of(table, id);

	while (target && target->id != id)
		target = target->next;
	return target;
}

static struct vrdma_cq *find_cq(struct vrdma_events *events, uint32_t cqn)
{
	struct vrdma_event_target *target = find_target(events->cqs, cqn);

	return target ? container_of(target, struct vrdma_cq, target) : NULL;
}

/* An XRC_RECV QP may be open more than once. Each handle gets the events. */
static void post_to_qps(struct vrdma_events *events, uint32_t qpn, unsigned int type)
{
	struct vrdma_event_target *target = *bucket_of(events->qps, qpn);

	for (; target; target = target->next)
		if (target->id == qpn)
			vrdma_event_post(&container_of(target, struct vrdma_qp, target)->async,
					 type);
}

static struct vrdma_srq *find_srq(struct vrdma_events *events, uint32_t srqn)
{
	struct vrdma_event_target *target = find_target(events->srqs, srqn);

	return target ? container_of(target, struct vrdma_srq, target) : NULL;
}

static void post_to_contexts(struct vrdma_events *events, unsigned int type)
{
	for (struct vrdma_context *context = events->contexts; context; context = context->next)
		vrdma_event_post(&context->port_events, type);
}

/* Under the lock. False if the device has failed. */
static bool dispatch(void *context, __u32 type, __u32 id, __u64 detail)
{
	struct vrdma_events *events = context;
	struct vrdma_srq *srq;
	struct vrdma_cq *cq;

	switch (type) {
	case VRDMA_EQE_COMPLETION:
		cq = find_cq(events, id);
		if (cq)
			vrdma_event_post(&cq->completions, COMPLETION);
		break;
	case IBV_EVENT_CQ_ERR:
		cq = find_cq(events, id);
		if (cq)
			vrdma_event_post(&cq->async, type);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		post_to_qps(events, id, type);
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		srq = find_srq(events, id);
		if (srq)
			vrdma_event_post(&srq->async, type);
		break;
	case VRDMA_EQE_PAGE_FAULT:
		vrdma_paging_fault(container_of(events, struct vrdma_dev, events), id, detail);
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
		post_to_contexts(events, type);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		return false;
	}
	return true;
}

/* The queues that the thread empties. The others belong to direct channels. */
#define THREAD_EQS 2

/* Under the lock. False if the device has failed. */
static bool empty_eq(struct vrdma_events *events, struct vrdma_eq *eq)
{
	return vrdma_take_events(eq->buffer.data, &eq->consumer, NULL, dispatch, events);
}

static bool empty_eqs(struct vrdma_events *events)
{
	bool alive = true;

	pthread_mutex_lock(&events->lock);
	for (unsigned int i = 0; i < events->num_eqs && i < THREAD_EQS; i++)
		if (!empty_eq(events, &events->eqs[i]))
			alive = false;
	pthread_mutex_unlock(&events->lock);
	return alive;
}

/*
 * Drops what came for an earlier owner. The eventfd of a queue that nobody owns does not block.
 */
static void own_eq(struct vrdma_events *events, struct vrdma_eq *eq,
		   const struct vrdma_event_channel *owner)
{
	uint64_t count;

	while (read(eq->fd, &count, sizeof(count)) > 0)
		;
	empty_eq(events, eq);
	eq->interrupts = 0;
	eq->owner = owner;
}

/* Under the lock. NULL if none is left. */
struct vrdma_eq *vrdma_events_lend_queue(struct vrdma_dev *dev,
					 const struct vrdma_event_channel *owner)
{
	struct vrdma_events *events = &dev->events;

	for (unsigned int i = THREAD_EQS; i < events->num_eqs; i++)
		if (!events->eqs[i].owner) {
			own_eq(events, &events->eqs[i], owner);
			return &events->eqs[i];
		}
	return NULL;
}

/* Under the lock. Returns the queue that the channel has, if it has one. */
void vrdma_events_return_queue(struct vrdma_dev *dev, const struct vrdma_event_channel *owner)
{
	for (unsigned int i = THREAD_EQS; i < dev->events.num_eqs; i++) {
		struct vrdma_eq *eq = &dev->events.eqs[i];

		if (eq->owner == owner) {
			eq->owner = NULL;
			fcntl(eq->fd, F_SETFL, O_NONBLOCK);
		}
	}
}

/* Under the lock, for a channel without events. False if it has no CQ. */
static bool post_for_any_cq(struct vrdma_events *events, const struct vrdma_event_channel *channel)
{
	for (unsigned int i = 0; i < VRDMA_EVENT_BUCKETS; i++)
		for (struct vrdma_event_target *at = events->cqs[i]; at; at = at->next) {
			struct vrdma_cq *cq = container_of(at, struct vrdma_cq, target);

			if (cq->completions.channel == channel) {
				vrdma_event_post(&cq->completions, COMPLETION);
				return true;
			}
		}
	return false;
}

/*
 * The eventfd of a direct channel counts interrupts in its lower half. The upper half has a count
 * while there are more events than the one that was taken.
 */
#define MORE_EVENTS (1ull << 32)

/*
 * Takes the events of the interrupts that the eventfd has counted, and then the channel's next
 * event. The channel was readable, and callers rely on it. So if there is none, a CQ gets one: a
 * CQ may be empty after an event anyway. That happens after a restart of vrdmad, and if a CQ was
 * destroyed whose event was not read. False if the channel has no CQ.
 */
bool vrdma_events_take(struct vrdma_dev *dev, struct vrdma_eq *eq, uint64_t count,
		       struct vrdma_event_channel *channel, struct vrdma_event *event)
{
	struct vrdma_events *events = &dev->events;
	bool taken;

	pthread_mutex_lock(&events->lock);
	eq->interrupts += (uint32_t)count;
	vrdma_take_events(eq->buffer.data, &eq->consumer, &eq->interrupts, dispatch, events);
	taken = vrdma_event_take(channel, event) ||
		(post_for_any_cq(events, channel) && vrdma_event_take(channel, event));
	if (channel->first)
		eventfd_write(eq->fd, MORE_EVENTS);
	pthread_mutex_unlock(&events->lock);
	return taken;
}

/* The thread polls these, and the vectors of the queues that it empties. */
enum { WAKE, HANGUP, REQUEST, FIRST_VECTOR };

struct watch {
	struct pollfd fds[FIRST_VECTOR + THREAD_EQS];
	nfds_t count;
};

static void watch_init(struct watch *watch, struct vrdma_dev *dev)
{
	const struct vrdma_function *fn = &dev->fn;
	unsigned int completions = vrdma_comp_vector(fn->id.num_vectors, 0);

	watch->fds[WAKE] = (struct pollfd){.fd = dev->events.wake_fd, .events = POLLIN};
	watch->fds[HANGUP] = (struct pollfd){.fd = fn->bus->hangup_fd,
					     .events = fn->bus->hangup_event};
	watch->fds[REQUEST] = (struct pollfd){.fd = fn->bus->request_fd, .events = POLLIN};
	watch->count = FIRST_VECTOR;
	watch->fds[watch->count++] = (struct pollfd){.fd = fn->vector_fds[0], .events = POLLIN};
	if (completions != 0)
		watch->fds[watch->count++] = (struct pollfd){.fd = fn->vector_fds[completions],
							     .events = POLLIN};
}

/* Waits for at most `timeout` ms. Returns whether vector 0 was raised: STATUS may have changed. */
static bool watch_wait(struct watch *watch, int timeout)
{
	bool status = false;

	if (poll(watch->fds, watch->count, timeout) <= 0)
		return false;
	for (nfds_t i = 0; i < watch->count; i++) {
		uint64_t count;

		if (i != HANGUP && i != REQUEST && watch->fds[i].revents & POLLIN &&
		    read(watch->fds[i].fd, &count, sizeof(count)) > 0 && i == FIRST_VECTOR)
			status = true;
	}
	return status;
}

static bool must_stop(struct vrdma_events *events)
{
	bool stop;

	pthread_mutex_lock(&events->lock);
	stop = events->stop;
	pthread_mutex_unlock(&events->lock);
	return stop;
}

static void stop_watching(struct watch *watch, struct vrdma_dev *dev)
{
	watch->count = WAKE + 1;
	vrdma_cm_device_failed(dev);
}

/*
 * The device's server is about to end. Verbs that need the device wait meanwhile. A command that
 * nobody answers any more is executed by the next server, which is told to look for it.
 */
static void follow_server(struct vrdma_dev *dev)
{
	struct vrdma_bus *bus = dev->fn.bus;
	int err;

	pthread_mutex_lock(&dev->follow_lock);
	err = bus->ops->follow(bus);
	pthread_mutex_unlock(&dev->follow_lock);
	if (err)
		vrdma_dev_fail(dev, "it did not survive the restart of its server");
	else
		bus->ops->post(bus, VRDMA_REG_ADMIN_DOORBELL, 1);
}

/* Ends when it is told to. After the device has failed, the thread only waits for that. */
static void *event_thread(void *arg)
{
	struct vrdma_dev *dev = arg;
	struct watch watch;
	int timeout = -1;

	watch_init(&watch, dev);
	while (!must_stop(&dev->events)) {
		bool status = watch_wait(&watch, timeout);

		timeout = -1;
		if (vrdma_dev_failed(dev))
			stop_watching(&watch, dev);
		else if (!empty_eqs(&dev->events))
			vrdma_dev_fail(dev, "it said so");
		else if (watch.fds[REQUEST].revents)
			follow_server(dev);
		else if (watch.fds[HANGUP].revents)
			vrdma_dev_fail(dev, "it is gone, or wanted back");
		else if (status && !vrdma_function_enabled(&dev->fn))
			vrdma_dev_fail(dev, "its status says so");
		else
			timeout = vrdma_cm_run(dev);
	}
	return NULL;
}

/* Leaves signals to the program's own threads. Faults go to the thread that causes them. */
static int start_thread(struct vrdma_dev *dev)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&dev->events.thread, NULL, event_thread, dev);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return ret;
}

void vrdma_events_wake(struct vrdma_events *events)
{
	const uint64_t one = 1;
	ssize_t written = write(events->wake_fd, &one, sizeof(one));

	(void)written;
}

static int add_eq(struct vrdma_dev *dev, unsigned int vector)
{
	struct vrdma_cmd_create_eq arg = {
		.depth = htole32(VRDMA_EQ_DEPTH),
		.vector = htole32(vector),
	};
	struct vrdma_events *events = &dev->events;
	struct vrdma_eq *eq = &events->eqs[events->num_eqs];
	int ret = vrdma_memory_alloc(&dev->memory, &eq->buffer, VRDMA_EQ_SIZE);

	if (ret)
		return ret;
	arg.pages = vrdma_contiguous_pages(eq->buffer.address, VRDMA_EQ_SIZE);
	ret = -vrdma_cmd_create_eq(dev, &arg, &eq->handle);
	if (ret) {
		vrdma_memory_free(&dev->memory, &eq->buffer);
		return ret;
	}
	eq->fd = dev->fn.vector_fds[vector];
	pthread_mutex_lock(&events->lock);
	events->num_eqs++;
	pthread_mutex_unlock(&events->lock);
	return 0;
}

static void free_eqs(struct vrdma_dev *dev)
{
	while (dev->events.num_eqs)
		vrdma_memory_free(&dev->memory, &dev->events.eqs[--dev->events.num_eqs].buffer);
}

/* The first event queue that the device is given is for async events. */
int vrdma_events_add_queues(struct vrdma_dev *dev)
{
	uint32_t vectors = dev->fn.id.num_vectors;
	uint32_t count = vrdma_num_comp_eqs(vrdma_num_comp_vectors(vectors),
					    le32toh(dev->caps.max_eq));
	int ret;

	if (!count)
		return EIO;
	if (count > VRDMA_MAX_COMP_EQS)
		count = VRDMA_MAX_COMP_EQS;
	ret = add_eq(dev, 0);
	for (uint32_t i = 0; i < count && !ret; i++)
		ret = add_eq(dev, vrdma_comp_vector(vectors, i));
	return ret;
}

int vrdma_events_start(struct vrdma_dev *dev)
{
	struct vrdma_events *events = &dev->events;
	int ret;

	events->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (events->wake_fd < 0)
		return errno;
	pthread_mutex_init(&events->lock, NULL);
	ret = start_thread(dev);
	if (ret) {
		pthread_mutex_destroy(&events->lock);
		close(events->wake_fd);
	}
	return ret;
}

/* The device must be quiet: only that makes it release the queues. */
void vrdma_events_cleanup(struct vrdma_dev *dev)
{
	struct vrdma_events *events = &dev->events;

	if (!dev->forked) {
		pthread_mutex_lock(&events->lock);
		events->stop = true;
		pthread_mutex_unlock(&events->lock);
		vrdma_events_wake(events);
		pthread_join(events->thread, NULL);
	}
	free_eqs(dev);
	close(events->wake_fd);
	pthread_mutex_destroy(&events->lock);
}

void vrdma_events_fatal(struct vrdma_dev *dev)
{
	pthread_mutex_lock(&dev->events.lock);
	post_to_contexts(&dev->events, IBV_EVENT_DEVICE_FATAL);
	pthread_mutex_unlock(&dev->events.lock);
}

static void add_context(struct vrdma_dev *dev, struct vrdma_context *context)
{
	vrdma_event_source_init(&context->port_events, &context->async_channel, NULL);
	context->port_events.element = VRDMA_PORT;
	context->next = dev->events.contexts;
	dev->events.contexts = context;
}

/* Whether any context has that user context. */
static bool has_ucontext(const struct vrdma_dev *dev, uint32_t ucontext)
{
	const struct vrdma_context *context = dev->events.contexts;

	while (context && context->ucontext != ucontext)
		context = context->next;
	return context != NULL;
}

void vrdma_events_add_context(struct vrdma_dev *dev, struct vrdma_context *context)
{
	pthread_mutex_lock(&dev->events.lock);
	add_context(dev, context);
	pthread_mutex_unlock(&dev->events.lock);
}

/* Adds a context that shares its user context, if that still exists. */
bool vrdma_events_share_context(struct vrdma_dev *dev, struct vrdma_context *context)
{
	bool shared;

	pthread_mutex_lock(&dev->events.lock);
	shared = has_ucontext(dev, context->ucontext);
	if (shared)
		add_context(dev, context);
	pthread_mutex_unlock(&dev->events.lock);
	return shared;
}

/* Returns whether it was the last context of its user context. */
bool vrdma_events_remove_context(struct vrdma_dev *dev, struct vrdma_context *context)
{
	struct vrdma_context **at = &dev->events.contexts;
	bool last;

	pthread_mutex_lock(&dev->events.lock);
	while (*at != context)
		at = &(*at)->next;
	*at = context->next;
	last = !has_ucontext(dev, context->ucontext);
	pthread_mutex_unlock(&dev->events.lock);
	return last;
}

void vrdma_wait_for_acks(pthread_mutex_t *mutex, pthread_cond_t *changed, const uint32_t *acked,
			 uint32_t events)
{
	pthread_mutex_lock(mutex);
	while (*acked != events)
		pthread_cond_wait(changed, mutex);
	pthread_mutex_unlock(mutex);
}

void vrdma_events_add_cq(struct vrdma_dev *dev, struct vrdma_cq *cq,
			 struct ibv_comp_channel *channel)
{
	struct vrdma_context *context = to_vrdma_context(cq->base.cq.context);

	vrdma_event_source_init(&cq->completions,
				channel ? to_vrdma_channel(channel)->events : NULL, &cq->base.cq);
	vrdma_event_source_init(&cq->async, &context->async_channel, &cq->base.cq);
	pthread_mutex_lock(&dev->events.lock);
	if (channel &&
	    to_vrdma_channel(channel)->eq) /* drops events of an earlier CQ of its number */
		empty_eq(&dev->events, to_vrdma_channel(channel)->eq);
	add_target(dev->events.cqs, &cq->target, cq->base.cq.handle);
	pthread_mutex_unlock(&dev->events.lock);
}

void vrdma_events_remove_cq(struct vrdma_dev *dev, struct vrdma_cq *cq, uint32_t *completions,
			    uint32_t *async)
{
	pthread_mutex_lock(&dev->events.lock);
	remove_target(dev->events.cqs, &cq->target);
	*completions = vrdma_event_retire(&cq->completions);
	*async = vrdma_event_retire(&cq->async);
	pthread_mutex_unlock(&dev->events.lock);
}

void vrdma_events_add_qp(struct vrdma_dev *dev, struct vrdma_qp *qp)
{
	struct vrdma_context *context = to_vrdma_context(qp->base.qp.context);

	vrdma_event_source_init(&qp->async, &context->async_channel, &qp->base.qp);
	pthread_mutex_lock(&dev->events.lock);
	add_target(dev->events.qps, &qp->target, qp->base.qp.qp_num);
	pthread_mutex_unlock(&dev->events.lock);
}

void vrdma_events_remove_qp(struct vrdma_dev *dev, struct vrdma_qp *qp, uint32_t *async)
{
	pthread_mutex_lock(&dev->events.lock);
	remove_target(dev->events.qps, &qp->target);
	*async = vrdma_event_retire(&qp->async);
	pthread_mutex_unlock(&dev->events.lock);
}

void vrdma_events_add_srq(struct vrdma_dev *dev, struct vrdma_srq *srq)
{
	struct ibv_srq *base = &srq->base.srq;

	vrdma_event_source_init(&srq->async, &to_vrdma_context(base->context)->async_channel, base);
	pthread_mutex_lock(&dev->events.lock);
	add_target(dev->events.srqs, &srq->target, base->handle);
	pthread_mutex_unlock(&dev->events.lock);
}

void vrdma_events_remove_srq(struct vrdma_dev *dev, struct vrdma_srq *srq, uint32_t *async)
{
	pthread_mutex_lock(&dev->events.lock);
	remove_target(dev->events.srqs, &srq->target);
	*async = vrdma_event_retire(&srq->async);
	pthread_mutex_unlock(&dev->events.lock);
}

static void forget_lock(struct vrdma_work_queue *wq)
{
	pthread_spin_init(&wq->lock.spin, PTHREAD_PROCESS_PRIVATE);
	wq->limit = 0;
}

/* In the child: unlocks queues that the parent's threads had locked, and lets nothing be posted. */
void vrdma_events_forked(struct vrdma_events *events)
{
	struct vrdma_event_target *target;

	for (unsigned int i = 0; i < VRDMA_EVENT_BUCKETS; i++) {
		for (target = events->qps[i]; target; target = target->next) {
			struct vrdma_qp *qp = container_of(target, struct vrdma_qp, target);

			forget_lock(&qp->queues.sq);
			forget_lock(&qp->queues.rq);
		}
		for (target = events->srqs[i]; target; target = target->next)
			vrdma_shared_receive_queue_forked(
				&container_of(target, struct vrdma_srq, target)->queue);
		for (target = events->cqs[i]; target; target = target->next)
			vrdma_completion_queue_forked(
				&container_of(target, struct vrdma_cq, target)->queue);
	}
}

/* libibverbs has read an event from a completion channel. */
void vrdma_cq_event(struct ibv_cq *cq)
{
	struct vrdma_events *events = &to_vrdma_context(cq->context)->dev->events;

	pthread_mutex_lock(&events->lock);
	vrdma_event_taken(&to_vrdma_cq(cq)->completions, COMPLETION);
	pthread_mutex_unlock(&events->lock);
}

/* libibverbs has read an async event. */
void vrdma_async_event(struct ibv_context *base, struct ibv_async_event *event)
{
	struct vrdma_context *context = to_vrdma_context(base);
	struct vrdma_event_source *source = &context->port_events;

	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		source = &to_vrdma_cq(event->element.cq)->async;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		source = &to_vrdma_qp(event->element.qp)->async;
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		source = &to_vrdma_srq(event->element.srq)->async;
		break;
	default:
		break;
	}
	pthread_mutex_lock(&context->dev->events.lock);
	vrdma_event_taken(source, event->event_type);
	pthread_mutex_unlock(&context->dev->events.lock);
}
