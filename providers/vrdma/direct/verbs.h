/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The control verbs as admin commands, object by object. Handles are those of the device. */
#ifndef VRDMA_DIRECT_VERBS_H
#define VRDMA_DIRECT_VERBS_H

#include "device.h"

static inline struct vrdma_dev *vrdma_dev_of(struct ibv_context *context)
{
	return to_vrdma_context(context)->dev;
}

static inline int vrdma_destroy_object(struct ibv_context *context, enum vrdma_admin_opcode opcode,
				       uint32_t handle)
{
	return -vrdma_cmd_destroy(vrdma_dev_of(context), opcode, handle);
}

/* query.c */
int vrdma_direct_query_device(struct ibv_context *context,
			      const struct ibv_query_device_ex_input *input,
			      struct ibv_device_attr_ex *attr, size_t attr_size);
int vrdma_direct_query_clock(struct ibv_context *context, uint64_t *clock);
int vrdma_direct_query_port(struct ibv_context *context, uint8_t port_num,
			    struct ibv_port_attr *attr);

/* buffer.c */
int vrdma_direct_alloc_buffer(struct vrdma_context *context, struct vrdma_buffer *buffer,
			      uint64_t size);
void vrdma_direct_free_buffer(struct vrdma_context *context, struct vrdma_buffer *buffer);
int vrdma_direct_share_buffer(struct vrdma_context *context, struct vrdma_buffer *buffer);
void vrdma_direct_unshare_buffer(struct vrdma_context *context, struct vrdma_buffer *buffer);

/* pd.c */
int vrdma_direct_alloc_pd(struct ibv_context *context, struct vrdma_pd *pd);
int vrdma_direct_dealloc_pd(struct vrdma_pd *pd);

/* mr.c */
int vrdma_direct_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access,
			struct vrdma_mr *mr);
int vrdma_direct_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			   struct ibv_sge *list, uint32_t count);
int vrdma_direct_rereg_mr(struct vrdma_mr *mr, int flags, struct ibv_pd *pd, void *addr,
			  size_t length, int access);
int vrdma_direct_dereg_mr(struct vrdma_mr *mr);
int vrdma_direct_reg_dm_mr(struct ibv_pd *pd, struct vrdma_dm *dm, uint64_t offset, size_t length,
			   unsigned int access, struct vrdma_mr *mr);

/* mw.c */
int vrdma_direct_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type, struct ibv_mw *mw);
int vrdma_direct_dealloc_mw(struct ibv_mw *mw);

/* ah.c */
int vrdma_av_from_ah_attr(struct vrdma_av *av, const struct ibv_ah_attr *attr);
void vrdma_av_to_ah_attr(const struct vrdma_av *av, struct ibv_ah_attr *attr);
int vrdma_direct_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr, struct vrdma_ah *ah);
int vrdma_direct_destroy_ah(struct vrdma_ah *ah);

/* cq.c */
int vrdma_direct_create_cq(struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr,
			   struct vrdma_cq *cq);
int vrdma_direct_resize_cq(struct vrdma_cq *cq, const struct vrdma_buffer *buffer, uint32_t depth);
int vrdma_direct_modify_cq(struct vrdma_cq *cq, struct ibv_modify_cq_attr *attr);
int vrdma_direct_destroy_cq(struct vrdma_cq *cq);

/* srq.c */
int vrdma_direct_create_srq(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr,
			    struct vrdma_srq *srq);
int vrdma_direct_modify_srq(struct vrdma_srq *srq, struct ibv_srq_attr *attr, int attr_mask);
int vrdma_direct_resize_srq(struct vrdma_srq *srq, const struct vrdma_buffer *buffer,
			    const struct ibv_srq_attr *attr, int attr_mask);
int vrdma_direct_query_srq(struct vrdma_srq *srq, struct ibv_srq_attr *attr);
int vrdma_direct_destroy_srq(struct vrdma_srq *srq);

/* qp.c */
int vrdma_direct_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
			   const struct vrdma_qp_layout *layout, struct vrdma_qp *qp,
			   uint32_t *doorbell_slot);
int vrdma_direct_query_qp(struct vrdma_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			  struct ibv_qp_init_attr *init_attr);
int vrdma_direct_modify_qp(struct vrdma_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
int vrdma_direct_destroy_qp(struct vrdma_qp *qp);
int vrdma_direct_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int vrdma_direct_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

#endif /* VRDMA_DIRECT_VERBS_H */
