/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The vrdma PCI function as its guest driver and its mediator see it: identity, BARs, registers,
 * the admin queue and the event queues.
 *
 * All words are little-endian. Reserved fields must be zero in both directions: the device refuses
 * a command with any other value (EINVAL). GIDs and MAC addresses are byte strings in network
 * order. An address that the device reads or writes is a bus address of the guest (IOVA).
 */
#ifndef VRDMA_DEVICE_H
#define VRDMA_DEVICE_H

#include "bits.h"

/*
 * PCI identity. The PCI-SIG allotted neither number. Both ("vr", "dm" in ASCII) were chosen to
 * differ from the ids that it did allot.
 */
#define VRDMA_PCI_VENDOR_ID 0x7276
#define VRDMA_PCI_DEVICE_ID 0x6d64
#define VRDMA_PCI_REVISION 1
#define VRDMA_PCI_CLASS 0x028000 /* network controller, other */

/*
 * BAR0, VRDMA_BAR0_SIZE bytes, every access trapped:
 *   page 0   registers; aligned 32-bit accesses. Other reads return ones; other writes are dropped.
 *   page 1   the kick page: reads as zero; a write of any value wakes the device's poller. The
 *            guest kernel maps it into every process that has a user context.
 * BAR2, 64-bit, mapped: one doorbell page per user context (struct vrdma_doorbell_page in queue.h).
 *   Page 0 is the guest kernel's own.
 * BAR4, the MSI-X table and pending bits.
 */
#define VRDMA_BAR0_SIZE 0x2000
#define VRDMA_BAR0_KICK_OFFSET 0x1000
#define VRDMA_BAR_REGISTERS 0
#define VRDMA_BAR_DOORBELLS 2
#define VRDMA_BAR_MSIX 4
#define VRDMA_BAR4_SIZE 0x1000
#define VRDMA_MSIX_TABLE_OFFSET 0x000
#define VRDMA_MSIX_PBA_OFFSET 0x800
#define VRDMA_MAX_VECTORS 64
#define VRDMA_DOORBELL_PAGE_SIZE 4096

/* Registers. RO: writes have no effect. WO: reads as zero. */
enum vrdma_register {
	VRDMA_REG_MAGIC = 0x00,		 /* RO, VRDMA_MAGIC */
	VRDMA_REG_VERSION = 0x04,	 /* RO, VRDMA_VERSION: guest driver refuses another major */
	VRDMA_REG_STATUS = 0x08,	 /* RO, VRDMA_STATUS_* */
	VRDMA_REG_CONTROL = 0x0c,	 /* RW, VRDMA_CONTROL_* */
	VRDMA_REG_MAC_LOW = 0x10,	 /* RO, MAC bytes 0-3, byte 0 lowest */
	VRDMA_REG_MAC_HIGH = 0x14,	 /* RO, MAC bytes 4-5 */
	VRDMA_REG_DOORBELL_PAGES = 0x18, /* RO, pages in BAR2 */
	VRDMA_REG_VECTORS = 0x1c,	 /* RO, MSI-X vectors; vector 0 is for async events */
	VRDMA_REG_ASQ_LOW = 0x20,	 /* RW, admin submission queue, page-aligned */
	VRDMA_REG_ASQ_HIGH = 0x24,
	VRDMA_REG_ACQ_LOW = 0x28, /* RW, admin completion queue, page-aligned */
	VRDMA_REG_ACQ_HIGH = 0x2c,
	VRDMA_REG_AQ_DEPTH = 0x30,	  /* RW, entries of both, a power of two from 2 */
	VRDMA_REG_AQ_VECTOR = 0x34,	  /* RW, vector raised for admin completions */
	VRDMA_REG_STATUS_PAGE_LOW = 0x38, /* RW, struct vrdma_status_page (queue.h), page-aligned */
	VRDMA_REG_STATUS_PAGE_HIGH = 0x3c,
	VRDMA_REG_ADMIN_DOORBELL = 0x40, /* WO, any value: commands were queued */
	VRDMA_REG_END = 0x44,
};

#define VRDMA_MAGIC 0x6d647276u /* "vrdm" */
#define VRDMA_VERSION_MAJOR VRDMA_MASK(31, 16)
#define VRDMA_VERSION_MINOR VRDMA_MASK(15, 0)
#define VRDMA_VERSION 0x00010000u

/*
 * STATUS. READY: the function is reset and waits to be enabled. ENABLED: the admin queue is served.
 * FATAL: the mediator is gone, or the guest broke a rule from which the device cannot recover; only
 * a reset helps. If no bit is set, a reset is under way. The device raises vector 0 when FATAL
 * appears, and when READY follows a FATAL (a mediator came back: the driver may reset and start
 * anew).
 */
