/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Sends the messages of an id, and retransmits those that need an answer until it arrives. The last
 * functions answer messages that name no id of ours.
 */
#include <errno.h>
#include <string.h>

#include "connection.h"

#define PACKET_RATE 3 /* 10 Gb/s; peers ignore it */
#define PERMISSIVE_LID 0xffff

/* Converts 4.096 us << timeout to ms, roughly, as Linux does. */
uint64_t vrdma_cm_to_ms(uint8_t timeout)
{
	return timeout > 8 ? 1ull << (timeout - 8) : 1;
}

void vrdma_cm_set_deadline(struct vrdma_cm_id *id, uint64_t deadline)
{
	struct vrdma_cm_port *port = id->port;

	id->deadline = deadline;
	if (!port->deadline || deadline < port->deadline) {
		port->deadline = deadline;
		port->wake(port);
	}
}

void vrdma_cm_send_once(struct vrdma_cm_id *id)
{
	id->deadline = 0;
	id->port->send(id->port, &id->peer, &id->mad);
}

static void send_until_answered(struct vrdma_cm_id *id)
{
	vrdma_cm_send_once(id);
	id->wait = VRDMA_CM_FIRST_TIMEOUT;
	id->tries = VRDMA_CM_MAX_RETRIES;
	vrdma_cm_set_deadline(id, vrdma_cm_now() + vrdma_cm_to_ms(id->wait));
}

/* Begins a message that names the comm ids of both ends. */
static void begin(struct vrdma_cm_id *id, enum vrdma_cm_attribute attribute)
{
	vrdma_mad_init(&id->mad, attribute, id->tid);
	id->mad.ids.local_id = htobe32(id->comm_id);
	id->mad.ids.remote_id = htobe32(id->remote_id);
}

static void format_path(const struct vrdma_cm_id *id, struct vrdma_cm_path *path)
{
	const union ibv_gid *own = &id->port->gids.entries[id->peer.sgid_index];

	path->local_lid = htobe16(PERMISSIVE_LID);
	path->remote_lid = htobe16(PERMISSIVE_LID);
	memcpy(path->local_gid, own->raw, sizeof(path->local_gid));
	memcpy(path->remote_gid, id->peer.dgid, sizeof(path->remote_gid));
	path->flow_rate = htobe32(VRDMA_SET(VRDMA_CM_PATH_RATE, PACKET_RATE));
	path->traffic_class = id->peer.traffic_class;
	path->hop_limit = id->peer.hop_limit;
	path->ack_timeout = (__u8)VRDMA_SET(VRDMA_CM_TIMEOUT, VRDMA_CM_ACK_TIMEOUT);
}

static void format_req(struct vrdma_cm_id *id, const struct rdma_ucm_conn_param *param)
{
	struct vrdma_cm_req *req = &id->mad.req;
	struct vrdma_cm_ip ip;

	vrdma_mad_init(&id->mad, VRDMA_CM_REQ, id->tid);
	id->mad.header.modifier = htobe32(id->ece.attr_mod);
	req->local_id = htobe32(id->comm_id);
	req->vendor = htobe32(id->ece.vendor_id & VRDMA_CM_VENDOR);
	req->service_id = htobe64(vrdma_cm_service_id(id, &id->destination));
	memcpy(req->ca_guid, id->port->guid, sizeof(req->ca_guid));
	req->qpn = vrdma_cm_number(id->qpn, param->responder_resources);
	req->eecn = vrdma_cm_number(0, param->initiator_depth);
	req->options = htobe32(VRDMA_SET(VRDMA_CM_REQ_REMOTE_TIMEOUT, VRDMA_CM_RESPONSE_TIMEOUT) |
			       (param->flow_control ? VRDMA_CM_REQ_FLOW_CONTROL : 0));
	req->psn = vrdma_cm_number(
		id->psn,
		VRDMA_SET(VRDMA_CM_REQ_LOCAL_TIMEOUT, VRDMA_CM_RESPONSE_TIMEOUT) | id->retry_count);
	req->pkey = htobe16(VRDMA_CM_PKEY);
	req->mtu_rnr = (__u8)(VRDMA_SET(VRDMA_CM_REQ_MTU, id->mtu) | id->rnr_retry_count);
	req->retries_srq = (__u8)(VRDMA_SET(VRDMA_CM_REQ_MAX_RETRIES, VRDMA_CM_MAX_RETRIES) |
				  (param->srq ? VRDMA_CM_REQ_SRQ : 0));
	format_path(id, &req->primary);
	vrdma_cm_write_ip(id, &ip);
	memcpy(req->private_data, &ip, sizeof(ip));
	memcpy(req->private_data + sizeof(ip), param->private_data, param->private_data_len);
}

static void format_sidr_req(struct vrdma_cm_id *id, const struct rdma_ucm_conn_param *param)
{
	struct vrdma_cm_sidr_req *req = &id->mad.sidr_req;
	struct vrdma_cm_ip ip;

	vrdma_mad_init(&id->mad, VRDMA_CM_SIDR_REQ, id->tid);
	req->request_id = htobe32(id->comm_id);
	req->pkey = htobe16(VRDMA_CM_PKEY);
	req->service_id = htobe64(vrdma_cm_service_id(id, &id->destination));
	vrdma_cm_write_ip(id, &ip);
	memcpy(req->private_data, &ip, sizeof(ip));
	memcpy(req->private_data + sizeof(ip), param->private_data, param->private_data_len);
}

