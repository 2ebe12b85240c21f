/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * VMware's paravirtual RDMA device (PVRDMA), as Linux's driver vmw_pvrdma sees it: identity, BARs,
 * registers, the shared region, and the commands. queue.h has the rings.
 *
 * The device's interface was published in Linux, in drivers/infiniband/hw/vmw_pvrdma. The comments
 * name the file there that has each fact: "api" is pvrdma_dev_api.h, "verbs" is pvrdma_verbs.h,
 * "main" is pvrdma_main.c. Names and layouts here are vrdma's own descriptions of these facts.
 *
 * All words are little-endian. Handles and addresses come from the guest, and are hostile. Fields
 * that the driver leaves uninitialised in its stack are not reserved: the device must not look at
 * them.
 */
#ifndef VRDMA_PVRDMA_DEVICE_H
#define VRDMA_PVRDMA_DEVICE_H

#include "../bits.h"

/* PCI identity (pvrdma.h, main). The driver wants a vmxnet3 at function 0 of the same slot. */
#define PVRDMA_PCI_VENDOR_ID 0x15ad
#define PVRDMA_PCI_DEVICE_ID 0x0820
#define PVRDMA_PCI_REVISION 1
#define PVRDMA_PCI_CLASS 0x028000 /* network controller, other */

/*
 * BARs (api). All are memory. The registers are 32 bits wide. The UAR pages are the doorbells: page
 * 0 is the guest kernel's, and each user context has one of the others.
 */
#define PVRDMA_BAR_MSIX 0
#define PVRDMA_BAR_REGISTERS 1
#define PVRDMA_BAR_UAR 2 /* 64-bit */
#define PVRDMA_BAR_MSIX_SIZE 0x1000
#define PVRDMA_BAR_REGISTERS_SIZE 0x1000
#define PVRDMA_PAGE_SIZE 4096
#define PVRDMA_PAGE_SHIFT 12

/* Interrupt vectors (api). The driver asks for three, and uses no others. */
#define PVRDMA_VECTOR_RESPONSE 0
#define PVRDMA_VECTOR_ASYNC 1
#define PVRDMA_VECTOR_COMPLETION 2
#define PVRDMA_VECTORS 3

/*
 * Registers (api), and how the driver uses them (main, pvrdma_cmd.c):
 *
 * The driver writes SHARED_LOW and then SHARED_HIGH. As soon as the second write is done, the
 * device must have filled in the capabilities (struct pvrdma_shared_region.caps).
 * It writes a command into its slot and then any value to REQUEST, and reads ERROR at once. If that
 * is not 0, the command has failed and has no response. The driver serialises commands, but it does
 * not wait for the end of a command that has no response: the next command is then in the slot.
 */
enum pvrdma_register {
	PVRDMA_REG_VERSION = 0x00,     /* read: PVRDMA_VERSION of the device */
	PVRDMA_REG_SHARED_LOW = 0x04,  /* write: address of the shared region */
	PVRDMA_REG_SHARED_HIGH = 0x08, /* write */
	PVRDMA_REG_CONTROL = 0x0c,     /* write: enum pvrdma_control */
	PVRDMA_REG_REQUEST = 0x10,     /* write: there is a command in the slot */
	PVRDMA_REG_ERROR = 0x14,       /* read: 0, or why the last write of the two above failed */
	PVRDMA_REG_CAUSE = 0x18,       /* read: interrupt causes, of a driver without MSI-X */
	PVRDMA_REG_MASK = 0x1c,	       /* read and write: 1 << vector for each that is masked */
	PVRDMA_REG_MAC_LOW = 0x20,     /* read: bytes 0-3, byte 0 lowest */
	PVRDMA_REG_MAC_HIGH = 0x24,    /* read: bytes 4-5 */
	PVRDMA_REG_END = 0x28,
};

enum pvrdma_control {
	PVRDMA_CONTROL_ACTIVATE = 0,  /* the shared region is complete */
	PVRDMA_CONTROL_UNQUIESCE = 1, /* the paired NIC is up again */
	PVRDMA_CONTROL_RESET = 2,
};

