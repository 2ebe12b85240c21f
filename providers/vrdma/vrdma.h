/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The verbs objects: each consists of libibverbs' part and of the data path's additions. */
#ifndef VRDMA_PROVIDER_H
#define VRDMA_PROVIDER_H

#include <vrdma/device.h>
#include <vrdma/uverbs.h>

#include "completion_queue.h"
#include "control.h"
#include "direct/channel.h"
#include "direct/memory.h"
#include "direct/vrdmadv.h"
#include "rdma_core.h"
#include "shared_buffer.h"
#include "shared_receive_queue.h"
#include "work_queue.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vrdma_device {
	struct verbs_device base;
};

struct vrdma_context {
	struct verbs_context base;
	const struct vrdma_control *control;
	struct vrdma_doorbell_page *doorbell_page;
	const struct vrdma_status_page *status_page;
	__le32 *kick_page; /* NULL: kick_fd is used (doorbell.h) */
	int kick_fd;
	off_t kick_offset;
	uint32_t max_inline;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_qp_wr;
	uint32_t max_cqe;
	uint32_t max_srq_wr;
	uint32_t max_srq_sge;

	/* Without a kernel: see direct/device.h. */
	struct vrdma_context *next; /* list of all contexts of the device */
	struct vrdma_dev *dev;
	uint32_t ucontext;
	struct vrdma_event_channel async_channel;
	struct vrdma_event_source port_events;
	struct vrdma_event_channel *channels; /* for completions */
};

/* Without a kernel: entry of a table by which an event finds its object. */
struct vrdma_event_target {
	struct vrdma_event_target *next;
	uint32_t id;
};

struct vrdma_comp_channel {
	struct ibv_comp_channel base;
	struct vrdma_event_channel *events; /* owned by the context; outlives this object */
	struct vrdma_eq *eq;                /* of a direct channel, otherwise NULL */
};

/* Without a kernel: entry in the list of all objects of one kind on the device. */
struct vrdma_listed {
	struct vrdma_listed *next;
	struct vrdma_listed **at; /* the pointer that points here, or NULL */
};

struct vrdma_td {
	struct ibv_td base;
	uint32_t users; /* parent domains */
};

struct vrdma_pd {
	struct ibv_pd base;
	struct vrdma_listed listed;
	uint32_t users; /* its parent domains, or the queues of a parent domain */

	/* Only for a parent domain: */
	struct vrdma_pd *protection; /* NULL if this is no parent domain */
	struct vrdma_td *td;         /* or NULL */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *data, uint64_t resource_type);
	void *pd_context;
};

struct vrdma_dm {
	struct verbs_dm base;
	char *data;
	size_t length;

	/* Without a kernel: */
	struct vrdma_dm *next; /* list of all on the device */
	unsigned int regions;
};

struct vrdma_mr {
	struct verbs_mr base;

	/* Without a kernel: */
	struct vrdma_region region;
	struct vrdma_on_demand *on_demand; /* NULL: region is used */
	uint32_t dm;                       /* handle of the registered device memory, or 0 */
	uint64_t iova;
	bool writable;
	struct vrdma_listed listed;
};

struct vrdma_cq {
	struct verbs_cq base;
	struct vrdma_completion_queue queue;
	struct vrdma_buffer buffer;
	uint64_t wallclock_offset; /* CLOCK_REALTIME of this machine minus the device's clock, ns */
	struct vrdma_event_target target;
	struct vrdma_event_source completions;
	struct vrdma_event_source async;
};

struct vrdma_srq {
	struct verbs_srq base;
	struct vrdma_shared_receive_queue queue;
	struct vrdma_buffer buffer;
	struct vrdma_event_target target;
	struct vrdma_event_source async;
};

struct vrdma_xrcd {
	struct verbs_xrcd base;
	struct vrdma_xrc_domain *domain; /* without a kernel: see direct/xrc.c */
};

struct vrdma_qp {
	struct verbs_qp base;
	struct vrdma_queue_pair queues;
	struct vrdma_buffer buffer;
	struct vrdma_event_target target;
	struct vrdma_event_source async;
	struct vrdma_xrc_target *target_qp; /* XRC_RECV without a kernel: see direct/xrc.c */
};

static inline struct vrdma_context *to_vrdma_context(struct ibv_context *context)
{
	return (struct vrdma_context *)((char *)context -
					offsetof(struct vrdma_context, base.context));
}

/* The objects below begin with libibverbs' part. */
static inline struct vrdma_td *to_vrdma_td(struct ibv_td *td)
{
	return (struct vrdma_td *)td;
}

static inline struct vrdma_pd *to_vrdma_pd(struct ibv_pd *pd)
{
	return (struct vrdma_pd *)pd;
}

static inline struct vrdma_cq *to_vrdma_cq(struct ibv_cq *cq)
{
	return (struct vrdma_cq *)cq;
}

static inline struct vrdma_dm *to_vrdma_dm(struct ibv_dm *dm)
{
	return (struct vrdma_dm *)dm;
}

static inline struct vrdma_comp_channel *to_vrdma_channel(struct ibv_comp_channel *channel)
{
	return (struct vrdma_comp_channel *)channel;
}

static inline struct vrdma_srq *to_vrdma_srq(struct ibv_srq *srq)
{
	return (struct vrdma_srq *)srq;
}

static inline struct vrdma_xrcd *to_vrdma_xrcd(struct ibv_xrcd *xrcd)
{
	return (struct vrdma_xrcd *)xrcd;
}

static inline struct vrdma_mr *to_vrdma_mr(struct ibv_mr *mr)
{
	return (struct vrdma_mr *)mr;
}

