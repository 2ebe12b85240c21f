/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The driver of one vrdma function in user space. Layers, each of which calls only itself and those
 * below it:
 *
 *	cm/				the connection manager
 *	vrdmadv				what the program calls
 *	context, import, verbs		what libibverbs calls
 *	mr, cq, srq, qp, xrc, dm	its verbs, object by object
 *	query, buffer, pd, mw, ah	the simpler ones
 *	comp_channel			completion channels
 *	listed				what another context may import
 *	device, gids			one life of the function; its addresses
 *	events				event queues
 *	on_demand			regions whose pages the device asks for
 *	vrdma/commands.h, admin		the admin queue
 *	function			registers, reset
 *	channel, sysfs			how events reach the program; the function as files
 *	memory, in_place		what the device sees of this process
 *	share, private, fork		its memory as files, and what it expects of that
 *	move, reclaim			how pages get into the files and back
 *	hold, faults, heaps, arena	who waits meanwhile; where the files are
 *	share_count, iova, maps		what is shared, seen and mapped
 *	restart				how it gets from one server to the next
 *	vfio_user, vfio			how the function is reached (bus.h)
 *	given				what its server was given
 *	bus				what both do
 *
 * These calls go up. Lower files report failures to the device: vrdma_dev_fail(),
 * vrdma_dev_failed(), vrdma_dev_quiesce(). An interrupt that a command waits for may have been for
 * event queues: vrdma_events_wake(). The thread that waits for events runs the connection manager
 * as well: vrdma_cm_run(), vrdma_cm_device_failed(). A bus by vfio-user follows its server:
 * vrdma_vfio_user_accept_requests(), vrdma_vfio_user_follow().
 *
 * Locks: a device's locks are leaves, with these exceptions. Commands run under paging.lock and
 * xrc_lock. paging.lock is also held while memory is mapped (memory.lock), and events.lock while a
 * page fault is queued (paging.queue_lock). Nothing is called under the admin queue's lock. A
 * command may wait until the device is at its next server, so follow_lock comes after all locks
 * under which commands run.
 *
 * Functions that are part of the shared commands (vrdma/commands.h), or that end in one, return 0
 * or a negative errno. All others return 0 or an errno.
 */
#ifndef VRDMA_DIRECT_DEVICE_H
#define VRDMA_DIRECT_DEVICE_H

#include <pthread.h>
#include <vrdma/admin_queue.h>
#include <vrdma/commands.h>
#include <vrdma/event_queue.h>
#include <vrdma/registers.h>
#include <vrdma/ring.h>

#include "../vrdma.h"
#include "bus.h"
#include "memory.h"
#include "sysfs.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VRDMA_MAX_COMP_EQS 15
#define VRDMA_EVENT_BUCKETS 4096
#define VRDMA_MAX_ADDRESSES (VRDMA_MAX_GIDS / 2 - 1) /* besides the link-local one */

struct vrdma_function {
	struct vrdma_bus *bus;
	struct vrdma_identity id;
	int vector_fds[VRDMA_MAX_VECTORS];
};

/* The admin queue. A command is in flight while answer_to has its caller's completion. */
struct vrdma_admin {
	struct vrdma_buffer asq;
	struct vrdma_buffer acq;
	int event_fd; /* the admin vector's */

	pthread_mutex_t lock; /* all below */
	pthread_cond_t changed;
	struct vrdma_admin_queue queue;
	unsigned int taken; /* of its ids */
	bool watched;       /* one of the waiting threads polls event_fd, for all of them */
	bool dead;          /* no command is sent or answered any more */
};

struct vrdma_eq {
	struct vrdma_buffer buffer; /* struct vrdma_eq_control, then entries */
	uint32_t consumer;          /* free-running */
	uint32_t interrupts; /* counted by a direct channel whose events it has not taken yet */
	uint32_t handle;
	int fd; /* its vector's */
	const struct vrdma_event_channel
		*owner; /* the direct channel that it belongs to, or NULL */
};

struct vrdma_events {
	pthread_t thread;
	int wake_fd; /* for the thread to check everything, or to end */
	/*
	 * The first is for async events. The thread empties it and the second one, which is for all
	 * CQs without a direct channel. Each of the others is for a direct channel.
	 */
	struct vrdma_eq eqs[1 + VRDMA_MAX_COMP_EQS];
	unsigned int num_eqs;

	pthread_mutex_t lock; /* all below, and the channels of all contexts */
	bool stop;
	struct vrdma_context *contexts;
	struct vrdma_event_target *cqs[VRDMA_EVENT_BUCKETS];
	struct vrdma_event_target *qps[VRDMA_EVENT_BUCKETS];
	struct vrdma_event_target *srqs[VRDMA_EVENT_BUCKETS];
	struct vrdma_listed *pds;
	struct vrdma_listed *mrs;
};

struct vrdma_on_demand;

struct vrdma_page_fault {
	uint32_t key;
	uint64_t detail; /* VRDMA_FAULT_* */
};

