/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The data path: memory that a guest process (or the guest kernel) and the device's poller share.
 *
 * All words are little-endian; reserved fields must be zero. Queues are guest memory. WQEs and CQEs
 * carry their own phase bit, 1 on the first pass over a ring and toggled on each pass, so that
 * neither side needs an index of the other to find work. A producer writes the word with the phase
 * bit last, with release order. A consumer reads it first, with acquire order. A producer clears a
 * ring before its first use and again when its QP goes to RESET.
 *
 * Cache lines that move for an 8-byte inline RDMA WRITE on a polled QP: the WQE's line to the
 * poller, the target's line to its reader; and the CQE's line if the WQE is signaled.
 */
#ifndef VRDMA_QUEUE_H
#define VRDMA_QUEUE_H

#include "device.h"

/*
 * Waking the poller. While a QP is polled (vrdma_qp_control.sq_polled), the poller looks at its
 * next WQE without a doorbell. Otherwise it waits for the QP's doorbell, and, while it sleeps
 * (vrdma_status_page.need_kick), for a kick as well. After it has made WQEs valid, a producer does:
 *
 *	full fence
 *	if sq_polled != 0: done
 *	page->slot[n] = 1; page->line[n / 64] = 1;	(plain byte stores, in order)
 *	full fence
 *	if need_kick != 0: store to the kick page
 *
 * The poller does the reverse: it stores sq_polled = 0 (need_kick = 1), fences, and looks at the
 * WQE (the doorbells) once more before it waits. In no order is a wake-up lost. Posting to an RQ
 * needs none of this while the QP works: the poller looks there when a message needs a WQE. But a
 * QP in the error state must flush the posted WQEs. Therefore a producer does the same after it has
 * posted to an RQ, with "rq_wanted == 0" instead of "sq_polled != 0". An SRQ is never flushed:
 * posting to it needs none of this.
 */

/*
 * One doorbell page in BAR2 per user context. Slots are numbered from VRDMA_DOORBELL_FIRST_SLOT;
 * slot n is byte n of the page, and line[n / 64] says that a slot in that cache line was rung.
 * Several QPs may share a slot. BAR memory may be uncached for the guest: it only stores here.
 */
struct vrdma_doorbell_page {
	union {
		__u8 line[64]; /* line[0] is unused */
		__u8 slot[4096];
	};
};
VRDMA_CHECK_SIZE(struct vrdma_doorbell_page, 4096);
#define VRDMA_DOORBELL_LINE_SHIFT 6
#define VRDMA_DOORBELL_FIRST_SLOT 64
#define VRDMA_DOORBELL_SLOTS 4096

/*
 * One page of guest memory per device, which the device writes and every user context reads. The
 * device does a long command in steps; admin_steps counts the steps of all commands. So the driver
 * can tell a slow device, which makes steps, from a failed one, which makes none.
 */
struct vrdma_status_page {
	__le32 need_kick; /* poller writes */
	__le32 reserved0[15];
	__le32 admin_steps; /* mediator writes, modulo 2^32 */
	__le32 reserved1[1007];
};
VRDMA_CHECK_SIZE(struct vrdma_status_page, 4096);
VRDMA_CHECK_OFFSET(struct vrdma_status_page, admin_steps, 64);

/*
 * The QP buffer: this structure, then sq_depth WQEs at vrdma_sq_offset(), then rq_depth WQEs at
 * vrdma_rq_offset(). Each ring begins on a multiple of its stride within the pages, so that no WQE
 * crosses a page.
 */
#define VRDMA_QUEUE_CONTROL_SIZE 128

struct vrdma_qp_control {
	__le32 sq_polled; /* poller writes */
	__le32 rq_wanted; /* poller writes: 1 in the error state */
	__le32 reserved[30];
};
VRDMA_CHECK_SIZE(struct vrdma_qp_control, VRDMA_QUEUE_CONTROL_SIZE);

/*
 * vrdma's drivers let buffers of QPs and CQs begin on a page (first_offset in the create commands
 * is 0). Other values that keep every stride within a page are legal.
 */
static inline __u64 vrdma_ring_align(__u64 offset, unsigned int stride_shift)
{
	__u64 stride = (__u64)1 << stride_shift;

	return (offset + stride - 1) & ~(stride - 1);
}

static inline __u64 vrdma_sq_offset(unsigned int sq_stride_shift)
{
	return vrdma_ring_align(VRDMA_QUEUE_CONTROL_SIZE, sq_stride_shift);
}

