/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Messages of peers. A message for an id is accepted if it comes from the GID that the id is
 * connected to, and names the ids of both ends. A message that names no id of ours is refused if it
 * requires an answer.
 */
#include <errno.h>
#include <string.h>

#include "connection.h"

#define MAX_SERVICE_TIMEOUT 26 /* 275 s: the most time that a peer gets for its answer */

static bool is_peer(const struct vrdma_cm_id *id, const struct vrdma_cm_port *port,
		    const struct vrdma_av *sender)
{
	return id->port == port && memcmp(id->peer.dgid, sender->dgid, sizeof(sender->dgid)) == 0;
}

/* The id that a message names. */
static struct vrdma_cm_id *find(struct vrdma_cm_port *port, const struct vrdma_av *sender,
				__be32 comm_id)
{
	struct vrdma_cm_id *id = vrdma_cm_id_by_comm_id(be32toh(comm_id));

	return id && is_peer(id, port, sender) ? id : NULL;
}

/* The id that a request with this comm id of the peer created, unless that id is over. */
static struct vrdma_cm_id *find_by_remote_id(struct vrdma_cm_port *port,
					     const struct vrdma_av *sender, __be32 remote_id)
{
	struct vrdma_cm_id *id;
	uint32_t handle = 0;

	while ((id = vrdma_cm_id_next(&handle))) {
		const bool asked = id->state == VRDMA_CM_REQ_RCVD ||
				   id->state == VRDMA_CM_REP_SENT ||
				   id->state == VRDMA_CM_CONNECTED ||
				   id->state == VRDMA_CM_TIMEWAIT ||
				   id->state == VRDMA_CM_SIDR_RCVD;

		if (asked && id->remote_id == be32toh(remote_id) && is_peer(id, port, sender))
			return id;
	}
	return NULL;
}

/* Adds a request's id, and the event that reports it to the listener. NULL: there is no room. */
static struct vrdma_cm_event *add_request(struct vrdma_cm_id *listener, struct vrdma_cm_port *port,
					  const struct vrdma_av *sender,
					  const struct vrdma_mad *mad)
{
	struct vrdma_cm_event *event;
	struct vrdma_cm_id *id;

	if (listener->waiting >= listener->backlog)
		return NULL;
	id = vrdma_cm_id_new(listener->channel, listener->port_space);
	if (!id)
		return NULL;
	event = vrdma_cm_event_add(listener, VRDMA_CM_CONNECT_REQUEST, 0);
	if (!event) {
		vrdma_cm_id_free(id);
		return NULL;
	}
	id->port = port;
	vrdma_cm_set_random(id);
	id->peer = *sender;
	id->tid = be64toh(mad->header.tid);
	id->remote_id = be32toh(mad->ids.local_id);
	event->request = id;
	event->resp.id = id->handle;
	listener->waiting++;
	return event;
}

/* Finds the listener of a request. NULL: the caller refuses the request. */
static struct vrdma_cm_id *find_requested(struct vrdma_cm_port *port, uint64_t service_id,
					  uint16_t port_space, const uint8_t *data,
					  union vrdma_cm_address *local,
					  union vrdma_cm_address *remote)
{
	struct vrdma_cm_ip ip;

	memcpy(&ip, data, sizeof(ip));
	if (service_id >> 16 != port_space || !vrdma_cm_read_ip(&ip, service_id, local, remote))
		return NULL;
	return vrdma_cm_find_listener(port, service_id, local);
}