#define VRDMA_STATUS_READY VRDMA_BIT(0)
#define VRDMA_STATUS_ENABLED VRDMA_BIT(1)
#define VRDMA_STATUS_FATAL VRDMA_BIT(2)

/*
 * CONTROL. Writing RESET starts a reset: poll STATUS for READY (VRDMA_RESET_TIMEOUT_MS at most).
 * From the write on the device touches no guest memory. The write clears an earlier FATAL, so a
 * FATAL that is read after it means that there is no mediator. Writing ENABLE makes the device use
 * the queue registers: poll STATUS for ENABLED, or for FATAL if a register holds a bad value.
 */
#define VRDMA_CONTROL_ENABLE VRDMA_BIT(0)
#define VRDMA_CONTROL_RESET VRDMA_BIT(1)
#define VRDMA_RESET_TIMEOUT_MS 5000
/* Timeout of a command without an answer and without a step (vrdma_status_page.admin_steps). */
#define VRDMA_ADMIN_TIMEOUT_MS 20000

#define VRDMA_AQ_MAX_DEPTH 256
#define VRDMA_PAGE_SIZE 4096
#define VRDMA_PAGE_SHIFT 12

/* Bus addresses are below this limit, unless the mediator is configured with another one. */
#define VRDMA_IOVA_SPACE 0x10000000000ull /* 1 TiB */

/*
 * A page list: the blocks, of 1 << page_shift bytes each, that make up a buffer. With levels 0 the
 * buffer is contiguous, and root is its first block. With levels L, root is a 4 KiB page with the
 * addresses of 512 pages of level L - 1; pages of level 1 hold addresses of blocks. Unused entries
 * are zero. Addresses of blocks are aligned to the block size.
 */
struct vrdma_page_list {
	__le64 root;
	__le32 count;	 /* blocks */
	__u8 page_shift; /* 12..VRDMA_MAX_PAGE_SHIFT */
	__u8 levels;	 /* 0..VRDMA_PAGE_LIST_MAX_LEVELS */
	__le16 reserved;
};
VRDMA_CHECK_SIZE(struct vrdma_page_list, 16);
#define VRDMA_PAGE_LIST_ENTRIES 512
#define VRDMA_PAGE_LIST_MAX_LEVELS 3
#define VRDMA_MAX_PAGE_SHIFT 30

/* Where a UD datagram or a connected QP goes: the address vector (IBA 11.2.2.1). */
struct vrdma_av {
	__u8 dgid[16];
	__le32 flow_label; /* VRDMA_AV_FLOW_LABEL; programs may give drivers more bits */
	__u8 sgid_index;
	__u8 hop_limit;
	__u8 traffic_class;
	__u8 sl;
	__u8 dmac[6];
	__u8 port_num; /* 1 */
	__u8 reserved;
};
VRDMA_CHECK_SIZE(struct vrdma_av, 32);
#define VRDMA_AV_FLOW_LABEL VRDMA_MASK(19, 0)

/*
 * Attributes of a queue pair. attr_mask has the values of enum ib_qp_attr_mask, state those of enum
 * ib_qp_state, path_mtu those of enum ib_mtu, access_flags those of enum ib_access_flags: user
 * space and kernel agree on them. IBA 11.2.5.2, tables 91-94, says which attributes a transition
 * needs and allows. Path migration attributes are refused.
 */
struct vrdma_qp_attr {
	__le32 attr_mask;
	__u8 state;
	__u8 cur_state;
	__u8 path_mtu;
	__u8 port_num;
	__le32 qkey;
	__le32 rq_psn;
	__le32 sq_psn;
	__le32 dest_qpn;
	__le32 access_flags;
	__u8 timeout;
	__u8 retry_cnt;
	__u8 rnr_retry;
	__u8 min_rnr_timer;
	__u8 max_rd_atomic;
	__u8 max_dest_rd_atomic;
	__u8 sq_drained_notify; /* IB_QP_EN_SQD_ASYNC_NOTIFY */
	__u8 sq_draining;	/* query only */
	__le16 pkey_index;
	__le16 reserved;
	struct vrdma_av av;
};
VRDMA_CHECK_SIZE(struct vrdma_qp_attr, 72);

/*
 * The admin queue. The guest fills ASQ entries in order, writes the word that holds the phase bit
 * last and rings ADMIN_DOORBELL once for any number of them. The phase of an entry is 1 on the
 * first pass over the ring and toggles on each pass. The device answers each command with one entry
 * in the ACQ, in any order, with the same phase rule, and raises AQ_VECTOR. The guest must never
 * have more commands in flight than there are entries.
 */
