/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The messages of communication management as they are on the wire: IBA 12.6, and for IP addresses
 * annex A11. Fields that share a word have masks; bits that no mask names are reserved. This header
 * is for user space only: the guest kernel has its own.
 */
#ifndef VRDMA_MAD_H
#define VRDMA_MAD_H

#include <assert.h>
#include <endian.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vrdma/device.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VRDMA_MAD_SIZE 256
#define VRDMA_MAD_BASE_VERSION 1
#define VRDMA_MAD_CLASS_CM 7
#define VRDMA_MAD_CM_VERSION 2
#define VRDMA_MAD_SEND 3 /* the one method */

enum vrdma_cm_attribute {
	VRDMA_CM_REQ = 0x10,
	VRDMA_CM_MRA = 0x11,
	VRDMA_CM_REJ = 0x12,
	VRDMA_CM_REP = 0x13,
	VRDMA_CM_RTU = 0x14,
	VRDMA_CM_DREQ = 0x15,
	VRDMA_CM_DREP = 0x16,
	VRDMA_CM_SIDR_REQ = 0x17,
	VRDMA_CM_SIDR_REP = 0x18,
};

struct vrdma_mad_header {
	__u8 base_version;
	__u8 mgmt_class;
	__u8 class_version;
	__u8 method;
	__be16 status;
	__be16 class_specific;
	__be64 tid;
	__be16 attribute;
	__be16 reserved;
	__be32 modifier; /* of REQ and REP: ECE options */
};
static_assert(sizeof(struct vrdma_mad_header) == 24, "IBA 13.4.3");

struct vrdma_cm_path {
	__be16 local_lid;
	__be16 remote_lid;
	__u8 local_gid[16];
	__u8 remote_gid[16];
	__be32 flow_rate; /* VRDMA_CM_PATH_* */
	__u8 traffic_class;
	__u8 hop_limit;
	__u8 sl_local;
	__u8 ack_timeout; /* VRDMA_CM_TIMEOUT */
};
static_assert(sizeof(struct vrdma_cm_path) == 44, "IBA table 106");
#define VRDMA_CM_PATH_FLOW_LABEL VRDMA_MASK(31, 12)
#define VRDMA_CM_PATH_RATE VRDMA_MASK(5, 0)

/* These fields share a word or byte with other fields. */
#define VRDMA_CM_NUMBER VRDMA_MASK(31, 8) /* a QPN or PSN, and below it a byte */
#define VRDMA_CM_BYTE VRDMA_MASK(7, 0)
#define VRDMA_CM_TIMEOUT VRDMA_MASK(7, 3) /* 4.096 us << n */

/*
 * Enhanced connection establishment (ECE): the vendor of the device, and options that devices of
 * one vendor agree on. 0: none.
 */
#define VRDMA_CM_VENDOR VRDMA_MASK(23, 0)

struct vrdma_cm_req {
	__be32 local_id;
	__be32 vendor; /* VRDMA_CM_VENDOR */
	__be64 service_id;
	__u8 ca_guid[8];
	__be32 reserved;
	__be32 qkey;
	__be32 qpn;	/* VRDMA_CM_NUMBER; responder resources */
	__be32 eecn;	/* of RD; initiator depth */
	__be32 options; /* VRDMA_CM_REQ_REMOTE_TIMEOUT, _TRANSPORT, _FLOW_CONTROL */
	__be32 psn;	/* VRDMA_CM_NUMBER, VRDMA_CM_REQ_LOCAL_TIMEOUT, _RETRY_COUNT */
	__be16 pkey;
	__u8 mtu_rnr;	  /* VRDMA_CM_REQ_MTU, _RNR_RETRY */
	__u8 retries_srq; /* VRDMA_CM_REQ_MAX_RETRIES, _SRQ */
	struct vrdma_cm_path primary;
	struct vrdma_cm_path alternate;
	__u8 private_data[92];
};
#define VRDMA_CM_REQ_REMOTE_TIMEOUT VRDMA_MASK(7, 3)
#define VRDMA_CM_REQ_TRANSPORT VRDMA_MASK(2, 1) /* 0: RC */
#define VRDMA_CM_REQ_FLOW_CONTROL VRDMA_BIT(0)
#define VRDMA_CM_REQ_LOCAL_TIMEOUT VRDMA_MASK(7, 3)
#define VRDMA_CM_REQ_RETRY_COUNT VRDMA_MASK(2, 0)
#define VRDMA_CM_REQ_MTU VRDMA_MASK(7, 4)
#define VRDMA_CM_REQ_RNR_RETRY VRDMA_MASK(2, 0)
#define VRDMA_CM_REQ_MAX_RETRIES VRDMA_MASK(7, 4)
#define VRDMA_CM_REQ_SRQ VRDMA_BIT(3)