static void on_new_req(struct vrdma_cm_id *listener, struct vrdma_cm_port *port,
		       const struct vrdma_av *sender, const struct vrdma_mad *mad,
		       const union vrdma_cm_address *local, const union vrdma_cm_address *remote)
{
	const struct vrdma_cm_req *req = &mad->req;
	struct vrdma_cm_event *event = add_request(listener, port, sender, mad);
	struct rdma_ucm_conn_param *param;
	struct vrdma_cm_id *id;

	if (!event) /* the peer will retransmit its request */
		return;
	id = event->request;
	id->state = VRDMA_CM_REQ_RCVD;
	id->source = *local;
	id->destination = *remote;
	id->remote_qpn = vrdma_cm_get_number(req->qpn);
	id->remote_psn = vrdma_cm_get_number(req->psn);
	id->mtu = (uint8_t)VRDMA_GET(VRDMA_CM_REQ_MTU, req->mtu_rnr);
	id->timeout = (uint8_t)VRDMA_GET(VRDMA_CM_TIMEOUT, req->primary.ack_timeout);
	id->initiator_depth = vrdma_cm_get_byte(req->qpn);
	id->responder_resources = vrdma_cm_get_byte(req->eecn);
	id->retry_count = vrdma_cm_get_byte(req->psn) & VRDMA_CM_REQ_RETRY_COUNT;
	id->rnr_retry_count = req->mtu_rnr & VRDMA_CM_REQ_RNR_RETRY;

	event->resp.ece.vendor_id = be32toh(req->vendor) & VRDMA_CM_VENDOR;
	event->resp.ece.attr_mod = be32toh(mad->header.modifier);
	param = &event->resp.param.conn;
	param->qp_num = id->remote_qpn;
	param->responder_resources = id->responder_resources;
	param->initiator_depth = id->initiator_depth;
	param->flow_control = be32toh(req->options) & VRDMA_CM_REQ_FLOW_CONTROL;
	param->retry_count = id->retry_count;
	param->rnr_retry_count = id->rnr_retry_count;
	param->srq = (req->retries_srq & VRDMA_CM_REQ_SRQ) != 0;
	param->private_data_len = VRDMA_CM_REQ_DATA;
	memcpy(param->private_data, req->private_data + sizeof(struct vrdma_cm_ip),
	       VRDMA_CM_REQ_DATA);
}

static void on_req(struct vrdma_cm_port *port, const struct vrdma_av *sender,
		   const struct vrdma_mad *mad)
{
	const struct vrdma_cm_req *req = &mad->req;
	const unsigned int mtu = VRDMA_GET(VRDMA_CM_REQ_MTU, req->mtu_rnr);
	union vrdma_cm_address local, remote;
	struct vrdma_cm_id *listener;

	if (find_by_remote_id(port, sender, req->local_id)) /* a retransmitted request */
		return;
	listener = find_requested(port, be64toh(req->service_id), RDMA_PS_TCP, req->private_data,
				  &local, &remote);
	if (!listener)
		vrdma_cm_refuse(port, sender, mad, VRDMA_CM_REASON_SERVICE_ID);
	else if (VRDMA_GET(VRDMA_CM_REQ_TRANSPORT, be32toh(req->options)))
		vrdma_cm_refuse(port, sender, mad, VRDMA_CM_REASON_TRANSPORT);
	else if (mtu < IBV_MTU_256 || mtu > IBV_MTU_4096)
		vrdma_cm_refuse(port, sender, mad, VRDMA_CM_REASON_MTU);
	else
		on_new_req(listener, port, sender, mad, &local, &remote);
}

static void on_sidr_req(struct vrdma_cm_port *port, const struct vrdma_av *sender,
			const struct vrdma_mad *mad)
{
	const struct vrdma_cm_sidr_req *req = &mad->sidr_req;
	union vrdma_cm_address local, remote;
	struct vrdma_cm_id *listener;
	struct vrdma_cm_event *event;
	struct vrdma_mad rep;

	if (find_by_remote_id(port, sender, req->request_id))
		return;
	listener = find_requested(port, be64toh(req->service_id), RDMA_PS_UDP, req->private_data,
				  &local, &remote);
	if (!listener) {
		vrdma_mad_init(&rep, VRDMA_CM_SIDR_REP, be64toh(mad->header.tid));
		rep.sidr_rep.request_id = req->request_id;
		rep.sidr_rep.status = VRDMA_CM_SIDR_UNSUPPORTED;
		port->send(port, sender, &rep);
		return;
	}
	event = add_request(listener, port, sender, mad);
	if (!event)
		return;
	event->request->state = VRDMA_CM_SIDR_RCVD;
	event->request->source = local;
	event->request->destination = remote;
	event->resp.param.ud.private_data_len = VRDMA_CM_SIDR_REQ_DATA;
	memcpy(event->resp.param.ud.private_data, req->private_data + sizeof(struct vrdma_cm_ip),
	       VRDMA_CM_SIDR_REQ_DATA);
}