enum vrdma_admin_opcode {
	VRDMA_ADMIN_QUERY_DEVICE = 1,
	VRDMA_ADMIN_CREATE_EQ = 2,
	VRDMA_ADMIN_DESTROY_EQ = 3,
	VRDMA_ADMIN_ALLOC_UCONTEXT = 4,
	VRDMA_ADMIN_DEALLOC_UCONTEXT = 5,
	VRDMA_ADMIN_ALLOC_PD = 6,
	VRDMA_ADMIN_DEALLOC_PD = 7,
	VRDMA_ADMIN_REG_MR = 8,
	VRDMA_ADMIN_DEREG_MR = 9,
	VRDMA_ADMIN_CREATE_CQ = 10,
	VRDMA_ADMIN_DESTROY_CQ = 11,
	VRDMA_ADMIN_CREATE_QP = 12,
	VRDMA_ADMIN_MODIFY_QP = 13,
	VRDMA_ADMIN_QUERY_QP = 14,
	VRDMA_ADMIN_DESTROY_QP = 15,
	VRDMA_ADMIN_CREATE_AH = 16,
	VRDMA_ADMIN_DESTROY_AH = 17,
	VRDMA_ADMIN_SET_GID = 18,
	VRDMA_ADMIN_QUERY_PORT = 19,
	VRDMA_ADMIN_CREATE_SRQ = 20,
	VRDMA_ADMIN_MODIFY_SRQ = 21,
	VRDMA_ADMIN_QUERY_SRQ = 22,
	VRDMA_ADMIN_DESTROY_SRQ = 23,
	VRDMA_ADMIN_RESIZE_CQ = 24,
	VRDMA_ADMIN_MODIFY_CQ = 25,
	VRDMA_ADMIN_REREG_MR = 26,
	VRDMA_ADMIN_ALLOC_MW = 27,
	VRDMA_ADMIN_DEALLOC_MW = 28,
	VRDMA_ADMIN_ALLOC_MR = 29,
	VRDMA_ADMIN_MAP_PAGES = 30,
	VRDMA_ADMIN_UNMAP_PAGES = 31,
	VRDMA_ADMIN_RESIZE_SRQ = 32,
	VRDMA_ADMIN_ALLOC_XRCD = 34,
	VRDMA_ADMIN_DEALLOC_XRCD = 35,
	VRDMA_ADMIN_ATTACH_MCAST = 36,
	VRDMA_ADMIN_DETACH_MCAST = 37,
	VRDMA_ADMIN_QUERY_COUNTERS = 38,
	VRDMA_ADMIN_ALLOC_COUNTER_SET = 39,
	VRDMA_ADMIN_DEALLOC_COUNTER_SET = 40,
	VRDMA_ADMIN_BIND_COUNTER_SET = 41,
	VRDMA_ADMIN_QUERY_CLOCK = 44,
	VRDMA_ADMIN_LISTEN = 45,
	VRDMA_ADMIN_UNLISTEN = 46,
	VRDMA_ADMIN_OPCODE_END = 47,
};

#define VRDMA_ADMIN_PHASE VRDMA_BIT(31)
#define VRDMA_ADMIN_OPCODE VRDMA_MASK(23, 16)
#define VRDMA_ADMIN_ID VRDMA_MASK(15, 0)
#define VRDMA_ADMIN_RESERVED VRDMA_MASK(30, 24)

/* Commands whose only argument is the object (DESTROY_*, DEALLOC_*, DEREG_MR, QUERY_*). */
struct vrdma_cmd_handle {
	__le32 handle; /* id, qpn, cqn, srqn or key */
	__le32 reserved;
};

struct vrdma_cmd_create_eq {
	struct vrdma_page_list pages; /* struct vrdma_eq_control, then entries */
	__le32 depth;		      /* entries, a power of two, 16..VRDMA_EQ_MAX_DEPTH */
	__le32 vector;
};

struct vrdma_cmd_alloc_pd {
	__le32 ucontext; /* 0: the guest kernel */
	__le32 reserved;
};

/*
 * The buffer begins first_offset bytes into the first block. Its remote and local address is start,
 * which is 0 with IB_ACCESS_ZERO_BASED. The addresses of a DMA MR (VRDMA_MR_DMA) are bus addresses:
 * it has no page list, and its PD must be the guest kernel's. A region of no bytes has no page list
 * either.
 */
struct vrdma_cmd_reg_mr {
	struct vrdma_page_list pages;
	__le64 start;
	__le64 length;
	__le32 pd;
	__le32 access_flags; /* enum ib_access_flags */
	__le32 first_offset; /* below the block size */
	__le32 flags;	     /* VRDMA_MR_* */
};
#define VRDMA_MR_DMA VRDMA_BIT(0)