static void format_rep(struct vrdma_cm_id *id, const struct rdma_ucm_conn_param *param)
{
	struct vrdma_cm_rep *rep = &id->mad.rep;
	const uint8_t rnr_retry = param->rnr_retry_count < 7 ? param->rnr_retry_count : 7;

	begin(id, VRDMA_CM_REP);
	id->mad.header.modifier = htobe32(id->ece.attr_mod);
	rep->qpn = vrdma_cm_number(id->qpn, (uint8_t)(id->ece.vendor_id >> 16));
	rep->eecn = vrdma_cm_number(0, (uint8_t)(id->ece.vendor_id >> 8));
	rep->psn = vrdma_cm_number(id->psn, (uint8_t)id->ece.vendor_id);
	rep->responder_resources = param->responder_resources;
	rep->initiator_depth = param->initiator_depth;
	rep->options = param->flow_control ? VRDMA_CM_REP_FLOW_CONTROL : 0;
	rep->rnr_srq = (__u8)(VRDMA_SET(VRDMA_CM_REP_RNR_RETRY, rnr_retry) |
			      (param->srq ? VRDMA_CM_REP_SRQ : 0));
	memcpy(rep->ca_guid, id->port->guid, sizeof(rep->ca_guid));
	memcpy(rep->private_data, param->private_data, param->private_data_len);
}

void vrdma_cm_send_req(struct vrdma_cm_id *id, const struct rdma_ucm_conn_param *param)
{
	format_req(id, param);
	id->state = VRDMA_CM_REQ_SENT;
	send_until_answered(id);
}

void vrdma_cm_send_sidr_req(struct vrdma_cm_id *id, const struct rdma_ucm_conn_param *param)
{
	format_sidr_req(id, param);
	id->state = VRDMA_CM_SIDR_SENT;
	send_until_answered(id);
}

void vrdma_cm_send_rep(struct vrdma_cm_id *id, const struct rdma_ucm_conn_param *param)
{
	format_rep(id, param);
	id->state = VRDMA_CM_REP_SENT;
	send_until_answered(id);
}

void vrdma_cm_send_rtu(struct vrdma_cm_id *id)
{
	begin(id, VRDMA_CM_RTU);
	id->state = VRDMA_CM_CONNECTED;
	vrdma_cm_send_once(id);
}

void vrdma_cm_send_sidr_rep(struct vrdma_cm_id *id, enum vrdma_cm_sidr_status status,
			    const void *data, size_t length)
{
	const __be64 service_id = htobe64(vrdma_cm_service_id(id, &id->source));
	struct vrdma_cm_sidr_rep *rep = &id->mad.sidr_rep;

	vrdma_mad_init(&id->mad, VRDMA_CM_SIDR_REP, id->tid);
	rep->request_id = htobe32(id->remote_id);
	rep->status = (__u8)status;
	if (status == VRDMA_CM_SIDR_SUCCESS) {
		rep->qpn = vrdma_cm_number(id->qpn, 0);
		rep->qkey = htobe32(VRDMA_CM_QKEY);
	}
	memcpy(rep->service_id, &service_id, sizeof(service_id));
	if (length)
		memcpy(rep->private_data, data, length);
	id->state = VRDMA_CM_OVER;
	vrdma_cm_send_once(id);
}

void vrdma_cm_send_rej(struct vrdma_cm_id *id, enum vrdma_cm_reason reason, const void *data,
		       size_t length)
{
	enum vrdma_cm_rejected message = VRDMA_CM_REJ_OTHER;

	if (id->state == VRDMA_CM_REQ_RCVD)
		message = VRDMA_CM_REJ_REQ;
	else if (id->state == VRDMA_CM_REP_RCVD)
		message = VRDMA_CM_REJ_REP;
	begin(id, VRDMA_CM_REJ);
	id->mad.rej.message = (__u8)VRDMA_SET(VRDMA_CM_REJ_MESSAGE, (unsigned int)message);
	id->mad.rej.reason = htobe16(reason);
	if (length)
		memcpy(id->mad.rej.private_data, data, length);
	id->state = VRDMA_CM_OVER;
	vrdma_cm_send_once(id);
}

void vrdma_cm_send_dreq(struct vrdma_cm_id *id)
{
	begin(id, VRDMA_CM_DREQ);
	id->mad.dreq.qpn = vrdma_cm_number(id->remote_qpn, 0);
	id->state = VRDMA_CM_DREQ_SENT;
	send_until_answered(id);
}

/* Answers a message that names no id of ours. */
static void answer(struct vrdma_cm_port *port, const struct vrdma_av *to,
		   const struct vrdma_mad *message, struct vrdma_mad *mad)
{
	mad->ids.remote_id = message->ids.local_id; /* the first word of all messages */
	port->send(port, to, mad);
}

void vrdma_cm_refuse(struct vrdma_cm_port *port, const struct vrdma_av *to,
		     const struct vrdma_mad *message, enum vrdma_cm_reason reason)
{
	struct vrdma_mad mad;

	vrdma_mad_init(&mad, VRDMA_CM_REJ, be64toh(message->header.tid));
	if (be16toh(message->header.attribute) == VRDMA_CM_REP) {
		/* The comm id by which the peer knows our id, which is gone. */
		mad.ids.local_id = message->ids.remote_id;
		mad.rej.message = (__u8)VRDMA_SET(VRDMA_CM_REJ_MESSAGE, VRDMA_CM_REJ_REP);
	}
	mad.rej.reason = htobe16(reason);
	answer(port, to, message, &mad);
}

void vrdma_cm_send_drep(struct vrdma_cm_port *port, const struct vrdma_av *to,
			const struct vrdma_mad *message)
{
	struct vrdma_mad mad;

	vrdma_mad_init(&mad, VRDMA_CM_DREP, be64toh(message->header.tid));
	mad.ids.local_id = message->ids.remote_id;
	answer(port, to, message, &mad);
}