static inline __u64 vrdma_rq_offset(__u32 sq_depth, unsigned int sq_stride_shift,
				    unsigned int rq_stride_shift)
{
	__u64 sq_size = (__u64)sq_depth << sq_stride_shift;

	return vrdma_ring_align(vrdma_sq_offset(sq_stride_shift) + sq_size, rq_stride_shift);
}

static inline __u64 vrdma_qp_buffer_size(__u32 sq_depth, unsigned int sq_stride_shift,
					 __u32 rq_depth, unsigned int rq_stride_shift)
{
	return vrdma_rq_offset(sq_depth, sq_stride_shift, rq_stride_shift) +
	       ((__u64)rq_depth << rq_stride_shift);
}

struct vrdma_sge {
	__le64 addr;
	__le32 length;
	__le32 lkey;
};
VRDMA_CHECK_SIZE(struct vrdma_sge, 16);

/*
 * Send WQE: this header, then the payload. The payload is SGEs; or with VRDMA_SQ_INLINE `length`
 * bytes of data; or for atomics struct vrdma_sq_atomic and one SGE; or the structure named at the
 * opcode. On the send queue of an XRC QP, struct vrdma_sq_xrc precedes the payload.
 */
struct vrdma_sq_wqe {
	__le32 ctrl;   /* VRDMA_WQE_PHASE | VRDMA_SQ_* */
	__le32 length; /* bytes of inline data, else 0 */
	__be32 imm;    /* immediate data, as it goes on the wire, or 0 */
	union {
		__le32 rkey; /* RDMA, atomics; else the opcode's key, or 0 */
		__le32 qkey; /* UD */
	};
	union {
		__le64 raddr; /* RDMA, atomics */
		struct {
			__le32 ah;
			__le32 dest_qpn;
		} ud;
	};
};
VRDMA_CHECK_SIZE(struct vrdma_sq_wqe, 24);
#define VRDMA_SQ_PAYLOAD_OFFSET 24

#define VRDMA_WQE_PHASE VRDMA_BIT(31)
#define VRDMA_SQ_OPCODE VRDMA_MASK(7, 0) /* values of enum ibv_wr_opcode */
#define VRDMA_SQ_SIGNALED VRDMA_BIT(8)
#define VRDMA_SQ_SOLICITED VRDMA_BIT(9)
#define VRDMA_SQ_FENCE VRDMA_BIT(10)
#define VRDMA_SQ_INLINE VRDMA_BIT(11)
#define VRDMA_SQ_AV VRDMA_BIT(12) /* UD: struct vrdma_av precedes the payload; ah is 0 */
#define VRDMA_WQE_NUM_SGE VRDMA_MASK(20, 16)
#define VRDMA_SQ_RESERVED (VRDMA_MASK(30, 21) | VRDMA_MASK(15, 13))

struct vrdma_sq_atomic {
	__le64 compare_add;
	__le64 swap; /* compare and swap only, else 0 */
};
VRDMA_CHECK_SIZE(struct vrdma_sq_atomic, 16);

/*
 * Binds a memory window (IBA 10.6.7). The header has its key, with the new low byte. A type 1
 * window may be bound already, and length 0 unbinds it. A type 2 window must not be bound already,
 * and an invalidation unbinds it. Addresses are those of the region; those of a type 2 window count
 * from its first byte if access_flags has IB_ZERO_BASED.
 */
struct vrdma_sq_bind {
	__le64 addr;
	__le64 length;
	__le32 lkey;	     /* of the memory region */
	__le32 access_flags; /* enum ib_access_flags */
};
VRDMA_CHECK_SIZE(struct vrdma_sq_bind, 24);

/*
 * Gives pages to a region that was created without memory (fast registration, IBA 10.6.3). The
 * header has the region's key, with the new low byte. The region must be new or invalidated. The
 * device does not look at entries of the list's page after the last one.
 */
struct vrdma_sq_reg {
	struct vrdma_page_list pages; /* levels 0 or 1; valid until the WQE completes */
	__le64 start;		      /* address of the first byte; 0 with IB_ZERO_BASED */
	__le64 length;
	__le32 access_flags; /* enum ib_access_flags */
	__le32 first_offset; /* below the block size */
};
VRDMA_CHECK_SIZE(struct vrdma_sq_reg, 40);

/* The SRQ from which the peer takes a WQE, if the opcode needs one. */
struct vrdma_sq_xrc {
	__le32 srqn;
	__le32 reserved;
};
VRDMA_CHECK_SIZE(struct vrdma_sq_xrc, 8);

/*
 * The upper bits of a key name a region or window. The owner chooses the low byte where the
 * specification says so (IBA 10.6.3.3): a key with any other than the present low byte is unknown.
 */
#define VRDMA_KEY_TAG VRDMA_MASK(7, 0)

