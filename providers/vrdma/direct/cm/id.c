/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The state machine of an id: commands of the program, and deadlines. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "connection.h"

#define PSN_MASK 0xffffff

void vrdma_cm_set_random(struct vrdma_cm_id *id)
{
	const struct vrdma_cm_port *port = id->port;

	/* The device finds the function of an answer by the upper bits of the comm id. */
	if (port->function_bits)
		id->comm_id = (id->comm_id & UINT32_MAX >> port->function_bits) |
			      (uint32_t)port->function << (32 - port->function_bits);
	if (getrandom(&id->tid, sizeof(id->tid), 0) != sizeof(id->tid))
		id->tid = vrdma_cm_now() << 32 | id->comm_id;
	id->psn = (uint32_t)id->tid & PSN_MASK;
}

int vrdma_cm_resolve_route(struct vrdma_cm_id *id)
{
	if (id->state != VRDMA_CM_ADDR)
		return EINVAL;
	id->state = VRDMA_CM_ROUTE;
	id->mtu = id->port->mtu;
	id->timeout = VRDMA_CM_ACK_TIMEOUT;
	vrdma_cm_event_add(id, VRDMA_CM_ROUTE_RESOLVED, 0);
	return 0;
}

/* The id is in state LISTEN before the ports start, so it does not miss the first message. */
int vrdma_cm_listen(struct vrdma_cm_id *id, uint32_t backlog)
{
	const union vrdma_cm_address any = {.sa.sa_family = AF_INET};
	struct vrdma_cm_port *port;
	int ret = id->state == VRDMA_CM_IDLE ? vrdma_cm_bind(id, &any) : 0;

	if (ret)
		return ret;
	if (id->state != VRDMA_CM_BOUND)
		return EINVAL;
	ret = vrdma_cm_reserve(id);
	if (ret)
		return ret;
	id->state = VRDMA_CM_LISTEN;
	id->backlog = backlog && backlog < VRDMA_CM_MAX_BACKLOG ? backlog : VRDMA_CM_MAX_BACKLOG;
	for (unsigned int i = 0; (port = vrdma_cm_port_at(i)) && !ret; i++)
		if (!id->port || id->port == port)
			ret = port->start(port);
	if (ret)
		id->state = VRDMA_CM_BOUND;
	return ret;
}

int vrdma_cm_connect(struct vrdma_cm_id *id, const struct rdma_ucm_conn_param *param)
{
	const bool datagram = vrdma_cm_is_datagram(id);
	int ret;

	if (id->state != VRDMA_CM_ROUTE ||
	    param->private_data_len > (datagram ? VRDMA_CM_SIDR_REQ_DATA : VRDMA_CM_REQ_DATA))
		return EINVAL;
	ret = id->port->start(id->port);
	if (ret)
		return ret;
	vrdma_cm_set_random(id);
	id->qpn = param->qp_num;
	id->responder_resources = param->responder_resources;
	id->initiator_depth = param->initiator_depth;
	id->retry_count = param->retry_count < 7 ? param->retry_count : 7;
	id->rnr_retry_count = param->rnr_retry_count < 7 ? param->rnr_retry_count : 7;
	if (datagram)
		vrdma_cm_send_sidr_req(id, param);
	else
		vrdma_cm_send_req(id, param);
	return 0;
}

/* The active side passes no parameters here: it has already sent them in its REQ. */
int vrdma_cm_accept(struct vrdma_cm_id *id, const struct rdma_ucm_conn_param *param)
{
	if (id->state == VRDMA_CM_REP_RCVD && !param) {
		vrdma_cm_send_rtu(id);
		return 0;
	}
	if (!param)
		return EINVAL;
	id->qpn = param->qp_num;
	if (id->state == VRDMA_CM_SIDR_RCVD) {
		if (param->private_data_len > sizeof(id->mad.sidr_rep.private_data))
			return EINVAL;
		vrdma_cm_send_sidr_rep(id, VRDMA_CM_SIDR_SUCCESS, param->private_data,
				       param->private_data_len);
		return 0;
	}
	if (id->state != VRDMA_CM_REQ_RCVD ||
	    param->private_data_len > sizeof(id->mad.rep.private_data))
		return EINVAL;
	id->responder_resources = param->responder_resources;
	id->initiator_depth = param->initiator_depth;
	vrdma_cm_send_rep(id, param);
	return 0;
}

int vrdma_cm_reject(struct vrdma_cm_id *id, const void *data, uint8_t length,
		    enum vrdma_cm_reason reason)
{
	switch (id->state) {
	case VRDMA_CM_SIDR_RCVD:
		if (length > sizeof(id->mad.sidr_rep.private_data))
			return EINVAL;
		vrdma_cm_send_sidr_rep(id, VRDMA_CM_SIDR_REJECT, data, length);
		return 0;
	case VRDMA_CM_REQ_RCVD:
	case VRDMA_CM_REP_RCVD:
	case VRDMA_CM_REP_SENT:
		if (length > sizeof(id->mad.rej.private_data))
			return EINVAL;
		vrdma_cm_send_rej(id, reason, data, length);
		return 0;
	default:
		return EINVAL;
	}
}