static void on_sidr_rep(struct vrdma_cm_port *port, const struct vrdma_av *sender,
			const struct vrdma_mad *mad)
{
	const struct vrdma_cm_sidr_rep *rep = &mad->sidr_rep;
	struct vrdma_cm_id *id = find(port, sender, rep->request_id);
	const bool found = rep->status == VRDMA_CM_SIDR_SUCCESS;
	struct vrdma_cm_event *event;
	struct rdma_ucm_ud_param *param;

	if (!id || id->state != VRDMA_CM_SIDR_SENT)
		return;
	id->state = VRDMA_CM_OVER;
	id->deadline = 0;
	event = vrdma_cm_event_add(id, found ? VRDMA_CM_ESTABLISHED : VRDMA_CM_UNREACHABLE,
				   rep->status);
	if (!event)
		return;
	param = &event->resp.param.ud;
	param->private_data_len = sizeof(rep->private_data);
	memcpy(param->private_data, rep->private_data, sizeof(rep->private_data));
	if (!found)
		return;
	param->qp_num = vrdma_cm_get_number(rep->qpn);
	param->qkey = be32toh(rep->qkey);
	vrdma_cm_ah_attr(id, &param->ah_attr);
}

static void on_rep(struct vrdma_cm_id *id, const struct vrdma_mad *mad)
{
	const struct vrdma_cm_rep *rep = &mad->rep;
	struct vrdma_cm_event *event;
	struct rdma_ucm_conn_param *param;

	/* The peer retransmits its REP because our RTU was lost. */
	if (id->state == VRDMA_CM_CONNECTED && be16toh(id->mad.header.attribute) == VRDMA_CM_RTU)
		vrdma_cm_send_once(id);
	if (id->state != VRDMA_CM_REQ_SENT)
		return;
	id->state = VRDMA_CM_REP_RCVD;
	id->deadline = 0;
	id->remote_id = be32toh(rep->local_id);
	id->remote_qpn = vrdma_cm_get_number(rep->qpn);
	id->remote_psn = vrdma_cm_get_number(rep->psn);
	id->initiator_depth = rep->responder_resources;
	id->responder_resources = rep->initiator_depth;
	id->rnr_retry_count = (uint8_t)VRDMA_GET(VRDMA_CM_REP_RNR_RETRY, rep->rnr_srq);
	event = vrdma_cm_event_add(id, VRDMA_CM_CONNECT_RESPONSE, 0);
	if (!event)
		return;
	event->resp.ece.vendor_id = (uint32_t)vrdma_cm_get_byte(rep->qpn) << 16 |
				    (uint32_t)vrdma_cm_get_byte(rep->eecn) << 8 |
				    vrdma_cm_get_byte(rep->psn);
	event->resp.ece.attr_mod = be32toh(mad->header.modifier);
	param = &event->resp.param.conn;
	param->qp_num = id->remote_qpn;
	param->responder_resources = id->responder_resources;
	param->initiator_depth = id->initiator_depth;
	param->flow_control = rep->options & VRDMA_CM_REP_FLOW_CONTROL;
	param->rnr_retry_count = id->rnr_retry_count;
	param->srq = (rep->rnr_srq & VRDMA_CM_REP_SRQ) != 0;
	param->private_data_len = sizeof(rep->private_data);
	memcpy(param->private_data, rep->private_data, sizeof(rep->private_data));
}

static void on_rej(struct vrdma_cm_id *id, const struct vrdma_mad *mad)
{
	const struct vrdma_cm_rej *rej = &mad->rej;
	struct vrdma_cm_event *event;

	switch (id->state) {
	case VRDMA_CM_DREQ_SENT:
		vrdma_cm_enter_timewait(id, 0);
		return;
	case VRDMA_CM_REQ_SENT:
	case VRDMA_CM_REP_RCVD:
	case VRDMA_CM_REQ_RCVD:
	case VRDMA_CM_REP_SENT:
		break;
	default:
		return;
	}
	id->state = VRDMA_CM_OVER;
	id->deadline = 0;
	event = vrdma_cm_event_add(id, VRDMA_CM_REJECTED, be16toh(rej->reason));
	if (!event)
		return;
	event->resp.param.conn.private_data_len = sizeof(rej->private_data);
	memcpy(event->resp.param.conn.private_data, rej->private_data, sizeof(rej->private_data));
}