/*
 * On-demand paging. A region with IB_ACCESS_ON_DEMAND has no page list: its pages, of 4 KiB, come
 * and go. A number names each page; page 0 contains the first byte, at first_offset. A message that
 * needs pages which the device does not have waits, and the device reports them
 * (VRDMA_EQE_PAGE_FAULT); it repeats a report that is not answered. The device may also forget
 * pages, and ask for them again. The driver answers with MAP_PAGES. If there is no memory, it
 * answers with VRDMA_MAP_REFUSED, and the message fails. It may also map pages that the device has
 * not asked for. From the answer to UNMAP_PAGES on, the device does not touch the pages that were
 * mapped there. An access through a window to such a region faults on the region.
 *
 * A region may be as long as an address space (VRDMA_ON_DEMAND_MAX_SIZE).
 */
struct vrdma_cmd_map_pages {
	struct vrdma_page_list pages; /* of 4 KiB; with VRDMA_MAP_REFUSED only their count */
	__le64 first;		      /* number of the first */
	__le32 key;
	__le32 flags; /* VRDMA_MAP_* */
};
#define VRDMA_MAP_WRITABLE VRDMA_BIT(0)
#define VRDMA_MAP_REFUSED VRDMA_BIT(1)
#define VRDMA_MAP_MAX_PAGES 4096
#define VRDMA_ON_DEMAND_MAX_SIZE (1ull << 57)

/*
 * The operations that may use pages on demand (enum ib_odp_transport_cap_bits: send 0, receive 1,
 * write 2, read 3, atomics 4, SRQ 5). A datagram that waits too long for its receiver's pages is
 * lost.
 */
#define VRDMA_ODP_RC VRDMA_MASK(5, 0)
#define VRDMA_ODP_UC (VRDMA_MASK(2, 0) | VRDMA_BIT(5))
#define VRDMA_ODP_UD (VRDMA_MASK(1, 0) | VRDMA_BIT(5))

struct vrdma_cmd_unmap_pages {
	__le64 first;
	__le64 count; /* may reach beyond the region */
	__le32 key;
	__le32 reserved;
};

/*
 * Changes a region, which keeps its key. The flags say which properties are new. The others stay,
 * and their fields are zero. EBUSY: windows are bound to the region. EOPNOTSUPP: the region has
 * pages on demand, or the command asks for them. After any error the region is unchanged.
 */
struct vrdma_cmd_rereg_mr {
	struct vrdma_page_list pages;
	__le64 start;
	__le64 length;
	__le32 pd;
	__le32 access_flags;
	__le32 first_offset;
	__le32 flags; /* VRDMA_REREG_*: values of enum ibv_rereg_mr_flags */
	__le32 key;
	__le32 reserved;
};
#define VRDMA_REREG_TRANSLATION VRDMA_BIT(0) /* pages, first_offset, start, length */
#define VRDMA_REREG_PD VRDMA_BIT(1)
#define VRDMA_REREG_ACCESS VRDMA_BIT(2)

/* DEALLOC_MW and DEREG_MR take the key as it was given out, before a change of its low byte. */
struct vrdma_cmd_alloc_mw {
	__le32 pd;
	__le32 type; /* enum ib_mw_type; type 2 is 2B: a window is bound to one QP */
};

/* A region for fast registration: VRDMA_SQ_REG_MR gives it memory (queue.h). */
struct vrdma_cmd_alloc_mr {
	__le32 pd;	  /* one of the guest kernel's */
	__le32 max_pages; /* 1..VRDMA_MAX_FAST_PAGES */
};
#define VRDMA_MAX_FAST_PAGES 512

struct vrdma_cmd_create_cq {
	struct vrdma_page_list pages; /* struct vrdma_cq_control, then CQEs: see queue.h */
	__le32 first_offset;	      /* below the block size; a multiple of 64 */
	__le32 depth;		      /* CQEs, a power of two */
	__le32 eq;		      /* handle of the event queue for its completions */
	__le32 ucontext;
	__le32 flags; /* VRDMA_CQ_* */
	__le32 reserved;
};
#define VRDMA_CQ_TIMESTAMP VRDMA_BIT(0)	     /* CQEs have a timestamp */
#define VRDMA_CQ_IGNORE_OVERRUN VRDMA_BIT(1) /* CQEs that are not taken in time are overwritten */

/*
 * Another ring for a CQ, for CQEs from now on. The count of CQEs goes on, so the guest prepares the
 * new buffer for it: with the present consumer and arm, and with the phase of no CQE in every place
 * (queue.h). CQEs that were not taken stay in the old ring. The guest may copy them into the new
 * ring, so the new ring must have a place for each (else EINVAL). Meanwhile the guest takes no CQE
 * and does not arm the CQ.
 */
struct vrdma_cmd_resize_cq {
	struct vrdma_page_list pages;
	__le32 first_offset; /* below the block size; a multiple of 64 */
	__le32 depth;	     /* CQEs, a power of two */
	__le32 cqn;
	__le32 reserved;
};

