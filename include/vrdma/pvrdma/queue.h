/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The data path of VMware's paravirtual RDMA device: page directories, rings, WQEs, CQEs, events
 * and doorbells. See device.h for the sources; "abi" is include/uapi/rdma/vmw_pvrdma-abi.h, "ring"
 * is pvrdma_ring.h.
 *
 * A page directory (api, pvrdma_misc.c) is a page of 512 addresses of tables, and a table is a page
 * of 512 addresses of pages. That is a page list of two levels (struct vrdma_page_list), whatever
 * the number of pages.
 */
#ifndef VRDMA_PVRDMA_QUEUE_H
#define VRDMA_PVRDMA_QUEUE_H

#include "device.h"

#define PVRDMA_DIRECTORY_LEVELS 2
#define PVRDMA_DIRECTORY_ENTRIES 512
#define PVRDMA_MAX_PAGES ((__u64)PVRDMA_DIRECTORY_ENTRIES * PVRDMA_DIRECTORY_ENTRIES)

/*
 * The indices of a ring (ring). A ring has a power of two of entries, `depth`. An index counts
 * modulo 2 * depth, so a full ring (the indices differ by depth) is not like an empty one (they are
 * equal). The entry of an index is index modulo depth. The producer writes `tail` after the entry,
 * the consumer writes `head` when the entry is free again. The driver takes an index of 2 * depth
 * or more for an error.
 */
struct pvrdma_ring {
	__le32 tail;
	__le32 head;
};
VRDMA_CHECK_SIZE(struct pvrdma_ring, 8);

/*
 * The first page of each queue has its indices, and entries begin on the second one. A QP's SQ has
 * `sends`, and its RQ, which begins on the page after the SQ's last, has `receives`. A CQ, an SRQ
 * and an event ring have `receives`.
 */
struct pvrdma_indices {
	struct pvrdma_ring sends;
	struct pvrdma_ring receives;
};
VRDMA_CHECK_SIZE(struct pvrdma_indices, 16);

/*
 * The depth of an event ring. The driver takes all entries that fit into the pages for the depth,
 * even if that is no power of two (main: 3 pages of events), and masks indices with depth - 1 and
 * 2 * depth - 1 all the same. So its indices wrap at twice the greatest power of two that divides
 * the number, and the entries beyond that power are never used.
 */
static inline __u32 pvrdma_event_depth(__u32 pages, __u32 entry_size)
{
	__u32 entries = (pages - 1) * (PVRDMA_PAGE_SIZE / entry_size);

	return entries & -entries;
}

/* An async event (api). type: enum ib_event_type. id: a handle, or the port's number. */
struct pvrdma_async_event {
	__le32 type;
	__le32 id;
};
VRDMA_CHECK_SIZE(struct pvrdma_async_event, 8);

/* A completion event (api, struct pvrdma_cqne). */
struct pvrdma_completion_event {
	__le32 cq;
};
VRDMA_CHECK_SIZE(struct pvrdma_completion_event, 4);

/*
 * Doorbells (abi): stores of 32 bits into the UAR page of the user context. The low bits are a
 * handle. Linux's provider rings CQ_POLL whenever it finds a CQ empty.
 */
#define PVRDMA_UAR_QP 0
#define PVRDMA_UAR_CQ 4
#define PVRDMA_UAR_SRQ 8
#define PVRDMA_UAR_HANDLE VRDMA_MASK(23, 0)
#define PVRDMA_UAR_QP_SEND VRDMA_BIT(30)
#define PVRDMA_UAR_QP_RECV VRDMA_BIT(31)
#define PVRDMA_UAR_CQ_ARM_SOLICITED VRDMA_BIT(29)
#define PVRDMA_UAR_CQ_ARM VRDMA_BIT(30)
#define PVRDMA_UAR_CQ_POLL VRDMA_BIT(31)
#define PVRDMA_UAR_SRQ_RECV VRDMA_BIT(30)

/* (abi, struct pvrdma_av) */
struct pvrdma_av {
	__le32 port_pd;	   /* PVRDMA_AV_PORT | _PD */
	__le32 sl_tc_flow; /* PVRDMA_AV_SL | _TRAFFIC_CLASS | _FLOW_LABEL */
	__u8 dgid[16];
	__u8 path_bits;
	__u8 sgid_index;
	__u8 static_rate;
	__u8 hop_limit;
	__u8 dmac[6];
	__u8 reserved[6];
};
VRDMA_CHECK_SIZE(struct pvrdma_av, 40);
#define PVRDMA_AV_PORT VRDMA_MASK(31, 24)
#define PVRDMA_AV_PD VRDMA_MASK(23, 0)
#define PVRDMA_AV_SL VRDMA_MASK(31, 28)
#define PVRDMA_AV_TRAFFIC_CLASS VRDMA_MASK(27, 20)
#define PVRDMA_AV_FLOW_LABEL VRDMA_MASK(19, 0)

/* A receive WQE (abi): this header, then num_sge of struct vrdma_sge, which is the same here. */
struct pvrdma_rq_wqe {
	__le64 wr_id;
	__le32 num_sge;
	__le32 total_length; /* not used */
};
VRDMA_CHECK_SIZE(struct pvrdma_rq_wqe, 16);