/* The bytes below the three numbers hold the vendor of ECE, highest byte first. */
struct vrdma_cm_rep {
	__be32 local_id;
	__be32 remote_id;
	__be32 qkey;
	__be32 qpn; /* VRDMA_CM_NUMBER */
	__be32 eecn;
	__be32 psn; /* VRDMA_CM_NUMBER */
	__u8 responder_resources;
	__u8 initiator_depth;
	__u8 options; /* VRDMA_CM_REP_FLOW_CONTROL */
	__u8 rnr_srq; /* VRDMA_CM_REP_RNR_RETRY, _SRQ */
	__u8 ca_guid[8];
	__u8 private_data[196];
};
#define VRDMA_CM_REP_FLOW_CONTROL VRDMA_BIT(0)
#define VRDMA_CM_REP_RNR_RETRY VRDMA_MASK(7, 5)
#define VRDMA_CM_REP_SRQ VRDMA_BIT(4)

struct vrdma_cm_mra {
	__be32 local_id;
	__be32 remote_id;
	__u8 message;
	__u8 timeout; /* VRDMA_CM_TIMEOUT */
	__u8 private_data[222];
};

struct vrdma_cm_rej {
	__be32 local_id;
	__be32 remote_id;
	__u8 message; /* VRDMA_CM_REJ_MESSAGE */
	__u8 info_length;
	__be16 reason;
	__u8 info[72];
	__u8 private_data[148];
};
#define VRDMA_CM_REJ_MESSAGE VRDMA_MASK(7, 6)

enum vrdma_cm_rejected { VRDMA_CM_REJ_REQ, VRDMA_CM_REJ_REP, VRDMA_CM_REJ_OTHER };
enum vrdma_cm_reason {
	VRDMA_CM_REASON_TIMEOUT = 4,
	VRDMA_CM_REASON_COMM_ID = 6,
	VRDMA_CM_REASON_SERVICE_ID = 8,
	VRDMA_CM_REASON_TRANSPORT = 9,
	VRDMA_CM_REASON_MTU = 26,
	VRDMA_CM_REASON_CONSUMER = 28,
	VRDMA_CM_REASON_VENDOR_OPTION = 35,
};

struct vrdma_cm_rtu { /* and DREP */
	__be32 local_id;
	__be32 remote_id;
	__u8 private_data[224];
};

struct vrdma_cm_dreq {
	__be32 local_id;
	__be32 remote_id;
	__be32 qpn; /* VRDMA_CM_NUMBER: the peer's */
	__u8 private_data[220];
};

struct vrdma_cm_sidr_req {
	__be32 request_id;
	__be16 pkey;
	__be16 reserved;
	__be64 service_id;
	__u8 private_data[216];
};

struct vrdma_cm_sidr_rep {
	__be32 request_id;
	__u8 status; /* enum vrdma_cm_sidr_status */
	__u8 info_length;
	__be16 vendor;
	__be32 qpn; /* VRDMA_CM_NUMBER */
	__u8 service_id[8];
	__be32 qkey;
	__u8 info[72];
	__u8 private_data[136];
};
enum vrdma_cm_sidr_status {
	VRDMA_CM_SIDR_SUCCESS,
	VRDMA_CM_SIDR_UNSUPPORTED,
	VRDMA_CM_SIDR_REJECT,
};