/*
 * Versions (api). Each side tells its own. From QP_HANDLE on, a QP has a handle beside its number,
 * and the response of CREATE_QP has both.
 */
#define PVRDMA_VERSION_ROCE_V1 17
#define PVRDMA_VERSION_ROCE_V2 18
#define PVRDMA_VERSION_UAR64 19
#define PVRDMA_VERSION_QP_HANDLE 20
#define PVRDMA_VERSION PVRDMA_VERSION_QP_HANDLE

/* The capabilities of the device (api, struct pvrdma_device_caps). */
struct pvrdma_caps {
	__le64 firmware_version;
	__u8 node_guid[8];
	__u8 system_image_guid[8];
	__le64 max_mr_size;
	__le64 page_size_cap; /* bit n: pages of 1 << n bytes */
	__le64 atomic_arg_sizes;
	__le32 extended_mask;
	__le32 device_cap_flags2;
	__le32 max_fetch_add_boundary;
	__le32 log_max_atomic_inline;
	__le32 vendor_id;
	__le32 vendor_part_id;
	__le32 hardware_version;
	__le32 max_qp; /* every handle of a QP is below it; at most 65535 */
	__le32 max_qp_wr;
	__le32 device_cap_flags; /* enum ib_device_cap_flags */
	__le32 max_sge;
	__le32 max_sge_rd;
	__le32 max_cq; /* every handle of a CQ is below it */
	__le32 max_cqe;
	__le32 max_mr;
	__le32 max_pd;
	__le32 max_qp_rd_atomic;
	__le32 max_ee_rd_atomic;
	__le32 max_res_rd_atomic;
	__le32 max_qp_init_rd_atomic;
	__le32 max_ee_init_rd_atomic;
	__le32 max_ee;
	__le32 max_rdd;
	__le32 max_mw;
	__le32 max_raw_ipv6_qp;
	__le32 max_raw_ethertype_qp;
	__le32 max_mcast_grp;
	__le32 max_mcast_qp_attach;
	__le32 max_total_mcast_qp_attach;
	__le32 max_ah;
	__le32 max_fmr;
	__le32 max_map_per_fmr;
	__le32 max_srq; /* every handle of an SRQ is below it; 0: no SRQs */
	__le32 max_srq_wr;
	__le32 max_srq_sge;
	__le32 max_uar; /* pages, a power of two */
	__le32 gid_table_len;
	__le16 max_pkeys;
	__u8 ack_delay;
	__u8 ports;
	__u8 mode;	  /* PVRDMA_MODE_ROCE */
	__u8 atomic_ops;  /* PVRDMA_ATOMIC_* */
	__u8 fast_memory; /* PVRDMA_FAST_*: all of them, or no fast registration */
	__u8 gid_types;	  /* one of PVRDMA_GID_*, never both */
	__le32 max_fast_pages;
};
VRDMA_CHECK_SIZE(struct pvrdma_caps, 208);
VRDMA_CHECK_OFFSET(struct pvrdma_caps, max_qp, 76);
VRDMA_CHECK_OFFSET(struct pvrdma_caps, max_pkeys, 196);
#define PVRDMA_MODE_ROCE 0
#define PVRDMA_ATOMIC_COMPARE_SWAP VRDMA_BIT(0)
#define PVRDMA_ATOMIC_FETCH_ADD VRDMA_BIT(1)
#define PVRDMA_FAST_LOCAL_INVALIDATE VRDMA_BIT(0)
#define PVRDMA_FAST_REMOTE_INVALIDATE VRDMA_BIT(1)
#define PVRDMA_FAST_REGISTER VRDMA_BIT(2)
#define PVRDMA_GID_ROCE_V1 VRDMA_BIT(0)
#define PVRDMA_GID_ROCE_V2 VRDMA_BIT(1)
/* Handles of QPs in a CQE are cut to 16 bits (pvrdma_cq.c, and the provider's cq.c). */
#define PVRDMA_MAX_QP 65535

