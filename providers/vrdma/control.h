/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Operations by which control verbs reach the device: through the kernel (uverbs.c), or from user
 * space alone (direct/). The data path is the same for both.
 *
 * An operation fills in libibverbs' part of the object that it creates. It returns 0 or an errno.
 */
#ifndef VRDMA_CONTROL_H
#define VRDMA_CONTROL_H

#include "rdma_core.h"
#include "shared_buffer.h"
#include "work_queue.h"

struct vrdma_context;
struct vrdma_cq;
struct vrdma_dm;
struct vrdma_mr;
struct vrdma_pd;
struct vrdma_qp;
struct vrdma_srq;
struct vrdma_xrcd;

struct vrdma_control {
	void (*close)(struct vrdma_context *context);

	int (*query_device)(struct ibv_context *context,
			    const struct ibv_query_device_ex_input *input,
			    struct ibv_device_attr_ex *attr, size_t attr_size);
	int (*query_clock)(struct ibv_context *context, uint64_t *clock);
	int (*query_port)(struct ibv_context *context, uint8_t port_num,
			  struct ibv_port_attr *attr);

	/* Memory for a queue: page-aligned, zeroed, and not copied by fork(). */
	int (*alloc_buffer)(struct vrdma_context *context, struct vrdma_buffer *buffer,
			    uint64_t size);
	void (*free_buffer)(struct vrdma_context *context, struct vrdma_buffer *buffer);

	/* The same for existing memory, which consists of whole pages. */
	int (*share_buffer)(struct vrdma_context *context, struct vrdma_buffer *buffer);
	void (*unshare_buffer)(struct vrdma_context *context, struct vrdma_buffer *buffer);

	int (*alloc_pd)(struct ibv_context *context, struct vrdma_pd *pd);
	int (*dealloc_pd)(struct vrdma_pd *pd);

	/* Import an object of another context on the same file by handle (ibv_import_device(3)). */
	int (*import_pd)(struct ibv_context *context, uint32_t handle, struct vrdma_pd *pd);
	int (*import_mr)(struct ibv_pd *pd, uint32_t handle, struct vrdma_mr *mr);

	int (*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access,
		      struct vrdma_mr *mr);
	/* After an error, mr is unchanged. */
	int (*rereg_mr)(struct vrdma_mr *mr, int flags, struct ibv_pd *pd, void *addr,
			size_t length, int access);
	int (*dereg_mr)(struct vrdma_mr *mr);
	int (*advise_mr)(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			 struct ibv_sge *list, uint32_t count);

	int (*alloc_mw)(struct ibv_pd *pd, enum ibv_mw_type type, struct ibv_mw *mw);
	int (*dealloc_mw)(struct ibv_mw *mw);

	/* Sets dm's handle, the address of its memory, and its length. */
	int (*alloc_dm)(struct ibv_context *context, const struct ibv_alloc_dm_attr *attr,
			struct vrdma_dm *dm);
	int (*free_dm)(struct vrdma_dm *dm);
	int (*import_dm)(struct ibv_context *context, uint32_t handle, struct vrdma_dm *dm);
	void (*unimport_dm)(struct vrdma_dm *dm);
	int (*reg_dm_mr)(struct ibv_pd *pd, struct vrdma_dm *dm, uint64_t offset, size_t length,
			 unsigned int access, struct vrdma_mr *mr);

	int (*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr, struct vrdma_ah *ah);
	int (*destroy_ah)(struct vrdma_ah *ah);

	/* cq already has its buffer, whose depth is queue.depth. */
	int (*create_cq)(struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr,
			 struct vrdma_cq *cq);
	/* buffer is prepared (completion_queue.h). The caller still owns the CQ's old buffer. */
	int (*resize_cq)(struct vrdma_cq *cq, const struct vrdma_buffer *buffer, uint32_t depth);
	int (*modify_cq)(struct vrdma_cq *cq, struct ibv_modify_cq_attr *attr);
	int (*destroy_cq)(struct vrdma_cq *cq);

	/* srq already has its buffer, whose depth and stride are those of srq->queue. */
	int (*create_srq)(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr,
			  struct vrdma_srq *srq);
	int (*modify_srq)(struct vrdma_srq *srq, struct ibv_srq_attr *attr, int attr_mask);
	/*
	 * buffer is prepared (shared_receive_queue.h) and of attr's size. The caller still owns the
	 * SRQ's old buffer. The command also sets the limit if attr_mask has IBV_SRQ_LIMIT.
	 */
	int (*resize_srq)(struct vrdma_srq *srq, const struct vrdma_buffer *buffer,
			  const struct ibv_srq_attr *attr, int attr_mask);
	int (*query_srq)(struct vrdma_srq *srq, struct ibv_srq_attr *attr);
	int (*destroy_srq)(struct vrdma_srq *srq);

	/* qp already has its buffer, and attr's capabilities are those of the layout. */
	int (*create_qp)(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
			 const struct vrdma_qp_layout *layout, struct vrdma_qp *qp,
			 uint32_t *doorbell_slot);
	int (*query_qp)(struct vrdma_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			struct ibv_qp_init_attr *init_attr);
	int (*modify_qp)(struct vrdma_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
	int (*destroy_qp)(struct vrdma_qp *qp);

	/* RoCE does not use LIDs. */
	int (*attach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
	int (*detach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

	/* XRC. These QPs have no buffer. */
	int (*open_xrcd)(struct ibv_context *context, struct ibv_xrcd_init_attr *attr,
			 struct vrdma_xrcd *xrcd);
	int (*close_xrcd)(struct vrdma_xrcd *xrcd);
	int (*create_xrc_recv)(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
			       struct vrdma_qp *qp);
	int (*open_qp)(struct ibv_context *context, struct ibv_qp_open_attr *attr,
		       struct vrdma_qp *qp);
};

extern const struct vrdma_control vrdma_uverbs_control;

#endif /* VRDMA_CONTROL_H */