/* The peer asks for more time for its answer. */
static void on_mra(struct vrdma_cm_id *id, const struct vrdma_mad *mad)
{
	uint8_t timeout = (uint8_t)VRDMA_GET(VRDMA_CM_TIMEOUT, mad->mra.timeout);

	if (timeout > MAX_SERVICE_TIMEOUT)
		timeout = MAX_SERVICE_TIMEOUT;
	if (id->state == VRDMA_CM_REQ_SENT || id->state == VRDMA_CM_REP_SENT)
		vrdma_cm_set_deadline(id, vrdma_cm_now() + vrdma_cm_to_ms(timeout) +
						  vrdma_cm_to_ms(id->wait));
}

/* A DREQ is answered even without such an id, or else the peer would retransmit it. */
static void on_dreq(struct vrdma_cm_id *id, struct vrdma_cm_port *port,
		    const struct vrdma_av *sender, const struct vrdma_mad *mad)
{
	if (id && vrdma_cm_get_number(mad->dreq.qpn) != id->qpn)
		return;
	vrdma_cm_send_drep(port, sender, mad);
	if (id && (id->state == VRDMA_CM_CONNECTED || id->state == VRDMA_CM_REP_SENT ||
		   id->state == VRDMA_CM_DREQ_SENT))
		vrdma_cm_enter_timewait(id, 0);
}

/* Handles an RTU or a DREP from the id's peer. */
static void on_connected(struct vrdma_cm_id *id, enum vrdma_cm_attribute attribute)
{
	if (attribute == VRDMA_CM_RTU)
		vrdma_cm_established(id);
	else if (id->state == VRDMA_CM_DREQ_SENT)
		vrdma_cm_enter_timewait(id, 0);
}

static struct vrdma_cm_id *find_named(struct vrdma_cm_port *port, const struct vrdma_av *sender,
				      const struct vrdma_mad *mad)
{
	const uint16_t attribute = be16toh(mad->header.attribute);
	struct vrdma_cm_id *id = find(port, sender, mad->ids.remote_id);

	/* A peer that gives up before it knows our comm id cannot name it. */
	if (attribute == VRDMA_CM_REJ && !mad->ids.remote_id)
		return find_by_remote_id(port, sender, mad->ids.local_id);
	/* A peer that rejects our REQ, or asks for more time, may not have a comm id yet. */
	if (id && id->state != VRDMA_CM_REQ_SENT && id->remote_id != be32toh(mad->ids.local_id))
		return NULL;
	return id;
}

void vrdma_cm_received(struct vrdma_cm_port *port, const struct vrdma_av *sender,
		       const struct vrdma_mad *mad)
{
	const uint16_t attribute = be16toh(mad->header.attribute);
	struct vrdma_cm_id *id;

	if (!vrdma_mad_is_cm(mad))
		return;
	switch (attribute) {
	case VRDMA_CM_REQ:
		on_req(port, sender, mad);
		return;
	case VRDMA_CM_SIDR_REQ:
		on_sidr_req(port, sender, mad);
		return;
	case VRDMA_CM_SIDR_REP:
		on_sidr_rep(port, sender, mad);
		return;
	}
	id = find_named(port, sender, mad);
	if (attribute == VRDMA_CM_DREQ)
		on_dreq(id, port, sender, mad);
	else if (!id && attribute == VRDMA_CM_REP)
		vrdma_cm_refuse(port, sender, mad, VRDMA_CM_REASON_COMM_ID);
	else if (!id)
		return;
	else if (attribute == VRDMA_CM_REP)
		on_rep(id, mad);
	else if (attribute == VRDMA_CM_REJ)
		on_rej(id, mad);
	else if (attribute == VRDMA_CM_MRA)
		on_mra(id, mad);
	else if (attribute == VRDMA_CM_RTU || attribute == VRDMA_CM_DREP)
		on_connected(id, attribute);
}