#define VRDMA_MAX_QUEUED_FAULTS 64

/* On-demand paging: see on_demand.c. */
struct vrdma_paging {
	pthread_mutex_t lock; /* the regions, and what is in them */
	struct vrdma_on_demand *regions;
	pthread_t thread;
	bool started;

	pthread_mutex_t queue_lock; /* all below */
	pthread_cond_t posted;
	struct vrdma_page_fault queue[VRDMA_MAX_QUEUED_FAULTS];
	unsigned int queued;
	bool stop;
};

/* The port's GIDs, which never change. */
struct vrdma_gids {
	union ibv_gid entries[VRDMA_MAX_GIDS];
	unsigned int count;
};

/* The attributes of a device that a program may give (vrdmadv.h). */
struct vrdma_options {
	char *path;
	char name[IBV_SYSFS_NAME_MAX];
	union ibv_gid addresses[VRDMA_MAX_ADDRESSES];
	unsigned int num_addresses;
};

struct vrdma_cm_device;

struct vrdma_dev {
	struct vrdma_dev *next; /* of all in this process */
	unsigned int refs;
	char *path;

	struct vrdma_function fn;
	struct vrdma_memory memory;
	struct vrdma_admin admin;
	struct vrdma_buffer status_page;
	struct vrdma_cpl_query_device caps;
	struct vrdma_pkeys pkeys;
	struct vrdma_events events;
	struct vrdma_paging paging;
	struct vrdma_gids gids;
	struct vrdma_sysfs sysfs;

	pthread_mutex_t dm_lock; /* the list of device memory, and what is in it */
	struct vrdma_dm *dms;
	uint32_t last_dm; /* handle */

	struct vrdma_cm_device *cm; /* or NULL; under the connection manager's lock (cm/cm.h) */

	pthread_mutex_t quiesce_lock; /* quiesced, and the reset before it is set */
	bool quiesced;                /* was reset; does not access our memory any more */
	bool forked;                  /* this process is a child, and the device its parent's */

	pthread_mutex_t follow_lock; /* the device gets to its next server, or the process forks */