/* A ring for events (api, struct pvrdma_ring_page_info): see queue.h. */
struct pvrdma_event_ring {
	__le32 pages; /* including the first, which has the indices */
	__le32 reserved;
	__le64 directory;
};
VRDMA_CHECK_SIZE(struct pvrdma_event_ring, 16);
#define PVRDMA_MAX_EVENT_PAGES 64 /* as the device allows; Linux has 4 */

/* The shared region (api, struct pvrdma_device_shared_region). The driver writes all but caps. */
struct pvrdma_shared_region {
	__le32 driver_version;
	__le32 reserved;
	__le64 guest_system; /* for people */
	__le64 command_slot;
	__le64 response_slot;
	struct pvrdma_event_ring async_events;
	struct pvrdma_event_ring completion_events;
	__le64 uar_frame; /* number of the page frame of UAR page 0 in the guest's memory map */
	struct pvrdma_caps caps;
};
VRDMA_CHECK_SIZE(struct pvrdma_shared_region, 280);
VRDMA_CHECK_OFFSET(struct pvrdma_shared_region, caps, 72);

/* Commands (api). A response has the command's number with the highest bit set. */
enum pvrdma_command {
	PVRDMA_QUERY_PORT,
	PVRDMA_QUERY_PKEY,
	PVRDMA_CREATE_PD,
	PVRDMA_DESTROY_PD, /* no response */
	PVRDMA_CREATE_MR,
	PVRDMA_DESTROY_MR, /* no response */
	PVRDMA_CREATE_CQ,
	PVRDMA_RESIZE_CQ,  /* Linux's driver has no use for it */
	PVRDMA_DESTROY_CQ, /* no response */
	PVRDMA_CREATE_QP,
	PVRDMA_MODIFY_QP,
	PVRDMA_QUERY_QP,
	PVRDMA_DESTROY_QP, /* no response is read (pvrdma_qp.c) */
	PVRDMA_CREATE_UC,
	PVRDMA_DESTROY_UC,   /* no response */
	PVRDMA_CREATE_BIND,  /* no response */
	PVRDMA_DESTROY_BIND, /* no response */
	PVRDMA_CREATE_SRQ,
	PVRDMA_MODIFY_SRQ, /* no response is read (pvrdma_srq.c) */
	PVRDMA_QUERY_SRQ,
	PVRDMA_DESTROY_SRQ, /* no response is read */
	PVRDMA_COMMANDS,
};
#define PVRDMA_RESPONSE VRDMA_BIT(31)

struct pvrdma_command_header {
	__le64 cookie; /* the response has it, too */
	__le32 command;
	__le32 reserved;
};
VRDMA_CHECK_SIZE(struct pvrdma_command_header, 16);

/*
 * The driver takes a response whose number it did not expect for a failure (pvrdma_cmd.c). It looks
 * at the error of MODIFY_QP alone. So a command that fails is answered with number 0, and MODIFY_QP
 * with its own number and an error.
 */
struct pvrdma_response_header {
	__le64 cookie;
	__le32 response;
	__u8 error; /* errno */
	__u8 reserved[3];
};
VRDMA_CHECK_SIZE(struct pvrdma_response_header, 16);

/* Commands and responses of an object, whose handle is all that they have. */
struct pvrdma_handle {
	__le32 handle;
	__u8 reserved[4];
};

struct pvrdma_query_port {
	__u8 port;
	__u8 pkey_index; /* of QUERY_PKEY */
	__u8 reserved[6];
};

/* (verbs, struct pvrdma_port_attr). Values of enum ib_port_state, ib_mtu and so on. */
struct pvrdma_port {
	__le32 state;
	__le32 max_mtu;
	__le32 active_mtu;
	__le32 gid_table_len;
	__le32 cap_flags; /* PVRDMA_PORT_* */
	__le32 max_message_size;
	__le32 bad_pkeys;
	__le32 bad_qkeys;
	__le16 pkey_table_len;
	__le16 lid;
	__le16 sm_lid;
	__u8 lmc;
	__u8 max_vl;
	__u8 sm_sl;
	__u8 subnet_timeout;
	__u8 init_type_reply;
	__u8 active_width;
	__u8 active_speed;
	__u8 physical_state;
	__u8 reserved[2];
};
VRDMA_CHECK_SIZE(struct pvrdma_port, 48);
#define PVRDMA_PORT_CM VRDMA_BIT(16)
#define PVRDMA_PORT_IP_BASED_GIDS VRDMA_BIT(26)

