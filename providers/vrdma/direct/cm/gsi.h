/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * QP1 of a device, by which management datagrams come and go (IBA 9.9.2, 13.5). Like a kernel's it
 * belongs to user context 0, which is the driver's own. Datagrams may be lost either way.
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
	struct vrdma_buffer buffer; /* of what is received */
	uint32_t lkey;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct vrdma_qp *qp;
};

/* One that came in, with the way back to who sent it. */
struct vrdma_gsi_message {
	struct vrdma_av sender;
	struct vrdma_mad mad;
};

/* Returns 0 or an errno. The device tells of what comes by events of its first completion vector.
 */
int vrdma_gsi_start(struct vrdma_gsi *gsi, struct vrdma_dev *dev);
/* What was sent has left before. */
void vrdma_gsi_stop(struct vrdma_gsi *gsi);

void vrdma_gsi_send(struct vrdma_gsi *gsi, const struct vrdma_av *to, const struct vrdma_mad *mad);
/* Before it looks for the last time: the next message makes an event. */
void vrdma_gsi_arm(struct vrdma_gsi *gsi);
bool vrdma_gsi_receive(struct vrdma_gsi *gsi, struct vrdma_gsi_message *message);

/* Where what came with this header (and of this length) was sent from. False if that is nowhere. */
bool vrdma_gsi_sender(const struct vrdma_gids *gids, const uint8_t *grh, struct vrdma_av *sender);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_CM_GSI_H */