static inline struct vrdma_qp *to_vrdma_qp(struct ibv_qp *qp)
{
	return (struct vrdma_qp *)qp;
}

/* Reference counts: an object must not be freed while its count is not 0. */
static inline void vrdma_hold(uint32_t *users)
{
	__atomic_fetch_add(users, 1, __ATOMIC_RELAXED);
}

static inline void vrdma_drop(uint32_t *users)
{
	__atomic_fetch_sub(users, 1, __ATOMIC_RELEASE);
}

static inline bool vrdma_held(const uint32_t *users)
{
	return __atomic_load_n(users, __ATOMIC_ACQUIRE) != 0;
}

static inline bool vrdma_is_parent_domain(struct ibv_pd *pd)
{
	return pd && to_vrdma_pd(pd)->protection != NULL;
}

/* Whether the program promised to use the objects of this domain by one thread at a time. */
static inline bool vrdma_is_threaded(struct ibv_pd *pd)
{
	return pd && to_vrdma_pd(pd)->td != NULL;
}

extern const struct verbs_context_ops vrdma_context_ops;

/* uverbs_import.c */
struct verbs_context *vrdma_import_context(struct ibv_device *device, int cmd_fd);
int vrdma_uverbs_query_pd(struct ibv_context *context, uint32_t handle);

/* Creates a context of the kernel's device. open() gets or imports its user context. */
struct verbs_context *vrdma_new_context(struct ibv_device *device, int fd,
					int (*open)(struct vrdma_context *context, int fd));
int vrdma_take_ucontext(struct vrdma_context *context, int fd,
			const struct vrdma_uverbs_alloc_ucontext_resp *ucontext);
void vrdma_unmap_pages(struct vrdma_context *context);
void vrdma_print_version(struct ibv_device_attr *attr, uint64_t version);

int vrdma_query_device(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t attr_size);
int vrdma_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);
int vrdma_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr);

struct ibv_pd *vrdma_alloc_pd(struct ibv_context *context);
int vrdma_dealloc_pd(struct ibv_pd *pd);
struct ibv_pd *vrdma_alloc_parent_domain(struct ibv_context *context,
					 struct ibv_parent_domain_init_attr *attr);
struct ibv_td *vrdma_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int vrdma_dealloc_td(struct ibv_td *td);

/*
 * queue_buffer.c: zeroed memory for a queue, from the domain's allocator if it has one.
 * resource_type is an argument of that allocator (vrdmadv.h). Returns 0 or an errno.
 */
int vrdma_queue_alloc(struct vrdma_context *context, struct ibv_pd *pd, uint64_t resource_type,
		      struct vrdma_buffer *buffer, uint64_t size);
void vrdma_queue_free(struct vrdma_context *context, struct vrdma_buffer *buffer);

struct ibv_mr *vrdma_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			    int access);
int vrdma_rereg_mr(struct verbs_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		   int access);
struct ibv_mr *vrdma_alloc_null_mr(struct ibv_pd *pd);
int vrdma_dereg_mr(struct verbs_mr *mr);
int vrdma_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		    struct ibv_sge *list, uint32_t count);

struct ibv_mw *vrdma_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int vrdma_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int vrdma_dealloc_mw(struct ibv_mw *mw);

struct ibv_dm *vrdma_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int vrdma_free_dm(struct ibv_dm *dm);
struct ibv_dm *vrdma_import_dm(struct ibv_context *context, uint32_t handle);
void vrdma_unimport_dm(struct ibv_dm *dm);
struct ibv_mr *vrdma_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			       unsigned int access);
struct ibv_pd *vrdma_import_pd(struct ibv_context *context, uint32_t handle);
void vrdma_unimport_pd(struct ibv_pd *pd);
struct ibv_mr *vrdma_import_mr(struct ibv_pd *pd, uint32_t handle);
void vrdma_unimport_mr(struct ibv_mr *mr);

struct ibv_ah *vrdma_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int vrdma_destroy_ah(struct ibv_ah *ah);

struct ibv_cq *vrdma_create_cq(struct ibv_context *context, int cqe,
			       struct ibv_comp_channel *channel, int comp_vector);
struct ibv_cq_ex *vrdma_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int vrdma_resize_cq(struct ibv_cq *cq, int cqe);
int vrdma_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int vrdma_destroy_cq(struct ibv_cq *cq);
int vrdma_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int vrdma_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* poll_cq_ex.c: sets the functions by which programs read an extended CQ. */
void vrdma_cq_set_readers(struct vrdma_cq *cq);

struct ibv_srq *vrdma_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
struct ibv_srq *vrdma_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int vrdma_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int attr_mask);
int vrdma_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int vrdma_destroy_srq(struct ibv_srq *srq);
int vrdma_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

struct ibv_xrcd *vrdma_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int vrdma_close_xrcd(struct ibv_xrcd *xrcd);
int vrdma_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num);
struct ibv_qp *vrdma_create_xrc_recv(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *vrdma_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);

/* QP1, for management datagrams. The device decides which context may create it. */
#define VRDMA_QPT_GSI 1

struct ibv_qp *vrdma_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *vrdma_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
int vrdma_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		   struct ibv_qp_init_attr *init_attr);
int vrdma_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
int vrdma_destroy_qp(struct ibv_qp *qp);
int vrdma_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int vrdma_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int vrdma_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int vrdma_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int vrdma_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int vrdma_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/* post_wr.c: enables ibv_wr_*() for the opcodes of these flags. The queues exist already. */
int vrdma_qp_set_send_ops(struct vrdma_qp *qp, uint64_t send_ops_flags);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_PROVIDER_H */
