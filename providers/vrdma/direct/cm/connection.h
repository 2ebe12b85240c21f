/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Connections (IBA 12.9) and datagram services (12.11): functions that id.c, send.c and receive.c
 * share.
 */
#ifndef VRDMA_CM_CONNECTION_H
#define VRDMA_CM_CONNECTION_H

#include "cm.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * id.c. set_random() chooses the comm id, the transaction id and the first PSN. The id must have a
 * port. enter_timewait() begins the state that follows a connection.
 */
void vrdma_cm_set_random(struct vrdma_cm_id *id);
void vrdma_cm_enter_timewait(struct vrdma_cm_id *id, int status);

/* send.c */
uint64_t vrdma_cm_to_ms(uint8_t timeout);
void vrdma_cm_set_deadline(struct vrdma_cm_id *id, uint64_t deadline);
void vrdma_cm_send_once(struct vrdma_cm_id *id); /* sends id->mad */
/* Each function also sets the id's next state. */
void vrdma_cm_send_req(struct vrdma_cm_id *id, const struct rdma_ucm_conn_param *param);
void vrdma_cm_send_sidr_req(struct vrdma_cm_id *id, const struct rdma_ucm_conn_param *param);
void vrdma_cm_send_rep(struct vrdma_cm_id *id, const struct rdma_ucm_conn_param *param);
void vrdma_cm_send_rtu(struct vrdma_cm_id *id);
void vrdma_cm_send_sidr_rep(struct vrdma_cm_id *id, enum vrdma_cm_sidr_status status,
			    const void *data, size_t length);
void vrdma_cm_send_rej(struct vrdma_cm_id *id, enum vrdma_cm_reason reason, const void *data,
		       size_t length);
void vrdma_cm_send_dreq(struct vrdma_cm_id *id);
/* Answers to messages that name no id of ours. */
void vrdma_cm_refuse(struct vrdma_cm_port *port, const struct vrdma_av *to,
		     const struct vrdma_mad *message, enum vrdma_cm_reason reason);
void vrdma_cm_send_drep(struct vrdma_cm_port *port, const struct vrdma_av *to,
			const struct vrdma_mad *message);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_CM_CONNECTION_H */