/*
 * Moderation: the device sends an event that was asked for when count CQEs were written since the
 * last event, or period_us after the first of them. If one is 0, only the other applies. If both
 * are 0, the device sends the event at once.
 */
struct vrdma_cmd_modify_cq {
	__le32 cqn;
	__le16 count;
	__le16 period_us;
};
#define VRDMA_MAX_CQ_MODERATION 65535

/*
 * An XRC domain (ALLOC_XRCD, which has no argument) belongs to the device, because several user
 * contexts may share it. An SRQ that names a domain is for the XRC_RECV QPs of that domain, and
 * only for them.
 */
struct vrdma_cmd_create_srq {
	struct vrdma_page_list pages; /* WQEs: see queue.h */
	__le32 first_offset;	      /* below the block size; a multiple of the stride */
	__le32 ucontext;
	__le32 pd;	   /* that of the WQEs' keys, whatever the QPs' PDs */
	__le32 depth;	   /* WQEs, a power of two */
	__u8 stride_shift; /* log2 of bytes per WQE */
	__u8 reserved0;
	__le16 max_sge;
	__le32 xrcd; /* or 0 */
	__le32 cq;   /* with an XRC domain: its WQEs complete there; else 0 */
	__le32 reserved1;
};

/*
 * Arms the limit: when fewer WQEs are left, the device posts IB_EVENT_SRQ_LIMIT_REACHED once, and
 * disarms the limit. 0 disarms it.
 */
struct vrdma_cmd_modify_srq {
	__le32 srqn;
	__le32 limit; /* no more than the depth */
};

/*
 * Another ring for an SRQ, of the same stride. The count of WQEs goes on, so the guest prepares the
 * new buffer for it, and posts nothing meanwhile. Every place has the phase of the last posted WQE
 * that would be there (queue.h), and the WQEs that the device may not have taken are there. The
 * limit stays as it is armed, or is armed anew with VRDMA_RESIZE_SRQ_LIMIT. EINVAL: the new ring
 * has fewer places than the limit, or than there are WQEs that are posted and not taken.
 */
struct vrdma_cmd_resize_srq {
	struct vrdma_page_list pages;
	__le32 first_offset; /* below the block size; a multiple of the stride */
	__le32 depth;	     /* WQEs, a power of two */
	__le32 srqn;
	__le32 flags; /* VRDMA_RESIZE_SRQ_* */
	__le32 limit; /* else 0 */
	__le32 reserved;
};
#define VRDMA_RESIZE_SRQ_LIMIT VRDMA_BIT(0)

/*
 * An XRC_SEND QP has no RQ and no recv_cq. An XRC_RECV QP has an XRC domain and nothing else: no
 * queues, no CQs, no PD, no user context. Its peer's requests access memory in the PD of the SRQ
 * that the request names (IBA A14).
 */
struct vrdma_cmd_create_qp {
	struct vrdma_page_list pages; /* struct vrdma_qp_control, SQ, RQ: see queue.h */
	__le32 first_offset;	      /* below the block size; a multiple of 64 */
	__le32 ucontext;
	__le32 pd;
	__le32 send_cq;
	__le32 recv_cq;
	__le32 sq_depth;      /* WQEs, a power of two, or 0 */
	__le32 rq_depth;      /* WQEs, a power of two, or 0 */
	__u8 sq_stride_shift; /* log2 of bytes per WQE: see queue.h */
	__u8 rq_stride_shift;
	__u8 qp_type;	   /* enum ib_qp_type: RC 2, UC 3, UD 4, XRC_SEND 9, XRC_RECV 10; GSI 1 */
	__u8 flags;	   /* VRDMA_QP_* */
	__le32 max_inline; /* bytes */
	__le16 max_send_sge;
	__le16 max_recv_sge; /* 0 with an SRQ, as is rq_depth */
	__le32 srq;	     /* it takes this SRQ's WQEs; or 0 */
	__le32 xrcd;	     /* of XRC_RECV, else 0 */
};
#define VRDMA_QP_SQ_SIGNAL_ALL VRDMA_BIT(0)
#define VRDMA_QP_BLOCK_SELF_MULTICAST VRDMA_BIT(1) /* UD: see vrdma_cmd_multicast */

struct vrdma_cmd_modify_qp {
	__le32 qpn;
	__le32 reserved;
	struct vrdma_qp_attr attr;
};

/*
 * A UD QP gets the datagrams that any QP, including itself, sends to QP VRDMA_MULTICAST_QPN of a
 * multicast GID that it is attached to. With VRDMA_QP_BLOCK_SELF_MULTICAST it does not get its own.
 * It cannot be destroyed while it is attached.
 */
