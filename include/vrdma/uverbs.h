/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The messages of the guest provider and the guest driver beside the standard uverbs commands (the
 * udata of each command). Addresses are of the calling process; all fields are native-endian, as in
 * the rest of the uverbs ABI. Reserved fields must be zero.
 */
#ifndef VRDMA_UVERBS_H
#define VRDMA_UVERBS_H

#include <rdma/ib_user_ioctl_cmds.h>

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

/*
 * Queries of a process that imports objects: the limits and offsets of the context, and whether the
 * object is a PD.
 */
enum vrdma_uverbs_query_context_attrs {
	VRDMA_UVERBS_ATTR_QUERY_CONTEXT_RESP = 1U << UVERBS_ID_NS_SHIFT, /* as ALLOC_UCONTEXT's */
};

enum vrdma_uverbs_pd_methods {
	VRDMA_UVERBS_METHOD_QUERY_PD = 1U << UVERBS_ID_NS_SHIFT,
};

enum vrdma_uverbs_query_pd_attrs {
	VRDMA_UVERBS_ATTR_QUERY_PD_HANDLE = 1U << UVERBS_ID_NS_SHIFT,
	VRDMA_UVERBS_ATTR_QUERY_PD_RESP, /* as ALLOC_PD's */
};

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

/* As above, and prepared as struct vrdma_cmd_resize_cq requires. */
struct vrdma_uverbs_resize_cq {
	__aligned_u64 buffer;
	__u32 depth;
	__u32 reserved;
};
VRDMA_CHECK_SIZE(struct vrdma_uverbs_resize_cq, 16);

/* Added to the answer to QUERY_DEVICE if there is room for it. */
struct vrdma_uverbs_query_device_resp {
	__aligned_u64 clock; /* the device's, of timestamps in CQEs: ns */
};
VRDMA_CHECK_SIZE(struct vrdma_uverbs_query_device_resp, 8);

/* The buffer is page-aligned, of vrdma_srq_buffer_size() bytes (queue.h). */
struct vrdma_uverbs_create_srq {
	__aligned_u64 buffer;
	__u32 depth; /* a power of two, at least the number of WQEs asked for */
	__u8 stride_shift;
	__u8 reserved[3];
};
VRDMA_CHECK_SIZE(struct vrdma_uverbs_create_srq, 16);

/* As above, and prepared as struct vrdma_cmd_resize_srq requires. */
struct vrdma_uverbs_resize_srq {
	__aligned_u64 buffer;
	__u32 depth;
	__u32 reserved;
};
VRDMA_CHECK_SIZE(struct vrdma_uverbs_resize_srq, 16);

/* The buffer is page-aligned, of vrdma_qp_buffer_size() bytes (queue.h). */
struct vrdma_uverbs_create_qp {
	__aligned_u64 buffer;
	__u32 sq_depth;
	__u32 rq_depth;
	__u8 sq_stride_shift;
	__u8 rq_stride_shift;
	__u8 flags; /* flags that the standard command lacks */
	__u8 reserved[5];
};
VRDMA_CHECK_SIZE(struct vrdma_uverbs_create_qp, 24);
#define VRDMA_UVERBS_QP_BLOCK_SELF_MULTICAST VRDMA_BIT(0)

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

/*
 * Device memory: pages of the guest driver. A method of UVERBS_OBJECT_DM returns the offset to map
 * them from, also of pages that another process has allocated.
 */
#define VRDMA_MAX_DM_SIZE (1u << 20) /* per device, for all allocations */
#define VRDMA_UVERBS_METHOD_QUERY_DM 0x1000

enum vrdma_uverbs_attr_query_dm {
	VRDMA_UVERBS_ATTR_QUERY_DM_HANDLE = 0x1000,
	VRDMA_UVERBS_ATTR_QUERY_DM_RESP,
};

struct vrdma_uverbs_query_dm_resp {
	__aligned_u64 mmap_offset;
	__aligned_u64 length; /* as it was asked for; whole pages are mapped */
};
VRDMA_CHECK_SIZE(struct vrdma_uverbs_query_dm_resp, 16);

#endif /* VRDMA_UVERBS_H */
