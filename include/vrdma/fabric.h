/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What two mediators say to each other over a connection of libfabric: messages, each of which is
 * some frames, one after the other, as RoCE has them on Ethernet. All integers are big-endian.
 *
 * The first three frames of a connection, each in a message of its own, are no packets. Who
 * connects sends a hello, the other one an answer, and who connects a proof. A proof is the
 * HMAC-SHA256 by the key that both share of a struct vrdma_fabric_transcript: who has the key has
 * seen this connection's nonces. Nothing else is sent or looked at before that.
 */
#ifndef VRDMA_FABRIC_H
#define VRDMA_FABRIC_H

#include <linux/types.h>

#include "bits.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Before each frame, and of it the size. A message without any frame says that its sender lives. */
struct vrdma_fabric_frame {
	__be16 size;
	__be16 reserved;
};
VRDMA_CHECK_SIZE(struct vrdma_fabric_frame, 4);

#define VRDMA_FABRIC_MESSAGE_SIZE 65536 /* at most, and at least what a peer receives */

#define VRDMA_FABRIC_MAGIC 0x76726466 /* "vrdf" */
#define VRDMA_FABRIC_VERSION 1
#define VRDMA_FABRIC_NAME_SIZE 64 /* zeros behind the name, one at least */
#define VRDMA_FABRIC_NONCE_SIZE 32
#define VRDMA_FABRIC_PROOF_SIZE 32

struct vrdma_fabric_hello {
	__be32 magic;
	__be32 version;
	__u8 from[VRDMA_FABRIC_NAME_SIZE];
	__u8 to[VRDMA_FABRIC_NAME_SIZE];
	__u8 nonce[VRDMA_FABRIC_NONCE_SIZE];
};
VRDMA_CHECK_SIZE(struct vrdma_fabric_hello, 168);

struct vrdma_fabric_answer {
	__be32 magic;
	__be32 version;
	__u8 nonce[VRDMA_FABRIC_NONCE_SIZE];
	__u8 proof[VRDMA_FABRIC_PROOF_SIZE];
};
VRDMA_CHECK_SIZE(struct vrdma_fabric_answer, 72);

struct vrdma_fabric_proof {
	__u8 proof[VRDMA_FABRIC_PROOF_SIZE];
};
VRDMA_CHECK_SIZE(struct vrdma_fabric_proof, 32);

enum vrdma_fabric_role {
	VRDMA_FABRIC_ANSWERS = 1,
	VRDMA_FABRIC_CONNECTS = 2,
};

/* What a proof proves. */
struct vrdma_fabric_transcript {
	__be32 role; /* the prover's, enum vrdma_fabric_role */
	__be32 version;
	struct vrdma_fabric_hello hello;
	__u8 nonce[VRDMA_FABRIC_NONCE_SIZE]; /* the answer's */
};
VRDMA_CHECK_SIZE(struct vrdma_fabric_transcript, 208);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_FABRIC_H */