/* A send WQE (abi): this header, then num_sge of struct vrdma_sge. */
struct pvrdma_sq_wqe {
	__le64 wr_id;
	__le32 num_sge;
	__le32 total_length; /* not used */
	__le32 opcode;	     /* enum pvrdma_opcode */
	__le32 flags;	     /* PVRDMA_SEND_* */
	union {
		__be32 imm;
		__le32 invalidate_key;
	};
	__le32 reserved0;
	union {
		struct {
			__le64 raddr;
			__le32 rkey;
			__le32 reserved;
		} rdma;
		struct {
			__le64 raddr;
			__le64 compare_add;
			__le64 swap;
			__le32 rkey;
			__le32 reserved;
		} atomic;
		struct {
			__le64 start;
			__le64 directory;
			__le32 page_shift;
			__le32 pages;
			__le32 length;
			__le32 access_flags;
			__le32 rkey;
			__le32 reserved;
		} fast;
		struct {
			__le32 dest_qpn;
			__le32 qkey;
			struct pvrdma_av av;
		} ud;
		__u8 masked_atomic[48]; /* the device does not have them */
	};
};
VRDMA_CHECK_SIZE(struct pvrdma_sq_wqe, 80);
VRDMA_CHECK_OFFSET(struct pvrdma_sq_wqe, rdma, 32);

/* The first seven are those of enum ibv_wr_opcode. */
enum pvrdma_opcode {
	PVRDMA_RDMA_WRITE,
	PVRDMA_RDMA_WRITE_WITH_IMM,
	PVRDMA_SEND,
	PVRDMA_SEND_WITH_IMM,
	PVRDMA_RDMA_READ,
	PVRDMA_ATOMIC_CMP_AND_SWP,
	PVRDMA_ATOMIC_FETCH_AND_ADD,
	PVRDMA_SEND_WITH_INV = 8,
	PVRDMA_LOCAL_INV = 10,
	PVRDMA_FAST_REG = 11,
	PVRDMA_OPCODES,
};

#define PVRDMA_SEND_FENCE VRDMA_BIT(0)
#define PVRDMA_SEND_SIGNALED VRDMA_BIT(1)
#define PVRDMA_SEND_SOLICITED VRDMA_BIT(2)
#define PVRDMA_SEND_INLINE VRDMA_BIT(3) /* no driver copies the data: max_inline is 0 */

/* A CQE (abi). */
struct pvrdma_cqe {
	__le64 wr_id;
	__le64 qp;     /* handle */
	__le32 opcode; /* values of enum ibv_wc_opcode, PVRDMA_WC_FAST_REG */
	__le32 status; /* enum ibv_wc_status */
	__le32 byte_len;
	__be32 imm; /* or __le32: the invalidated key */
	__le32 src_qpn;
	__le32 flags; /* PVRDMA_WC_* */
	__le32 vendor_err;
	__le16 pkey_index;
	__le16 slid;
	__u8 sl;
	__u8 path_bits;
	__u8 port;
	__u8 smac[6];
	__u8 header; /* PVRDMA_HEADER_*, with PVRDMA_WC_HEADER */
	__u8 reserved[6];
};
VRDMA_CHECK_SIZE(struct pvrdma_cqe, 64);
#define PVRDMA_WC_LOCAL_INV 7
#define PVRDMA_WC_FAST_REG 8
#define PVRDMA_WC_GRH VRDMA_BIT(0)
#define PVRDMA_WC_WITH_IMM VRDMA_BIT(1)
#define PVRDMA_WC_WITH_INV VRDMA_BIT(2)
#define PVRDMA_WC_HEADER VRDMA_BIT(6)
#define PVRDMA_HEADER_GRH 0 /* RoCE v1 */
#define PVRDMA_HEADER_IPV4 1
#define PVRDMA_HEADER_IPV6 2

/*
 * How the driver and the provider lay out a queue. An entry takes a power of two of bytes, and a
 * QP's RQ begins on a page of its own.
 */
#define PVRDMA_ENTRIES_OFFSET PVRDMA_PAGE_SIZE

static inline __u64 pvrdma_page_align(__u64 size)
{
	return (size + PVRDMA_PAGE_SIZE - 1) & ~(__u64)(PVRDMA_PAGE_SIZE - 1);
}

static inline __u64 pvrdma_rq_offset(__u32 sq_depth, unsigned int sq_stride_shift)
{
	return PVRDMA_ENTRIES_OFFSET + pvrdma_page_align((__u64)sq_depth << sq_stride_shift);
}

static inline __u64 pvrdma_qp_buffer_size(__u32 sq_depth, unsigned int sq_stride_shift,
					  __u32 rq_depth, unsigned int rq_stride_shift)
{
	return pvrdma_rq_offset(sq_depth, sq_stride_shift) +
	       pvrdma_page_align((__u64)rq_depth << rq_stride_shift);
}

/* Of an SRQ, whose entries are receive WQEs, of a CQ and of an event ring. */
static inline __u64 pvrdma_ring_buffer_size(__u32 depth, unsigned int stride_shift)
{
	return PVRDMA_ENTRIES_OFFSET + ((__u64)depth << stride_shift);
}

#endif /* VRDMA_PVRDMA_QUEUE_H */