struct vrdma_cmd_multicast {
	__le32 qpn;
	__le32 reserved;
	__u8 gid[16];
};
#define VRDMA_MULTICAST_QPN 0xffffff

/*
 * The endport of some devices has several functions, one per program (function_bits of
 * QUERY_DEVICE). They have the same GIDs. Each has its own QPNs, which begin with its number, and a
 * QP1. A message of communication management goes to the function that its remote id begins with. A
 * request for a service goes to the function that listens to that service. All other messages, and
 * a request for a service to which no function listens, go to any function. A function that listens
 * several times must stop as often. EADDRINUSE: another function listens to the service.
 * EOPNOTSUPP: there is only one function.
 */
struct vrdma_cmd_listen {
	__le64 service_id;
};

struct vrdma_cmd_query_counters {
	__le32 first;	    /* first counter of the answer */
	__le32 qpn;	    /* of this QP, or 0 */
	__le32 counter_set; /* of this set, or 0; if QPN is 0, too: of the function */
	__le32 reserved;
};
VRDMA_CHECK_SIZE(struct vrdma_cmd_query_counters, 16);

/* Instead of a set: all that was ever counted in any set. */
#define VRDMA_ALL_COUNTER_SETS 0xffffffffu

/*
 * A counter set counts the events of the QPs that are bound to it, while they are bound. A QP is
 * bound to one set at most. EBUSY: the QP is bound already, or the set to deallocate still has a
 * QP.
 */
struct vrdma_cmd_bind_counter_set {
	__le32 qpn;
	__le32 counter_set; /* 0 unbinds */
};

struct vrdma_cmd_create_ah {
	__le32 pd;
	__le32 reserved;
	struct vrdma_av av;
};

struct vrdma_cmd_set_gid {
	__le32 index;
	__u8 type;   /* VRDMA_GID_* */
	__u8 valid;  /* 0 removes the entry */
	__le16 vlan; /* of the GID, in an 802.1Q tag; 0: none */
	__u8 gid[16];
};
#define VRDMA_MAX_VLAN 4094
#define VRDMA_GID_ROCE_V1 0
#define VRDMA_GID_ROCE_V2 1

struct vrdma_admin_cmd {
	__le32 header; /* VRDMA_ADMIN_PHASE | _OPCODE | _ID, written last */
	__le32 reserved;
	union {
		struct vrdma_cmd_handle handle;
		struct vrdma_cmd_create_eq create_eq;
		struct vrdma_cmd_alloc_pd alloc_pd;
		struct vrdma_cmd_reg_mr reg_mr;
		struct vrdma_cmd_rereg_mr rereg_mr;
		struct vrdma_cmd_alloc_mw alloc_mw;
		struct vrdma_cmd_alloc_mr alloc_mr;
		struct vrdma_cmd_create_cq create_cq;
		struct vrdma_cmd_resize_cq resize_cq;
		struct vrdma_cmd_modify_cq modify_cq;
		struct vrdma_cmd_create_srq create_srq;
		struct vrdma_cmd_modify_srq modify_srq;
		struct vrdma_cmd_resize_srq resize_srq;
		struct vrdma_cmd_create_qp create_qp;
		struct vrdma_cmd_modify_qp modify_qp;
		struct vrdma_cmd_multicast multicast;
		struct vrdma_cmd_listen listen;
		struct vrdma_cmd_query_counters query_counters;
		struct vrdma_cmd_bind_counter_set bind_counter_set;
		struct vrdma_cmd_create_ah create_ah;
		struct vrdma_cmd_set_gid set_gid;
		struct vrdma_cmd_map_pages map_pages;
		struct vrdma_cmd_unmap_pages unmap_pages;
		__u8 bytes[120]; /* the rest is reserved */
	};
};
VRDMA_CHECK_SIZE(struct vrdma_admin_cmd, 128);

/*
 * The time in which a device usually answers a packet, 4.096 us << this (IBA 9.7.6.1.3): 134 ms.
 * Its poller is a thread of the host and may lose its processor.
 */
#define VRDMA_ACK_DELAY 15

/* QUERY_DEVICE: properties that never change while the function is enabled. */
struct vrdma_cpl_query_device {
	__le64 max_mr_size;
	__le64 page_size_cap; /* bit n: blocks of 1 << n bytes */
	__le32 max_ucontext;
	__le32 max_pd;
	__le32 max_mr;
	__le32 max_cq;
	__le32 max_cqe;
	__le32 max_qp;
	__le32 max_qp_wr;
	__le32 max_ah;
	__le32 max_inline;
	__le32 max_eq;
	__le16 max_send_sge;
	__le16 max_recv_sge;
	__le16 gid_table_len;
	__le16 pkey_table_len;
	__u8 max_qp_rd_atomic;
	__u8 max_qp_init_rd_atomic;
	__le16 max_srq_sge;
	__u8 function_bits; /* at most 1 << n functions share the GIDs: see vrdma_cmd_listen */
	__u8 function;	    /* this one's number */
	__u8 reserved[2];
	__u8 node_guid[8];
	__le64 firmware_version; /* vrdmad's version: major << 32 | minor << 16 | patch */
	__le32 max_srq;
	__le32 max_srq_wr;
	__le32 max_mcast_grp;
	__le32 max_mcast_qp_attach;
	__le32 max_total_mcast_qp_attach;
};