struct pvrdma_pkey {
	__le16 pkey;
	__u8 reserved[6];
};

struct pvrdma_create_uc {
	__le64 uar_frame; /* 32 bits before PVRDMA_VERSION_UAR64 */
};

/*
 * nchunks counts the pages in the directory. access_flags are those of enum ib_access_flags. A DMA
 * MR has neither a directory nor a length, and a fast MR (PVRDMA_MR_FAST) only a number of pages.
 */
struct pvrdma_create_mr {
	__le64 start;
	__le64 length;
	__le64 directory;
	__le32 pd;
	__le32 access_flags;
	__le32 flags; /* PVRDMA_MR_* */
	__le32 pages;
};
VRDMA_CHECK_SIZE(struct pvrdma_create_mr, 40);
#define PVRDMA_MR_DMA VRDMA_BIT(0)
#define PVRDMA_MR_FAST VRDMA_BIT(1)

struct pvrdma_created_mr {
	__le32 handle;
	__le32 lkey;
	__le32 rkey;
	__u8 reserved[4];
};

struct pvrdma_create_cq {
	__le64 directory;
	__le32 uc; /* 0: the guest's kernel */
	__le32 depth;
	__le32 pages;
	__u8 reserved[4];
};
VRDMA_CHECK_SIZE(struct pvrdma_create_cq, 24);

struct pvrdma_created_cq {
	__le32 handle;
	__le32 depth;
};

/* (verbs, struct pvrdma_srq_attr) */
struct pvrdma_srq_attr {
	__le32 depth;
	__le32 max_sge;
	__le32 limit;
	__le32 reserved;
};

struct pvrdma_create_srq {
	__le64 directory;
	__le32 pd;
	__le32 pages;
	struct pvrdma_srq_attr attr;
	__u8 type; /* 0: not of an XRC domain */
	__u8 reserved[7];
};
VRDMA_CHECK_SIZE(struct pvrdma_create_srq, 40);

struct pvrdma_modify_srq {
	__le32 handle;
	__le32 attr_mask; /* enum ib_srq_attr_mask */
	struct pvrdma_srq_attr attr;
};

/* The directory has the page of the indices, the pages of the SQ, and then those of the RQ. */
struct pvrdma_create_qp {
	__le64 directory;
	__le32 pd;
	__le32 send_cq;
	__le32 recv_cq;
	__le32 srq;
	__le32 sq_depth;
	__le32 rq_depth;
	__le32 max_send_sge;
	__le32 max_recv_sge;
	__le32 max_inline;
	__le32 lkey;
	__le32 access_flags;
	__le16 pages;
	__le16 sq_pages;
	__le16 max_atomic_arg;
	__u8 signal_all;
	__u8 type; /* enum ib_qp_type */
	__u8 has_srq;
	__u8 reserved[3];
};
VRDMA_CHECK_SIZE(struct pvrdma_create_qp, 64);

struct pvrdma_qp_sizes {
	__le32 sq_depth;
	__le32 rq_depth;
	__le32 max_send_sge;
	__le32 max_recv_sge;
	__le32 max_inline;
};

/* The response from PVRDMA_VERSION_QP_HANDLE on. Before, it has no handle. */
struct pvrdma_created_qp {
	__le32 qpn;
	__le32 handle; /* not 0: the provider takes that for a missing handle (qp.c there) */
	struct pvrdma_qp_sizes sizes;
	__le32 reserved;
};
VRDMA_CHECK_SIZE(struct pvrdma_created_qp, 32);

