/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The driver of one vrdma function in user space. Layers, each of which knows only those below it:
 *
 *	vrdmadv, context		what the program sees: devices, contexts
 *	verbs				the control verbs
 *	device, gids, sysfs		one life of the function; its addresses, and as files
 *	events, channel			event queues, and how events reach the program
 *	vrdma/commands.h, admin		the admin queue
 *	function			registers, reset
 *	memory, share, in_place, iova	what the device sees of this process
 *	bus: vfio_user, vfio		how the function is reached
 *
 * Locks: a device's locks are leaves, but for the admin queue's, under which nothing is called.
 * Functions return 0 or a negative errno where they end in the shared commands, else an errno.
 */
#ifndef VRDMA_DIRECT_DEVICE_H
#define VRDMA_DIRECT_DEVICE_H

#include <pthread.h>
#include <vrdma/commands.h>
#include <vrdma/registers.h>
#include <vrdma/ring.h>

#include "../vrdma.h"
#include "bus.h"
#include "memory.h"
#include "sysfs.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VRDMA_PORT 1
#define VRDMA_ADMIN_DEPTH 64 /* commands in flight; a power of two */
#define VRDMA_EQ_DEPTH 1024  /* a power of two; more events wait in the device */
#define VRDMA_MAX_COMP_EQS 15
#define VRDMA_EVENT_BUCKETS 4096
#define VRDMA_MAX_ADDRESSES (VRDMA_MAX_GIDS / 2 - 1) /* and the one of its own */

struct vrdma_function {
	struct vrdma_bus *bus;
	struct vrdma_identity id;
	int vector_fds[VRDMA_MAX_VECTORS];
};

/* In flight while it has cpl, which is the caller's. */
struct vrdma_admin_slot {
	struct vrdma_admin_cpl *cpl;
	bool taken;
};

struct vrdma_admin {
	struct vrdma_buffer asq;
	struct vrdma_buffer acq;
	int event_fd; /* the admin vector's */

	pthread_mutex_t lock; /* all below */
	pthread_cond_t changed;
	struct vrdma_admin_slot slots[VRDMA_ADMIN_DEPTH]; /* by command id */
	unsigned int taken;
	uint32_t producer; /* free-running */
	uint32_t consumer; /* free-running */
	bool watched;      /* one of those who wait looks at event_fd, for all of them */
	bool dead;         /* nothing is sent nor answered any more */
};

struct vrdma_eq {
	struct vrdma_buffer buffer; /* struct vrdma_eq_control, then entries */
	uint32_t consumer;          /* free-running */
	uint32_t handle;
};

struct vrdma_events {
	pthread_t thread;
	int wake_fd; /* for the thread to look at everything, or to end */
	struct vrdma_eq eqs[1 + VRDMA_MAX_COMP_EQS]; /* the first is for async events */
	unsigned int num_eqs;

	pthread_mutex_t lock; /* all below, and the channels of all contexts */
	bool stop;
	struct vrdma_context *contexts;
	struct vrdma_event_target *cqs[VRDMA_EVENT_BUCKETS];
	struct vrdma_event_target *qps[VRDMA_EVENT_BUCKETS];
	struct vrdma_event_target *srqs[VRDMA_EVENT_BUCKETS];
};

/* The port's GIDs, which never change. */
struct vrdma_gids {
	union ibv_gid entries[VRDMA_MAX_GIDS];
	unsigned int count;
};

/* What a program may say of a device (vrdmadv.h). */
struct vrdma_options {
	char *path;
	char name[IBV_SYSFS_NAME_MAX];
	union ibv_gid addresses[VRDMA_MAX_ADDRESSES];
	unsigned int num_addresses;
};

struct vrdma_dev {
	struct vrdma_dev *next; /* of all in this process */
	unsigned int refs;
	char *path;

	struct vrdma_function fn;
	struct vrdma_memory memory;
	struct vrdma_admin admin;
	struct vrdma_buffer status_page;
	struct vrdma_cpl_query_device caps;
	struct vrdma_events events;
	struct vrdma_gids gids;
	struct vrdma_sysfs sysfs;

	pthread_mutex_t quiesce_lock; /* quiesced, and the reset before it is set */
	bool quiesced;                /* was reset; touches no memory of ours any more */
	bool forked;                  /* this process is a child, and the device its parent's */
};

/* function.c */
int vrdma_function_init(struct vrdma_function *fn, struct vrdma_bus *bus);
void vrdma_function_cleanup(struct vrdma_function *fn);
bool vrdma_function_enabled(struct vrdma_function *fn);
int vrdma_function_reset(struct vrdma_function *fn);
int vrdma_function_enable(struct vrdma_dev *dev);

/* admin.c: see also vrdma/commands.h */
int vrdma_admin_init(struct vrdma_dev *dev);
void vrdma_admin_cleanup(struct vrdma_dev *dev);
bool vrdma_admin_kill(struct vrdma_admin *admin);

/* events.c */
int vrdma_events_init(struct vrdma_dev *dev);
void vrdma_events_cleanup(struct vrdma_dev *dev);
void vrdma_events_forked(struct vrdma_events *events);
void vrdma_events_wake(struct vrdma_events *events);
void vrdma_events_fatal(struct vrdma_dev *dev);
void vrdma_events_add_context(struct vrdma_dev *dev, struct vrdma_context *context);
void vrdma_events_remove_context(struct vrdma_dev *dev, struct vrdma_context *context);
void vrdma_events_add_cq(struct vrdma_dev *dev, struct vrdma_cq *cq,
			 struct ibv_comp_channel *channel);
void vrdma_events_remove_cq(struct vrdma_dev *dev, struct vrdma_cq *cq, uint32_t *completions,
			    uint32_t *async);
void vrdma_events_add_qp(struct vrdma_dev *dev, struct vrdma_qp *qp);
void vrdma_events_remove_qp(struct vrdma_dev *dev, struct vrdma_qp *qp, uint32_t *async);
void vrdma_events_add_srq(struct vrdma_dev *dev, struct vrdma_srq *srq);
void vrdma_events_remove_srq(struct vrdma_dev *dev, struct vrdma_srq *srq, uint32_t *async);
void vrdma_cq_event(struct ibv_cq *cq);
void vrdma_async_event(struct ibv_context *context, struct ibv_async_event *event);

/* gids.c */
int vrdma_gids_init(struct vrdma_dev *dev, const struct vrdma_options *options);

/* device.c */
struct vrdma_dev *vrdma_dev_get(const struct vrdma_options *options);
void vrdma_dev_put(struct vrdma_dev *dev);
void vrdma_dev_fail(struct vrdma_dev *dev, const char *why);
void vrdma_dev_quiesce(struct vrdma_dev *dev);

/* context.c */
extern const struct verbs_device_ops vrdma_direct_device_ops;
void vrdma_direct_close(struct vrdma_context *context);
struct ibv_comp_channel *vrdma_direct_create_channel(struct vrdma_context *context);

/* A device in a program's list; or, with a directory in the place of sysfs, an open context's. */
struct vrdma_direct_device {
	struct verbs_device base;
	struct vrdma_options options;
};

struct vrdma_direct_device *vrdma_direct_device_new(const struct vrdma_options *options);

/* verbs.c */
extern const struct vrdma_control vrdma_direct_control;

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_DIRECT_DEVICE_H */