struct vrdma_mad {
	struct vrdma_mad_header header;
	union {
		struct {
			__be32 local_id;
			__be32 remote_id;
		} ids; /* of all but REQ, SIDR_REQ and SIDR_REP */
		struct vrdma_cm_req req;
		struct vrdma_cm_rep rep;
		struct vrdma_cm_mra mra;
		struct vrdma_cm_rej rej;
		struct vrdma_cm_rtu rtu;
		struct vrdma_cm_dreq dreq;
		struct vrdma_cm_sidr_req sidr_req;
		struct vrdma_cm_sidr_rep sidr_rep;
	};
};
#define VRDMA_CM_BODY (VRDMA_MAD_SIZE - sizeof(struct vrdma_mad_header))
static_assert(sizeof(struct vrdma_mad) == VRDMA_MAD_SIZE, "a MAD");
static_assert(sizeof(struct vrdma_cm_req) == VRDMA_CM_BODY, "IBA table 106");
static_assert(offsetof(struct vrdma_cm_req, primary) == 52, "IBA table 106");
static_assert(offsetof(struct vrdma_cm_req, private_data) == 140, "IBA table 106");
static_assert(sizeof(struct vrdma_cm_rep) == VRDMA_CM_BODY, "IBA table 110");
static_assert(offsetof(struct vrdma_cm_rep, private_data) == 36, "IBA table 110");
static_assert(sizeof(struct vrdma_cm_mra) == VRDMA_CM_BODY, "IBA table 107");
static_assert(sizeof(struct vrdma_cm_rej) == VRDMA_CM_BODY, "IBA table 108");
static_assert(offsetof(struct vrdma_cm_rej, private_data) == 84, "IBA table 108");
static_assert(sizeof(struct vrdma_cm_rtu) == VRDMA_CM_BODY, "IBA table 111");
static_assert(sizeof(struct vrdma_cm_dreq) == VRDMA_CM_BODY, "IBA table 112");
static_assert(sizeof(struct vrdma_cm_sidr_req) == VRDMA_CM_BODY, "IBA table 119");
static_assert(sizeof(struct vrdma_cm_sidr_rep) == VRDMA_CM_BODY, "IBA table 120");
static_assert(offsetof(struct vrdma_cm_sidr_rep, private_data) == 96, "IBA table 120");

/* Annex A11: the private data of a REQ or SIDR_REQ begin with this. */
struct vrdma_cm_ip {
	__u8 version;	 /* 0 */
	__u8 ip_version; /* VRDMA_CM_IP_VERSION */
	__be16 port;	 /* of the source */
	__u8 source[16]; /* an IPv4 address is the last four bytes, after zeroes */
	__u8 destination[16];
};
static_assert(sizeof(struct vrdma_cm_ip) == 36, "IBA annex A11");
#define VRDMA_CM_IP_VERSION VRDMA_MASK(7, 4)

#define VRDMA_CM_HOP_LIMIT 64
#define VRDMA_CM_REQ_DATA (92 - sizeof(struct vrdma_cm_ip)) /* the program's part */
#define VRDMA_CM_SIDR_REQ_DATA (216 - sizeof(struct vrdma_cm_ip))

/* Whether the MAD is a message of communication management, of a version that we support. */
static inline bool vrdma_mad_is_cm(const struct vrdma_mad *mad)
{
	const struct vrdma_mad_header *header = &mad->header;

	return header->base_version == VRDMA_MAD_BASE_VERSION &&
	       header->mgmt_class == VRDMA_MAD_CLASS_CM &&
	       header->class_version == VRDMA_MAD_CM_VERSION && header->method == VRDMA_MAD_SEND;
}

/* The number and the byte that share a word. */
static inline __be32 vrdma_cm_number(__u32 number, __u32 low)
{
	return htobe32(VRDMA_SET(VRDMA_CM_NUMBER, number) | VRDMA_SET(VRDMA_CM_BYTE, low));
}

static inline __u32 vrdma_cm_get_number(__be32 word)
{
	return (__u32)VRDMA_GET(VRDMA_CM_NUMBER, be32toh(word));
}

static inline __u8 vrdma_cm_get_byte(__be32 word)
{
	return (__u8)be32toh(word);
}

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_MAD_H */
