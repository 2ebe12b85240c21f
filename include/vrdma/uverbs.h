/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What the guest provider and the guest driver tell each other beside the standard uverbs commands
 * (the udata of each command). Addresses are of the calling process; all fields native-endian, as
 * in the rest of the uverbs ABI. Reserved fields must be zero.
 */
#ifndef VRDMA_UVERBS_H
#define VRDMA_UVERBS_H

#include "bits.h"

#define VRDMA_UVERBS_ABI_VERSION 1

/* Offsets are for mmap() on the command fd, one page each. */
struct vrdma_uverbs_alloc_ucontext_resp {
	__aligned_u64 doorbell_mmap_offset; /* struct vrdma_doorbell_page, PROT_WRITE */
	__aligned_u64 kick_mmap_offset;	    /* PROT_WRITE */
	__aligned_u64 status_mmap_offset;   /* struct vrdma_status_page, PROT_READ */
	__u32 max_inline;
	__u32 max_send_sge;
	__u32 max_recv_sge;
	__u32 max_qp_wr;
	__u32 max_cqe;
	__u32 max_srq_wr;
	__u32 max_srq_sge;
	__u32 reserved;
};
VRDMA_CHECK_SIZE(struct vrdma_uverbs_alloc_ucontext_resp, 56);

struct vrdma_uverbs_alloc_pd_resp {
	__u32 pd;
	__u32 reserved;
};
VRDMA_CHECK_SIZE(struct vrdma_uverbs_alloc_pd_resp, 8);

/* The buffer is page-aligned: struct vrdma_cq_control and `depth` CQEs (queue.h). */
struct vrdma_uverbs_create_cq {
	__aligned_u64 buffer;
	__u32 depth; /* a power of two, at least the number of CQEs asked for */
	__u32 reserved;
};
VRDMA_CHECK_SIZE(struct vrdma_uverbs_create_cq, 16);

struct vrdma_uverbs_create_cq_resp {
	__u32 cqn;
	__u32 reserved;
};
VRDMA_CHECK_SIZE(struct vrdma_uverbs_create_cq_resp, 8);

/* The buffer is page-aligned, of vrdma_srq_buffer_size() bytes (queue.h). */
struct vrdma_uverbs_create_srq {
	__aligned_u64 buffer;
	__u32 depth; /* a power of two, at least the number of WQEs asked for */
	__u8 stride_shift;
	__u8 reserved[3];
};
VRDMA_CHECK_SIZE(struct vrdma_uverbs_create_srq, 16);

/* The buffer is page-aligned, of vrdma_qp_buffer_size() bytes (queue.h). */
struct vrdma_uverbs_create_qp {
	__aligned_u64 buffer;
	__u32 sq_depth;
	__u32 rq_depth;
	__u8 sq_stride_shift;
	__u8 rq_stride_shift;
	__u8 reserved[6];
};
VRDMA_CHECK_SIZE(struct vrdma_uverbs_create_qp, 24);

struct vrdma_uverbs_create_qp_resp {
	__u32 doorbell_slot;
	__u32 reserved;
};
VRDMA_CHECK_SIZE(struct vrdma_uverbs_create_qp_resp, 8);

struct vrdma_uverbs_create_ah_resp {
	__u32 ah;
	__u32 reserved;
};
VRDMA_CHECK_SIZE(struct vrdma_uverbs_create_ah_resp, 8);

#endif /* VRDMA_UVERBS_H */