/* An lkey that every PD has (ibv_alloc_null_mr): it reads as zeros, and drops writes. */
#define VRDMA_NULL_LKEY 0x100u

enum vrdma_sq_opcode {
	VRDMA_SQ_RDMA_WRITE = 0,
	VRDMA_SQ_RDMA_WRITE_WITH_IMM = 1,
	VRDMA_SQ_SEND = 2,
	VRDMA_SQ_SEND_WITH_IMM = 3,
	VRDMA_SQ_RDMA_READ = 4,
	VRDMA_SQ_ATOMIC_CMP_AND_SWP = 5,
	VRDMA_SQ_ATOMIC_FETCH_AND_ADD = 6,
	VRDMA_SQ_LOCAL_INV = 7, /* no payload */
	VRDMA_SQ_BIND_MW = 8,	/* struct vrdma_sq_bind */
	VRDMA_SQ_SEND_WITH_INV = 9,
	VRDMA_SQ_ATOMIC_WRITE = 15, /* eight bytes: one SGE, or inline whatever max_inline is */
	VRDMA_SQ_REG_MR = 32,	    /* struct vrdma_sq_reg; of the guest kernel only */
};

/* Receive WQE: this header, then the SGEs. */
struct vrdma_rq_wqe {
	__le32 ctrl;   /* VRDMA_WQE_PHASE | VRDMA_WQE_NUM_SGE */
	__le32 cookie; /* of an SRQ's WQE: its name in the CQE. Else 0 */
	__le32 reserved[2];
};
VRDMA_CHECK_SIZE(struct vrdma_rq_wqe, 16);
#define VRDMA_RQ_PAYLOAD_OFFSET 16
#define VRDMA_RQ_RESERVED (VRDMA_MASK(30, 21) | VRDMA_MASK(15, 0))

/*
 * A shared receive queue: depth receive WQEs, from the beginning of its buffer on. A QP takes the
 * next WQE when a message needs it, and completes it later. WQEs therefore complete in any order,
 * and each is named by the cookie that its poster gave it. The device copies a WQE when it takes
 * it, in the order of the ring; while fewer than depth WQEs are outstanding, the next place is
 * free. If a QP goes to RESET or is destroyed, it first completes, as flushed, a WQE that it has
 * taken: its CQE is struck out with the others.
 */
static inline __u64 vrdma_srq_buffer_size(__u32 depth, unsigned int stride_shift)
{
	return (__u64)depth << stride_shift;
}

#define VRDMA_SQ_MIN_STRIDE_SHIFT 6
#define VRDMA_RQ_MIN_STRIDE_SHIFT 5
#define VRDMA_MAX_STRIDE_SHIFT 12
#define VRDMA_MAX_SGE 30
#define VRDMA_MAX_QUEUE_DEPTH 32768
#define VRDMA_MAX_CQ_DEPTH (1u << 22)
#define VRDMA_UD_GRH_SIZE 40

/*
 * CQ buffer: this structure, then depth CQEs at VRDMA_QUEUE_CONTROL_SIZE. Each side writes a cache
 * line of its own.
 *
 * Arming (ibv_req_notify_cq): the guest writes arm with a new sequence number, fences, and polls
 * again before it waits. The poller writes a CQE, fences, and reads arm. If arm's sequence number
 * differs from that of the last event, and the CQE is of the kind asked for, the poller writes the
 * event queue and then sets fired to that sequence number.
 */
struct vrdma_cq_control {
	__le32 consumer; /* guest writes: free-running count of CQEs taken */
	__le32 arm;	 /* guest writes: VRDMA_CQ_ARM_* */
	__le32 reserved0[14];
	__le32 fired; /* poller writes: VRDMA_CQ_ARM_SEQUENCE, in place, of the last event */
	__le32 reserved1[15];
};
VRDMA_CHECK_SIZE(struct vrdma_cq_control, VRDMA_QUEUE_CONTROL_SIZE);
VRDMA_CHECK_OFFSET(struct vrdma_cq_control, fired, 64);
#define VRDMA_CQ_ARM_SEQUENCE VRDMA_MASK(31, 1)
#define VRDMA_CQ_ARM_SOLICITED VRDMA_BIT(0) /* else any CQE. A failure counts as solicited */

/*
 * The next value of arm. Each request has its own number: if a request repeated the last number, an
 * event that is on its way could count as the answer to a later request. A request for solicited
 * CQEs does not weaken a pending one for any CQE (IBA 11.4.2.2).
 */
