/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The verbs objects: what libibverbs knows of each, and what the data path adds. */
#ifndef VRDMA_PROVIDER_H
#define VRDMA_PROVIDER_H

#include <vrdma/device.h>
#include <vrdma/uverbs.h>

#include "completion_queue.h"
#include "control.h"
#include "direct/channel.h"
#include "direct/memory.h"
#include "rdma_core.h"
#include "shared_buffer.h"
#include "shared_receive_queue.h"
#include "work_queue.h"

struct vrdma_device {
	struct verbs_device base;
};

struct vrdma_context {
	struct verbs_context base;
	const struct vrdma_control *control;
	struct vrdma_doorbell_page *doorbell_page;
	const struct vrdma_status_page *status_page;
	__le32 *kick_page; /* or NULL, and kick_fd */
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
	struct vrdma_context *next; /* of all on the device */
	struct vrdma_dev *dev;
	uint32_t ucontext;
	struct vrdma_event_channel async_channel;
	struct vrdma_event_source port_events;
	struct vrdma_event_channel *channels; /* those for completions */
};

/* Without a kernel: how events find what they name. */
struct vrdma_event_target {
	struct vrdma_event_target *next;
	uint32_t id;
};

struct vrdma_comp_channel {
	struct ibv_comp_channel base;
	struct vrdma_event_channel *events; /* the context's; outlives this */
};

struct vrdma_mr {
	struct verbs_mr base;
	struct vrdma_region region; /* without a kernel */
};

struct vrdma_cq {
	struct ibv_cq base;
	struct vrdma_completion_queue queue;
	struct vrdma_buffer buffer;
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

struct vrdma_qp {
	struct ibv_qp base;
	struct vrdma_queue_pair queues;
	struct vrdma_buffer buffer;
	struct vrdma_event_target target;
	struct vrdma_event_source async;
};

static inline struct vrdma_context *to_vrdma_context(struct ibv_context *context)
{
	return (struct vrdma_context *)((char *)context -
					offsetof(struct vrdma_context, base.context));
}

/* The objects below begin with libibverbs' part. */
static inline struct vrdma_cq *to_vrdma_cq(struct ibv_cq *cq)
{
	return (struct vrdma_cq *)cq;
}

static inline struct vrdma_comp_channel *to_vrdma_channel(struct ibv_comp_channel *channel)
{
	return (struct vrdma_comp_channel *)channel;
}

static inline struct vrdma_srq *to_vrdma_srq(struct ibv_srq *srq)
{
	return (struct vrdma_srq *)srq;
}

static inline struct vrdma_qp *to_vrdma_qp(struct ibv_qp *qp)
{
	return (struct vrdma_qp *)qp;
}

extern const struct verbs_context_ops vrdma_context_ops;

void vrdma_unmap_pages(struct vrdma_context *context);
void vrdma_print_version(struct ibv_device_attr *attr, uint64_t version);

int vrdma_query_device(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t attr_size);
int vrdma_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr);

struct ibv_pd *vrdma_alloc_pd(struct ibv_context *context);
int vrdma_dealloc_pd(struct ibv_pd *pd);

struct ibv_mr *vrdma_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			    int access);
int vrdma_dereg_mr(struct verbs_mr *mr);

struct ibv_ah *vrdma_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int vrdma_destroy_ah(struct ibv_ah *ah);

struct ibv_cq *vrdma_create_cq(struct ibv_context *context, int cqe,
			       struct ibv_comp_channel *channel, int comp_vector);
int vrdma_destroy_cq(struct ibv_cq *cq);
int vrdma_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int vrdma_req_notify_cq(struct ibv_cq *cq, int solicited_only);

struct ibv_srq *vrdma_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int vrdma_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int attr_mask);
int vrdma_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int vrdma_destroy_srq(struct ibv_srq *srq);
int vrdma_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

struct ibv_qp *vrdma_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int vrdma_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		   struct ibv_qp_init_attr *init_attr);
int vrdma_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
int vrdma_destroy_qp(struct ibv_qp *qp);
int vrdma_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int vrdma_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

#endif /* VRDMA_PROVIDER_H */