/* Also succeeds if the connection has ended: both ends may disconnect at the same time. */
int vrdma_cm_disconnect(struct vrdma_cm_id *id)
{
	if (id->state < VRDMA_CM_REQ_SENT || vrdma_cm_is_datagram(id))
		return EINVAL;
	if (id->state == VRDMA_CM_CONNECTED || id->state == VRDMA_CM_REP_SENT)
		vrdma_cm_send_dreq(id);
	return 0;
}

void vrdma_cm_established(struct vrdma_cm_id *id)
{
	if (id->state != VRDMA_CM_REP_SENT)
		return;
	id->state = VRDMA_CM_CONNECTED;
	id->deadline = 0;
	vrdma_cm_event_add(id, VRDMA_CM_ESTABLISHED, 0);
}

/* Tells the peer once that the id ends. */
static void take_leave(struct vrdma_cm_id *id)
{
	switch (id->state) {
	case VRDMA_CM_REQ_SENT:
	case VRDMA_CM_REP_SENT:
		vrdma_cm_send_rej(id, VRDMA_CM_REASON_TIMEOUT, NULL, 0);
		break;
	case VRDMA_CM_REQ_RCVD:
	case VRDMA_CM_REP_RCVD:
		vrdma_cm_send_rej(id, VRDMA_CM_REASON_CONSUMER, NULL, 0);
		break;
	case VRDMA_CM_SIDR_RCVD:
		vrdma_cm_send_sidr_rep(id, VRDMA_CM_SIDR_REJECT, NULL, 0);
		break;
	case VRDMA_CM_CONNECTED:
		vrdma_cm_send_dreq(id);
		break;
	default:
		break;
	}
}

uint32_t vrdma_cm_destroy(struct vrdma_cm_id *id)
{
	uint32_t reported = id->events_reported;
	struct vrdma_cm_event *event;

	if (id->port)
		take_leave(id);
	vrdma_cm_leave_all(id);
	vrdma_cm_release(id);
	while ((event = vrdma_cm_event_strike_out(id, NULL))) {
		if (event->request) /* this new id has no events of its own yet */
			vrdma_cm_destroy(event->request);
		free(event);
	}
	vrdma_cm_id_free(id);
	return reported;
}

/* --- Device removal and deadlines --- */

static void finish(struct vrdma_cm_id *id, enum vrdma_cm_event_type type, int status)
{
	id->state = VRDMA_CM_OVER;
	id->deadline = 0;
	vrdma_cm_event_add(id, type, status);
}

void vrdma_cm_port_gone(struct vrdma_cm_port *port)
{
	struct vrdma_cm_id *id;
	uint32_t handle = 0;

	while ((id = vrdma_cm_id_next(&handle))) {
		if (id->port != port)
			continue;
		id->port = NULL;
		id->reserved = false;
		finish(id, VRDMA_CM_DEVICE_REMOVAL, 0);
	}
}

void vrdma_cm_enter_timewait(struct vrdma_cm_id *id, int status)
{
	id->state = VRDMA_CM_TIMEWAIT;
	vrdma_cm_event_add(id, VRDMA_CM_DISCONNECTED, status);
	vrdma_cm_set_deadline(id, vrdma_cm_now() + vrdma_cm_to_ms(id->timeout));
}

static void give_up(struct vrdma_cm_id *id)
{
	if (id->state == VRDMA_CM_DREQ_SENT) {
		vrdma_cm_enter_timewait(id, -ETIMEDOUT);
		return;
	}
	take_leave(id);
	finish(id, VRDMA_CM_UNREACHABLE, -ETIMEDOUT);
}

static void expired(struct vrdma_cm_id *id, uint64_t now)
{
	if (id->state == VRDMA_CM_TIMEWAIT) {
		finish(id, VRDMA_CM_TIMEWAIT_EXIT, 0);
		return;
	}
	if (!id->tries) {
		give_up(id);
		return;
	}
	id->tries--;
	if (id->wait < VRDMA_CM_RESPONSE_TIMEOUT)
		id->wait++;
	id->port->send(id->port, &id->peer, &id->mad);
	id->deadline = now + vrdma_cm_to_ms(id->wait);
}

void vrdma_cm_expire(struct vrdma_cm_port *port, uint64_t now)
{
	struct vrdma_cm_id *id;
	uint32_t handle = 0;
	uint64_t first = 0;

	if (!port->deadline || now < port->deadline)
		return;
	while ((id = vrdma_cm_id_next(&handle))) {
		if (id->port != port || !id->deadline)
			continue;
		if (id->deadline <= now)
			expired(id, now);
		if (id->deadline && (!first || id->deadline < first))
			first = id->deadline;
	}
	port->deadline = first;
}
