/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What two mediators say to each other over a connection of libfabric. All integers are big-endian.
 *
 * The first messages are records of TLS 1.3 (RFC 8446), one stream each way; who connects is the
 * client. Both have certificates, and agree on VRDMA_FABRIC_PROTOCOL (ALPN). Inside of it the
 * client says a hello, then the server, which has found the client's good. TLS ends there, without
 * an alert. Each side has a secret, struct vrdma_fabric_secrets, from TLS's exporter (section 7.5)
 * with VRDMA_FABRIC_EXPORTER and without a context.
 *
 * All messages after that are some frames, one after the other, as RoCE has them on Ethernet,
 * sealed by AES-256-GCM: the ciphertext, then the tag, and no additional data. The nonce is the
 * secret's, of which the last eight bytes are XORed with the number of the message in its
 * direction, from 0 on. Before each message whose number is a multiple of
 * VRDMA_FABRIC_MESSAGES_PER_KEY, but the first, the key is replaced by what it makes of 32 zeros
 * with the number UINT64_MAX.
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
#define VRDMA_FABRIC_TAG_SIZE 16
#define VRDMA_FABRIC_MESSAGES_PER_KEY (1 << 20)

#define VRDMA_FABRIC_PROTOCOL "vrdma-fabric/2"
#define VRDMA_FABRIC_EXPORTER "EXPORTER-vrdma-fabric"
#define VRDMA_FABRIC_NAME_SIZE 64 /* zeros behind the name, one at least */

/* `from` is a DNS name of the sender's certificate (subjectAltName). */
struct vrdma_fabric_hello {
	__u8 from[VRDMA_FABRIC_NAME_SIZE];
	__u8 to[VRDMA_FABRIC_NAME_SIZE];
};
VRDMA_CHECK_SIZE(struct vrdma_fabric_hello, 128);

/* By which a side seals what it sends. */
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
