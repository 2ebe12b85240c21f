/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How the control verbs reach the device: through the kernel (uverbs.c), or from user space alone
 * (direct/). The data path does not know which.
 *
 * An operation fills in libibverbs' part of the object that it makes, and returns 0 or an errno.
 */
#ifndef VRDMA_CONTROL_H
#define VRDMA_CONTROL_H

#include "rdma_core.h"
#include "shared_buffer.h"
#include "work_queue.h"

struct vrdma_context;
struct vrdma_cq;
struct vrdma_mr;
struct vrdma_qp;
struct vrdma_srq;

struct vrdma_control {
	void (*close)(struct vrdma_context *context);

	int (*query_device)(struct ibv_context *context,
			    const struct ibv_query_device_ex_input *input,
			    struct ibv_device_attr_ex *attr, size_t attr_size);
	int (*query_port)(struct ibv_context *context, uint8_t port_num,
			  struct ibv_port_attr *attr);

	/* Memory for a queue: page-aligned, zeroed, and not copied by fork(). */
	int (*alloc_buffer)(struct vrdma_context *context, struct vrdma_buffer *buffer,
			    uint64_t size);
	void (*free_buffer)(struct vrdma_context *context, struct vrdma_buffer *buffer);

	int (*alloc_pd)(struct ibv_context *context, struct ibv_pd *pd);
	int (*dealloc_pd)(struct ibv_pd *pd);

	int (*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access,
		      struct vrdma_mr *mr);
	int (*dereg_mr)(struct vrdma_mr *mr);

	int (*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr, struct vrdma_ah *ah);
	int (*destroy_ah)(struct vrdma_ah *ah);

	/* cq has its buffer; its depth is queue.depth. */
	int (*create_cq)(struct ibv_context *context, struct ibv_comp_channel *channel,
			 int comp_vector, struct vrdma_cq *cq);
	int (*destroy_cq)(struct vrdma_cq *cq);

	/* srq has its buffer; its shape is the queue's. */
	int (*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *attr, struct vrdma_srq *srq);
	int (*modify_srq)(struct vrdma_srq *srq, struct ibv_srq_attr *attr, int attr_mask);
	int (*query_srq)(struct vrdma_srq *srq, struct ibv_srq_attr *attr);
	int (*destroy_srq)(struct vrdma_srq *srq);

	/* qp has its buffer, and attr's capabilities are those of the layout. */
	int (*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
			 const struct vrdma_qp_layout *layout, struct vrdma_qp *qp,
			 uint32_t *doorbell_slot);
	int (*query_qp)(struct vrdma_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			struct ibv_qp_init_attr *init_attr);
	int (*modify_qp)(struct vrdma_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
	int (*destroy_qp)(struct vrdma_qp *qp);
};

extern const struct vrdma_control vrdma_uverbs_control;

#endif /* VRDMA_CONTROL_H */