/* (verbs, struct pvrdma_ah_attr) */
struct pvrdma_path {
	__u8 dgid[16];
	__le32 flow_label;
	__u8 sgid_index;
	__u8 hop_limit;
	__u8 traffic_class;
	__u8 reserved0;
	__le16 dlid;
	__le16 vlan;
	__u8 sl;
	__u8 path_bits;
	__u8 static_rate;
	__u8 flags;
	__u8 port;
	__u8 dmac[6];
	__u8 reserved1;
};
VRDMA_CHECK_SIZE(struct pvrdma_path, 40);

/* (verbs, struct pvrdma_qp_attr). Values of enum ib_qp_state, ib_mtu and so on. */
struct pvrdma_qp_attr {
	__le32 state;
	__le32 cur_state;
	__le32 path_mtu;
	__le32 migration_state;
	__le32 qkey;
	__le32 rq_psn;
	__le32 sq_psn;
	__le32 dest_qpn;
	__le32 access_flags;
	__le16 pkey_index;
	__le16 alt_pkey_index;
	__u8 sq_drained_notify;
	__u8 sq_draining;
	__u8 max_rd_atomic;
	__u8 max_dest_rd_atomic;
	__u8 min_rnr_timer;
	__u8 port;
	__u8 timeout;
	__u8 retry_cnt;
	__u8 rnr_retry;
	__u8 alt_port;
	__u8 alt_timeout;
	__u8 reserved0[5];
	struct pvrdma_qp_sizes sizes;
	__le32 reserved1;
	struct pvrdma_path path;
	struct pvrdma_path alt_path;
};
VRDMA_CHECK_SIZE(struct pvrdma_qp_attr, 160);
VRDMA_CHECK_OFFSET(struct pvrdma_qp_attr, sizes, 56);

struct pvrdma_modify_qp {
	__le32 handle;
	__le32 attr_mask; /* enum ib_qp_attr_mask; also of QUERY_QP, which has no attr */
	struct pvrdma_qp_attr attr;
};
VRDMA_CHECK_SIZE(struct pvrdma_modify_qp, 168);

struct pvrdma_create_bind {
	__le32 mtu;
	__le32 vlan; /* PVRDMA_NO_VLAN, or the VLAN of the GID */
	__le32 index;
	__u8 gid[16];
	__u8 gid_type; /* PVRDMA_GID_* */
	__u8 reserved[3];
};
VRDMA_CHECK_SIZE(struct pvrdma_create_bind, 32);
#define PVRDMA_NO_VLAN 0xfff

struct pvrdma_destroy_bind {
	__le32 index;
	__u8 gid[16];
	__u8 reserved[4];
};
VRDMA_CHECK_SIZE(struct pvrdma_destroy_bind, 24);

/* The driver copies all of it into the slot, whatever the command. */
struct pvrdma_request {
	struct pvrdma_command_header header;
	union {
		struct pvrdma_handle handle;
		struct pvrdma_query_port query_port;
		struct pvrdma_create_uc create_uc;
		struct pvrdma_create_mr create_mr;
		struct pvrdma_create_cq create_cq;
		struct pvrdma_create_srq create_srq;
		struct pvrdma_modify_srq modify_srq;
		struct pvrdma_create_qp create_qp;
		struct pvrdma_modify_qp modify_qp;
		struct pvrdma_create_bind create_bind;
		struct pvrdma_destroy_bind destroy_bind;
	};
};
VRDMA_CHECK_SIZE(struct pvrdma_request, 184);

struct pvrdma_response {
	struct pvrdma_response_header header;
	union {
		struct pvrdma_handle handle;
		struct pvrdma_port port;
		struct pvrdma_pkey pkey;
		struct pvrdma_created_mr mr;
		struct pvrdma_created_cq cq;
		struct pvrdma_created_qp qp;
		struct pvrdma_srq_attr srq;
		struct pvrdma_qp_attr qp_attr;
	};
};
VRDMA_CHECK_SIZE(struct pvrdma_response, 176);

#endif /* VRDMA_PVRDMA_DEVICE_H */