static inline __u32 vrdma_cq_next_arm(__u32 arm, __u32 fired, int solicited_only)
{
	int pending = (arm & VRDMA_CQ_ARM_SEQUENCE) != (fired & VRDMA_CQ_ARM_SEQUENCE);
	int pending_any = pending && !(arm & VRDMA_CQ_ARM_SOLICITED);
	__u32 sequence = (arm & VRDMA_CQ_ARM_SEQUENCE) + VRDMA_SET(VRDMA_CQ_ARM_SEQUENCE, 1u);

	return sequence | (solicited_only && !pending_any ? VRDMA_CQ_ARM_SOLICITED : 0);
}

struct vrdma_cqe {
	__le32 ctrl;	   /* VRDMA_CQE_*, written last */
	__le32 qpn;	   /* 0: struck out by the guest when it destroyed or reset the QP */
	__le32 wqe_index;  /* free-running count of the WQE in its ring; of an SRQ: its cookie */
	__le32 byte_len;   /* receive and READ: bytes of the message, UD with the GRH's 40 */
	__be32 imm;	   /* as on the wire; with WITH_INV a __le32: the invalidated key */
	__le32 src_qpn;	   /* UD receive */
	__le32 vendor_err; /* which check failed, enum vrdma_vendor_err */
	__le16 pkey_index;
	__u8 header; /* UD receive: VRDMA_CQE_HEADER_* */
	__u8 reserved0;
	__le64 timestamp; /* of a CQ with VRDMA_CQ_TIMESTAMP: the device's clock in ns; else 0 */
	__le32 srqn;	  /* with VRDMA_CQE_XRC */
	__le16 vlan;	  /* UD receive: of the datagram's tag; 0: none */
	__le16 reserved1;
	__le32 reserved2[4];
};
VRDMA_CHECK_SIZE(struct vrdma_cqe, 64);
#define VRDMA_CQE_PHASE VRDMA_BIT(31)
#define VRDMA_CQE_STATUS VRDMA_MASK(7, 0)  /* values of enum ibv_wc_status */
#define VRDMA_CQE_OPCODE VRDMA_MASK(15, 8) /* values of enum ibv_wc_opcode, VRDMA_CQE_REG_MR */
#define VRDMA_CQE_REG_MR 32		   /* not in that enum, and no RDMA opcode */
#define VRDMA_CQE_WITH_IMM VRDMA_BIT(16)
#define VRDMA_CQE_GRH VRDMA_BIT(17)
#define VRDMA_CQE_WITH_INV VRDMA_BIT(18)
#define VRDMA_CQE_RECV VRDMA_BIT(19) /* of the RQ; also for flushed WQEs, whose opcode is 0 */
#define VRDMA_CQE_XRC VRDMA_BIT(20)  /* SRQ in srqn; the QP may be another program's */
#define VRDMA_CQE_SHIFT 6

/*
 * The header before the payload of a datagram (IBA A17.4.5.1). Programs find it in ibv_wc.sl, where
 * ConnectX puts it, since RoCE has no service level: UCX uses it to find the destination.
 */
#define VRDMA_CQE_HEADER_GRH 0	/* RoCE v1 */
#define VRDMA_CQE_HEADER_IPV6 9 /* RoCE v2: an IP header, then UDP */
#define VRDMA_CQE_HEADER_IPV4 10

/* Why a WQE failed, for people (programs act on the status alone). */
enum vrdma_vendor_err {
	VRDMA_VERR_NONE = 0,
	VRDMA_VERR_RESERVED = 1, /* a reserved field or unknown flag was set */
	VRDMA_VERR_OPCODE = 2,	 /* unknown, or not for this kind of QP */
	VRDMA_VERR_NUM_SGE = 3,
	VRDMA_VERR_INLINE = 4, /* more than the QP's max_inline */
	VRDMA_VERR_LENGTH = 5, /* message too long, or not 8 for an atomic */
	VRDMA_VERR_KEY = 6,    /* unknown key */
	VRDMA_VERR_PD = 7,
	VRDMA_VERR_ACCESS = 8,
	VRDMA_VERR_BOUNDS = 9,
	VRDMA_VERR_ALIGNMENT = 10, /* atomic target */
	VRDMA_VERR_REVOKED = 11,   /* the memory behind a key is gone */
	VRDMA_VERR_AH = 12,
	VRDMA_VERR_PEER = 13,	    /* no such peer, or it does not listen */
	VRDMA_VERR_PEER_ERROR = 14, /* the peer refused: see its own completion */
	VRDMA_VERR_KEY_STATE = 15,  /* already bound or registered, or windows are bound to it */
	VRDMA_VERR_PAGE_LIST = 16,  /* of a fast registration */
	VRDMA_VERR_ABSENT = 31,	    /* within the device only: the device asks for a page */
};

#endif /* VRDMA_QUEUE_H */