#define VRDMA_MAX_PKEYS 32
#define VRDMA_PARTITION VRDMA_MASK(14, 0) /* part of a P_Key; all ones: the default one */
struct vrdma_cpl_query_port {
	__u8 state;	   /* enum ib_port_state */
	__u8 active_mtu;   /* enum ib_mtu */
	__u8 active_speed; /* enum ib_port_speed */
	__u8 active_width; /* enum ib_port_width */
	__le32 max_message_size;
	__le16 pkeys[VRDMA_MAX_PKEYS]; /* pkey_table_len of them; they never change either */
};

struct vrdma_cpl_handle {
	/* The new ucontext, pd, eq, cqn, srqn, ah, xrcd, counter set, or key (lkey = rkey). */
	__le32 handle;
	__le32 reserved;
};

/* The clock of timestamps in CQEs: 64 bits, ns since an arbitrary time. */
struct vrdma_cpl_query_clock {
	__le64 clock;
};
#define VRDMA_CLOCK_KHZ 1000000

struct vrdma_cpl_alloc_ucontext {
	__le32 handle;
	__le32 doorbell_page; /* index into BAR2 */
};

struct vrdma_cpl_create_qp {
	__le32 qpn;
	__le32 doorbell_slot; /* in the doorbell page of the QP's user context: see queue.h */
};

struct vrdma_cpl_query_srq {
	__le32 limit; /* 0: not armed, or not any more */
	__le32 reserved;
};

/*
 * QUERY_COUNTERS: the events of the function since it was enabled, of a QP since it was created, or
 * of the QPs of a counter set. A message counts once at its sender and once at its receiver. The
 * bytes of a READ or an atomic count as sent by the side whose memory was read.
 */
enum vrdma_counter {
	VRDMA_COUNTER_TX_BYTES,
	VRDMA_COUNTER_RX_BYTES,
	VRDMA_COUNTER_TX_MESSAGES,
	VRDMA_COUNTER_RX_MESSAGES,
	VRDMA_COUNTER_DROPPED_MESSAGES, /* datagrams and UC messages without a receive */
	VRDMA_COUNTER_FLUSHED_WQES,
	VRDMA_COUNTER_RNR_NAKS,		/* answers of peers that had no receive */
	VRDMA_COUNTER_ACK_TIMEOUTS,	/* messages that a peer did not answer */
	VRDMA_COUNTER_RETRIES_EXCEEDED, /* WQEs that failed because of ACK timeouts */
	VRDMA_COUNTER_RNR_RETRIES_EXCEEDED,
	VRDMA_COUNTER_REMOTE_ACCESS_ERRORS, /* WQEs that the peer's memory refused */
	VRDMA_COUNTER_REMOTE_OP_ERRORS,	    /* WQEs that the peer could not carry out */
	VRDMA_COUNTER_LOCAL_ERRORS,	    /* WQEs, also receives, with an error of their own */
	VRDMA_COUNTER_REFUSED_REQUESTS,	    /* of peers */
	VRDMA_COUNTER_CQ_OVERRUNS,
	/* Packets between hosts: */
	VRDMA_COUNTER_TX_PACKETS,
	VRDMA_COUNTER_RX_PACKETS,
	VRDMA_COUNTER_RETRANSMITS,	  /* packets sent again */
	VRDMA_COUNTER_EARLY_RETRIES,	  /* an answer took longer than usual */
	VRDMA_COUNTER_DUPLICATE_REQUESTS, /* received again */
	VRDMA_COUNTER_OUT_OF_SEQUENCE,	  /* packets before them are lost or late */
	/* NAKs received, except RNR_NAKS, and NAKs sent: */
	VRDMA_COUNTER_SEQUENCE_NAKS,
	VRDMA_COUNTER_IMPLIED_NAKS,	       /* a response shows that one before it was lost */
	VRDMA_COUNTER_REMOTE_INVALID_REQUESTS, /* WQEs that the peer found wrong */
	VRDMA_COUNTER_SENT_SEQUENCE_NAKS,
	VRDMA_COUNTER_SENT_RNR_NAKS,
	VRDMA_COUNTER_SENT_ACCESS_NAKS,
	VRDMA_COUNTER_SENT_OP_NAKS,
	VRDMA_COUNTER_SENT_INVALID_NAKS,
	/* Packets received and dropped; the first two kinds before their QPN was trusted: */
	VRDMA_COUNTER_BAD_ICRCS,
	VRDMA_COUNTER_MALFORMED_PACKETS,
	VRDMA_COUNTER_BAD_PKEYS,     /* also on this host, once per lookup of a connection's peer */
	VRDMA_COUNTER_WRONG_SOURCES, /* not from the QP's peer, or with our own address */
	VRDMA_COUNTER_UNKNOWN_QPS,
	VRDMA_COUNTER_WRONG_STATES, /* the QP has another type, or its state takes no such packet */
	VRDMA_COUNTER_BAD_QKEYS,
	VRDMA_COUNTER_STALE_RESPONSES, /* no request waits for them any more */
	/* Congestion: packets that a router has marked, and notifications sent and received: */
	VRDMA_COUNTER_MARKED_PACKETS,
	VRDMA_COUNTER_SENT_NOTICES,
	VRDMA_COUNTER_HEEDED_NOTICES,
	VRDMA_NUM_COUNTERS,
};