	pthread_mutex_t xrc_lock; /* the list of domains, and their QPs */
	struct vrdma_xrc_domain *xrc_domains;
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
int vrdma_events_start(struct vrdma_dev *dev);
int vrdma_events_add_queues(struct vrdma_dev *dev);
void vrdma_events_cleanup(struct vrdma_dev *dev);
void vrdma_events_forked(struct vrdma_events *events);
void vrdma_events_wake(struct vrdma_events *events);
void vrdma_events_fatal(struct vrdma_dev *dev);
struct vrdma_eq *vrdma_events_lend_queue(struct vrdma_dev *dev,
					 const struct vrdma_event_channel *owner);
void vrdma_events_return_queue(struct vrdma_dev *dev, const struct vrdma_event_channel *owner);
bool vrdma_events_take(struct vrdma_dev *dev, struct vrdma_eq *eq, uint64_t count,
		       struct vrdma_event_channel *channel, struct vrdma_event *event);
void vrdma_events_add_context(struct vrdma_dev *dev, struct vrdma_context *context);
bool vrdma_events_share_context(struct vrdma_dev *dev, struct vrdma_context *context);
bool vrdma_events_remove_context(struct vrdma_dev *dev, struct vrdma_context *context);
void vrdma_events_add_cq(struct vrdma_dev *dev, struct vrdma_cq *cq,
			 struct ibv_comp_channel *channel);
void vrdma_events_remove_cq(struct vrdma_dev *dev, struct vrdma_cq *cq, uint32_t *completions,
			    uint32_t *async);
void vrdma_events_add_qp(struct vrdma_dev *dev, struct vrdma_qp *qp);
void vrdma_events_remove_qp(struct vrdma_dev *dev, struct vrdma_qp *qp, uint32_t *async);
void vrdma_events_add_srq(struct vrdma_dev *dev, struct vrdma_srq *srq);
void vrdma_events_remove_srq(struct vrdma_dev *dev, struct vrdma_srq *srq, uint32_t *async);
/* Waits for the program to acknowledge all events that it has read, as ibv_destroy_cq(3) says. */
void vrdma_wait_for_acks(pthread_mutex_t *mutex, pthread_cond_t *changed, const uint32_t *acked,
			 uint32_t events);
void vrdma_cq_event(struct ibv_cq *cq);
void vrdma_async_event(struct ibv_context *context, struct ibv_async_event *event);

/* listed.c */
void vrdma_list_add(struct vrdma_dev *dev, struct vrdma_listed **list, struct vrdma_listed *item);
void vrdma_list_remove(struct vrdma_dev *dev, struct vrdma_listed *item);
/* import.c: objects of another context; contexts that share a user context. */
int vrdma_direct_import_pd(struct ibv_context *context, uint32_t handle, struct vrdma_pd *pd);
int vrdma_direct_import_mr(struct ibv_pd *pd, uint32_t handle, struct vrdma_mr *mr);
struct ibv_context *vrdma_direct_import(int cmd_fd);

/* Tells alloc_context() that the new context shares another's user context. */
struct vrdma_import {
	struct vrdma_dev *dev; /* with a reference */
	int cmd_fd;
	uint32_t ucontext;
	struct vrdma_doorbell_page *doorbell_page;
};

/* on_demand.c */
void vrdma_paging_init(struct vrdma_paging *paging);
void vrdma_paging_cleanup(struct vrdma_dev *dev);
void vrdma_paging_forked(struct vrdma_paging *paging);
void vrdma_paging_fault(struct vrdma_dev *dev, uint32_t key, uint64_t detail);
int vrdma_on_demand_register(struct vrdma_dev *dev, uint32_t pd, void *addr, size_t length,
			     uint64_t start, uint32_t access, struct vrdma_on_demand **made);
uint32_t vrdma_on_demand_key(const struct vrdma_on_demand *od);
void vrdma_on_demand_deregister(struct vrdma_dev *dev, struct vrdma_on_demand *od);
int vrdma_on_demand_advise(struct vrdma_dev *dev, uint32_t pd, enum ibv_advise_mr_advice advice,
			   const struct ibv_sge *list, uint32_t count);

/* gids.c */
/* Writes the IPv4-mapped IPv6 address of a 4-byte IPv4 address. */
void vrdma_map_ipv4(uint8_t *gid, const void *address);
/* Whether it is one. The last 4 bytes are the IPv4 address. */
bool vrdma_is_mapped_ipv4(const uint8_t *gid);
int vrdma_gids_init(struct vrdma_dev *dev, const struct vrdma_options *options);

/* device.c */
/*
 * Registers the handlers of fork() for devices. Whoever takes locks before those of devices calls
 * this, and registers its own handlers then.
 */
void vrdma_dev_handle_forks(void);
struct vrdma_dev *vrdma_dev_get(const struct vrdma_options *options);
struct vrdma_dev *vrdma_dev_find(bool (*fits)(struct vrdma_dev *dev, void *arg), void *arg);
void vrdma_dev_put(struct vrdma_dev *dev);
void vrdma_dev_fail(struct vrdma_dev *dev, const char *why);
void vrdma_dev_quiesce(struct vrdma_dev *dev);

/* context.c */
extern const struct verbs_device_ops vrdma_direct_device_ops;
/* Sets up a context, but not its user context, doorbells and events. */
void vrdma_direct_init_context(struct vrdma_context *context, struct vrdma_dev *dev);
void vrdma_direct_close(struct vrdma_context *context);

/* comp_channel.c */
struct ibv_comp_channel *vrdma_direct_create_channel(struct vrdma_context *context);
struct ibv_comp_channel *vrdma_direct_create_direct_channel(struct vrdma_context *context);
int vrdma_direct_get_cq_event(struct vrdma_comp_channel *channel, struct ibv_cq **cq,
			      void **cq_context);
int vrdma_direct_destroy_direct_channel(struct vrdma_comp_channel *channel);
void vrdma_direct_free_channels(struct vrdma_context *context);

/*
 * A device in a program's list; or the device of an open context, which has a directory in the
 * place of sysfs.
 */
struct vrdma_direct_device {
	struct verbs_device base;
	struct vrdma_options options;
	struct vrdma_direct_device *next; /* of all that are in lists */
};

struct vrdma_direct_device *vrdma_direct_device_new(const struct vrdma_options *options);

/* vrdmadv.c: checks and copies attributes. The path still belongs to the caller. */
struct vrdmadv_device_attr;
bool vrdma_direct_options(const struct vrdmadv_device_attr *attr, int index,
			  struct vrdma_options *options);

/* dm.c */
int vrdma_direct_alloc_dm(struct ibv_context *context, const struct ibv_alloc_dm_attr *attr,
			  struct vrdma_dm *dm);
int vrdma_direct_free_dm(struct vrdma_dm *dm);
int vrdma_direct_import_dm(struct ibv_context *context, uint32_t handle, struct vrdma_dm *dm);
void vrdma_direct_unimport_dm(struct vrdma_dm *dm);
void vrdma_direct_use_dm(struct vrdma_dev *dev, uint32_t handle, int change);
/* xrc.c */
int vrdma_direct_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr,
			   struct vrdma_xrcd *xrcd);
int vrdma_direct_close_xrcd(struct vrdma_xrcd *xrcd);
int vrdma_direct_create_xrc_recv(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				 struct vrdma_qp *qp);
int vrdma_direct_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr,
			 struct vrdma_qp *qp);
int vrdma_direct_close_qp(struct vrdma_qp *qp); /* an XRC_RECV QP, which others may have open */

/* verbs.c: the table of what verbs.h declares */
extern const struct vrdma_control vrdma_direct_control;

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_DIRECT_DEVICE_H */
