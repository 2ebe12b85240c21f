/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * QP1 of a device, which sends and receives management datagrams (IBA 9.9.2, 13.5). Like a kernel's
 * QP1 it belongs to user context 0, the driver's own. Datagrams may be lost in both directions.
 *
 * The caller serializes all calls.
 */
#ifndef VRDMA_CM_GSI_H
#define VRDMA_CM_GSI_H

#include <vrdma/mad.h>

#include "../device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vrdma_gsi {
	struct vrdma_context context;
	struct vrdma_buffer buffer; /* for received datagrams */
	uint32_t lkey;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct vrdma_qp *qp;
};

/* A received message, and the address of its sender. */
struct vrdma_gsi_message {
	struct vrdma_av sender;
	struct vrdma_mad mad;
};

/*
 * Returns 0 or an errno. The device reports received datagrams by events of its first completion
 * vector.
 */
int vrdma_gsi_start(struct vrdma_gsi *gsi, struct vrdma_dev *dev);
/* First waits, for a bounded time, until datagrams that were sent have left. */
void vrdma_gsi_stop(struct vrdma_gsi *gsi);

void vrdma_gsi_send(struct vrdma_gsi *gsi, const struct vrdma_av *to, const struct vrdma_mad *mad);
/* To be called before the last vrdma_gsi_receive(): the next message then makes an event. */
void vrdma_gsi_arm(struct vrdma_gsi *gsi);
bool vrdma_gsi_receive(struct vrdma_gsi *gsi, struct vrdma_gsi_message *message);

/* Gets the sender's address from a GRH. False if its IP version or destination GID is unknown. */
bool vrdma_gsi_sender(const struct vrdma_gids *gids, const uint8_t *grh, struct vrdma_av *sender);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_CM_GSI_H */