struct vrdma_counters {
	__le64 value[VRDMA_NUM_COUNTERS];
};

#define VRDMA_COUNTERS_PER_REPLY 15
struct vrdma_cpl_query_counters {
	__le64 value[VRDMA_COUNTERS_PER_REPLY]; /* 0 beyond the last counter */
};
VRDMA_CHECK_SIZE(struct vrdma_cpl_query_counters, 120);

/* status is 0 or a positive Linux errno; if it is not 0, all other fields are zero. */
struct vrdma_admin_cpl {
	__le32 header; /* VRDMA_ADMIN_PHASE | _OPCODE | _ID of the command, written last */
	__le32 status;
	union {
		struct vrdma_cpl_query_device query_device;
		struct vrdma_cpl_query_port query_port;
		struct vrdma_cpl_handle handle;
		struct vrdma_cpl_alloc_ucontext alloc_ucontext;
		struct vrdma_cpl_query_clock query_clock;
		struct vrdma_cpl_create_qp create_qp;
		struct vrdma_cpl_query_srq query_srq;
		struct vrdma_cpl_query_counters query_counters;
		struct vrdma_qp_attr query_qp;
		__u8 bytes[120];
	};
};
VRDMA_CHECK_SIZE(struct vrdma_admin_cpl, 128);

/*
 * The device sends IB_EVENT_PORT_ERR and IB_EVENT_PORT_ACTIVE when its connection to its network
 * goes down and comes up (see vrdma_cpl_query_port). For a new async event queue, it starts as up.
 */
#define VRDMA_PORT 1 /* the only one */
struct vrdma_eq_control {
	__le32 consumer; /* guest writes: free-running count of entries taken */
	__le32 reserved[31];
};
VRDMA_CHECK_SIZE(struct vrdma_eq_control, 128);

struct vrdma_eqe {
	__le32 header; /* VRDMA_EQE_*, written last */
	__le32 id;     /* cqn, qpn, srqn, key or port number */
	__le64 detail; /* VRDMA_EQE_PAGE_FAULT: VRDMA_FAULT_*; else 0 */
};
VRDMA_CHECK_SIZE(struct vrdma_eqe, 16);
#define VRDMA_EQE_PHASE VRDMA_BIT(31)
#define VRDMA_EQE_INTERRUPT VRDMA_BIT(30) /* the vector is raised for it and those behind */
#define VRDMA_EQE_TYPE VRDMA_MASK(7, 0)
#define VRDMA_EQE_COMPLETION 0x80 /* id: the CQ; lower types are those of enum ib_event_type */
#define VRDMA_EQE_PAGE_FAULT 0x81 /* id: the region's key */
#define VRDMA_EQ_MAX_DEPTH 65536

/* Pages for a message: the first is needed for certain, those that follow probably. */
#define VRDMA_FAULT_PAGE 0x000fffffffffffffull
#define VRDMA_FAULT_COUNT 0x7ff0000000000000ull
#define VRDMA_FAULT_WRITE 0x8000000000000000ull
#define VRDMA_FAULT_MAX_PAGES VRDMA_GET(VRDMA_FAULT_COUNT, VRDMA_FAULT_COUNT)

static inline __u64 vrdma_fault(__u64 first, __u64 count, int write)
{
	return VRDMA_SET(VRDMA_FAULT_PAGE, first) | VRDMA_SET(VRDMA_FAULT_COUNT, count) |
	       (write ? VRDMA_FAULT_WRITE : 0);
}

#endif /* VRDMA_DEVICE_H */
