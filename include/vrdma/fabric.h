/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The messages of two mediators over a connection of libfabric. All integers are big-endian.
 *
 * The first messages are records of TLS 1.3 (RFC 8446), one stream in each direction. The side that
 * connects is the TLS client. Both have certificates, and agree on VRDMA_FABRIC_PROTOCOL (ALPN).
 * Within TLS, the client sends its hello. The server checks it and then sends its own. TLS ends
 * there, without an alert. Each side has a secret, struct vrdma_fabric_secrets, from TLS's exporter
 * (section 7.5) with VRDMA_FABRIC_EXPORTER and without a context.
 *
 * Each later message is a sequence of frames, as RoCE has them on Ethernet. The message is sealed
 * by AES-256-GCM: the ciphertext, then the tag, and no additional data. The nonce is the secret's
 * nonce; its last eight bytes are XORed with the number of the message in its direction, which
 * counts from 0. Before each message whose number is a multiple of VRDMA_FABRIC_MESSAGES_PER_KEY,
 * except the first, the old key encrypts 32 zeros with the number UINT64_MAX. The result is the new
 * key.
 */
#ifndef VRDMA_FABRIC_H
#define VRDMA_FABRIC_H

#include <linux/types.h>

#include "bits.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Precedes each frame; size is the frame's. A message without frames is a keepalive. */
struct vrdma_fabric_frame {
	__be16 size;
	__be16 reserved;
};
VRDMA_CHECK_SIZE(struct vrdma_fabric_frame, 4);

#define VRDMA_FABRIC_MESSAGE_SIZE 65536 /* the maximum; each side must be able to receive it */
#define VRDMA_FABRIC_TAG_SIZE 16
#define VRDMA_FABRIC_MESSAGES_PER_KEY (1 << 20)

#define VRDMA_FABRIC_PROTOCOL "vrdma-fabric/2"
#define VRDMA_FABRIC_EXPORTER "EXPORTER-vrdma-fabric"
#define VRDMA_FABRIC_NAME_SIZE 64 /* padded with zeros, at least one */

/* `from` is a DNS name of the sender's certificate (subjectAltName). */
struct vrdma_fabric_hello {
	__u8 from[VRDMA_FABRIC_NAME_SIZE];
	__u8 to[VRDMA_FABRIC_NAME_SIZE];
};
VRDMA_CHECK_SIZE(struct vrdma_fabric_hello, 128);

/* A side seals the messages that it sends with its own secret. */
struct vrdma_fabric_secret {
	__u8 key[32];
	__u8 nonce[12];
};
VRDMA_CHECK_SIZE(struct vrdma_fabric_secret, 44);

struct vrdma_fabric_secrets {
	struct vrdma_fabric_secret client;
	struct vrdma_fabric_secret server;
};
VRDMA_CHECK_SIZE(struct vrdma_fabric_secrets, 88);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_FABRIC_H */
