/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The commands that librdmacm writes to /dev/infiniband/rdma_cm, version 4 of the ABI. AF_IB and
 * InfiniBand's address resolution are not supported. librdmacm detects that, and does without.
 */
#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"

#define PATH_EXACTLY 2    /* selectors of a path record */
#define PATH_RATE 3       /* 10 Gb/s */
#define PATH_LIFE_TIME 18 /* 1 s */

/* A command that Linux 6.18 has added, and so not each release's header. */
#define CMD_WRITE_CM_EVENT (RDMA_USER_CM_CMD_JOIN_MCAST + 2)
struct write_cm_event {
	__u32 id;
	__u32 reserved;
	__u32 event;
	__u32 status;
	union {
		struct rdma_ucm_conn_param conn;
		struct rdma_ucm_ud_param ud;
		__u64 arg; /* the only one that the kernel passes on */
	} param;
};

/* A command of the program. */
struct command {
	struct vrdma_cm_channel *channel;
	struct vrdma_cm_id *id; /* the id that the command names, or NULL */
	uint16_t out;           /* room for the answer, in bytes */
	union {
		struct rdma_ucm_create_id create;
		struct rdma_ucm_destroy_id destroy;
		struct rdma_ucm_bind_ip bind;
		struct rdma_ucm_resolve_ip resolve;
		struct rdma_ucm_resolve_route route;
		struct rdma_ucm_query query;
		struct rdma_ucm_connect connect;
		struct rdma_ucm_listen listen;
		struct rdma_ucm_accept accept;
		struct rdma_ucm_reject reject;
		struct rdma_ucm_disconnect disconnect;
		struct rdma_ucm_init_qp_attr qp_attr;
		struct rdma_ucm_get_event event;
		struct rdma_ucm_set_option option;
		struct rdma_ucm_notify notify;
		struct rdma_ucm_join_ip_mcast join;
		struct rdma_ucm_migrate_id migrate;
		struct write_cm_event write;
	} in;
};

/* Writes as much of the answer as the program has room for, which must be `least` bytes or more. */
static int respond(const struct command *command, uint64_t address, const void *data, size_t size,
		   size_t least)
{
	if (command->out < least)
		return ENOSPC;
	memcpy((void *)(uintptr_t)address, data, command->out < size ? command->out : size);
	return 0;
}

static union vrdma_cm_address address_of(const struct sockaddr_in6 *in6)
{
	return (union vrdma_cm_address){.in6 = *in6};
}

/* --- One function per command --- */

static int create_id(struct command *command)
{
	const struct rdma_ucm_create_id *in = &command->in.create;
	struct rdma_ucm_create_id_resp resp = {};
	struct vrdma_cm_id *id;
	int ret;

	if (in->ps != RDMA_PS_TCP && in->ps != RDMA_PS_UDP)
		return EPROTONOSUPPORT;
	id = vrdma_cm_id_new(command->channel, in->ps);
	if (!id)
		return ENOMEM;
	id->uid = in->uid;
	resp.id = id->handle;
	ret = respond(command, in->response, &resp, sizeof(resp), sizeof(resp));
	if (ret)
		vrdma_cm_id_free(id);
	return ret;
}

static int destroy_id(struct command *command)
{
	struct rdma_ucm_destroy_id_resp resp = {};

	if (command->out < sizeof(resp))
		return ENOSPC;
	resp.events_reported = vrdma_cm_destroy(command->id);
	return respond(command, command->in.destroy.response, &resp, sizeof(resp), sizeof(resp));
}

static int bind_ip(struct command *command)
{
	const union vrdma_cm_address address = address_of(&command->in.bind.addr);

	return vrdma_cm_bind(command->id, &address);
}

static int resolve_ip(struct command *command)
{
	const union vrdma_cm_address source = address_of(&command->in.resolve.src_addr);
	const union vrdma_cm_address destination = address_of(&command->in.resolve.dst_addr);

	return vrdma_cm_resolve(command->id, &source, &destination);
}

static int resolve_route(struct command *command)
{
	return vrdma_cm_resolve_route(command->id);
}

static void copy_path(const struct vrdma_cm_id *id, struct ib_user_path_rec *path)
{
	union ibv_gid gid;

	vrdma_cm_to_gid(&id->source, &gid);
	memcpy(path->sgid, &gid, sizeof(path->sgid));
	vrdma_cm_to_gid(&id->destination, &gid);
	memcpy(path->dgid, &gid, sizeof(path->dgid));
	path->pkey = htobe16(VRDMA_CM_PKEY);
	path->reversible = 1;
	path->numb_path = 1;
	path->mtu_selector = path->rate_selector = path->packet_life_time_selector = PATH_EXACTLY;
	path->mtu = id->mtu;
	path->rate = PATH_RATE;
	path->packet_life_time = PATH_LIFE_TIME;
	path->hop_limit = id->peer.hop_limit;
	path->traffic_class = id->peer.traffic_class;
}

static int query_route(struct command *command)
{
	const struct vrdma_cm_id *id = command->id;
	struct rdma_ucm_query_route_resp resp = {};

	resp.src_addr = id->source.in6;
	resp.dst_addr = id->destination.in6;
	resp.ibdev_index = UINT32_MAX; /* programs find the device by its GUID */
	if (id->port) {
		memcpy(&resp.node_guid, id->port->guid, sizeof(resp.node_guid));
		resp.port_num = VRDMA_PORT;
		resp.num_paths = id->state >= VRDMA_CM_ROUTE;
		copy_path(id, &resp.ib_route[0]);
	}
	return respond(command, command->in.query.response, &resp, sizeof(resp),
		       offsetof(struct rdma_ucm_query_route_resp, ibdev_index));
}

static int connect_id(struct command *command)
{
	struct rdma_ucm_conn_param *param = &command->in.connect.conn_param;

	if (!param->valid)
		return EINVAL;
	command->id->ece = command->in.connect.ece;
	return vrdma_cm_connect(command->id, param);
}

static int listen_id(struct command *command)
{
	return vrdma_cm_listen(command->id, command->in.listen.backlog);
}

static int accept_id(struct command *command)
{
	const struct rdma_ucm_conn_param *param = &command->in.accept.conn_param;
	int ret;

	command->id->ece = command->in.accept.ece;
	ret = vrdma_cm_accept(command->id, param->valid ? param : NULL);
	if (!ret && param->valid)
		command->id->uid = command->in.accept.uid;
	return ret;
}

static int reject_id(struct command *command)
{
	const struct rdma_ucm_reject *in = &command->in.reject;

	if (in->reason && in->reason != VRDMA_CM_REASON_CONSUMER &&
	    in->reason != VRDMA_CM_REASON_VENDOR_OPTION)
		return EINVAL;
	return vrdma_cm_reject(command->id, in->private_data, in->private_data_len,
			       in->reason ? in->reason : VRDMA_CM_REASON_CONSUMER);
}

static int disconnect_id(struct command *command)
{
	return vrdma_cm_disconnect(command->id);
}

static int init_qp_attr(struct command *command)
{
	struct ib_uverbs_qp_attr resp;
	int ret = vrdma_cm_qp_attr(command->id, command->in.qp_attr.qp_state, &resp);

	if (ret)
		return ret;
	return respond(command, command->in.qp_attr.response, &resp, sizeof(resp), sizeof(resp));
}

static int get_event(struct command *command)
{
	struct vrdma_cm_event *event;
	int ret;

	if (command->out < offsetof(struct rdma_ucm_event_resp, reserved))
		return ENOSPC;
	event = vrdma_cm_event_take(command->channel);
	if (!event)
		return EAGAIN;
	ret = respond(command, command->in.event.response, &event->resp, sizeof(event->resp), 0);
	free(event);
	return ret;
}

static int set_option(struct command *command)
{
	const struct rdma_ucm_set_option *in = &command->in.option;
	struct vrdma_cm_id *id = command->id;
	const bool byte = in->optname == RDMA_OPTION_ID_TOS ||
			  in->optname == RDMA_OPTION_ID_ACK_TIMEOUT;
	int value = 0;

	if (in->level != RDMA_OPTION_ID || in->optname > RDMA_OPTION_ID_ACK_TIMEOUT)
		return ENOSYS;
	if (in->optlen != (byte ? 1 : sizeof(value)))
		return EINVAL;
	memcpy(&value, (const void *)(uintptr_t)in->optval, in->optlen);
	switch (in->optname) {
	case RDMA_OPTION_ID_TOS:
		id->tos = (uint8_t)value;
		break;
	case RDMA_OPTION_ID_REUSEADDR:
		id->reuse = value != 0;
		break;
	case RDMA_OPTION_ID_AFONLY:
		id->afonly = value != 0;
		break;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (value > 31 || vrdma_cm_is_datagram(id))
			return EINVAL;
		id->ack_timeout = (uint8_t)value;
		break;
	}
	return 0;
}

static int notify(struct command *command)
{
	if (command->in.notify.event != IBV_EVENT_COMM_EST)
		return EINVAL;
	vrdma_cm_established(command->id);
	return 0;
}

static int join_group(struct command *command)
{
	const union vrdma_cm_address address = address_of(&command->in.join.addr);
	struct rdma_ucm_create_id_resp resp = {};
	int ret;

	if (command->out < sizeof(resp))
		return ENOSPC;
	ret = vrdma_cm_join(command->id, &address, command->in.join.uid, &resp.id);
	if (ret)
		return ret;
	return respond(command, command->in.join.response, &resp, sizeof(resp), sizeof(resp));
}

static int leave_group(struct command *command)
{
	const struct rdma_ucm_destroy_id *in = &command->in.destroy;
	struct rdma_ucm_destroy_id_resp resp = {};
	int ret;

	if (command->out < sizeof(resp))
		return ENOSPC;
	ret = vrdma_cm_leave(command->channel, in->id, &resp.events_reported);
	if (ret)
		return ret;
	return respond(command, in->response, &resp, sizeof(resp), sizeof(resp));
}

/* Until now, the id belongs to the other channel. */
static int migrate_id(struct command *command)
{
	const struct rdma_ucm_migrate_id *in = &command->in.migrate;
	struct vrdma_cm_channel *from = vrdma_cm_channel_find((int)in->fd);
	struct vrdma_cm_id *id = from ? vrdma_cm_id_find(in->id, from) : NULL;
	struct rdma_ucm_migrate_resp resp = {};

	if (!from)
		return EINVAL;
	if (!id)
		return ENOENT;
	if (command->out < sizeof(resp))
		return ENOSPC;
	vrdma_cm_id_move(id, command->channel);
	resp.events_reported = id->events_reported;
	return respond(command, in->response, &resp, sizeof(resp), sizeof(resp));
}

/* The program writes an event into its own channel, and reads it there after those that wait. */
static int write_event(struct command *command)
{
	const struct write_cm_event *in = &command->in.write;
	struct vrdma_cm_event *event;

	if (in->event != VRDMA_CM_USER && in->event != VRDMA_CM_INTERNAL)
		return EINVAL;
	event = vrdma_cm_event_add(command->id, in->event, (int)in->status);
	if (!event)
		return ENOMEM;
	memcpy(&event->resp.param, &in->param.arg, sizeof(in->param.arg));
	return 0;
}

#define NONE SIZE_MAX
#define COMMAND(type, function, last)                                                              \
	{                                                                                          \
		function, offsetof(type, last) + sizeof(((type *)0)->last), sizeof(type), NONE     \
	}
#define COMMAND_OF_ID(type, function, last)                                                        \
	{                                                                                          \
		function, offsetof(type, last) + sizeof(((type *)0)->last), sizeof(type),          \
			offsetof(type, id)                                                         \
	}

static const struct {
	int (*execute)(struct command *command);
	size_t least; /* bytes that older programs write */
	size_t size;
	size_t id; /* offset of the id's handle, or NONE */
} commands[] = {
	[RDMA_USER_CM_CMD_CREATE_ID] = COMMAND(struct rdma_ucm_create_id, create_id, qp_type),
	[RDMA_USER_CM_CMD_DESTROY_ID] = COMMAND_OF_ID(struct rdma_ucm_destroy_id, destroy_id, id),
	[RDMA_USER_CM_CMD_BIND_IP] = COMMAND_OF_ID(struct rdma_ucm_bind_ip, bind_ip, id),
	[RDMA_USER_CM_CMD_RESOLVE_IP] = COMMAND_OF_ID(struct rdma_ucm_resolve_ip, resolve_ip,
						      timeout_ms),
	[RDMA_USER_CM_CMD_RESOLVE_ROUTE] = COMMAND_OF_ID(struct rdma_ucm_resolve_route,
							 resolve_route, timeout_ms),
	[RDMA_USER_CM_CMD_QUERY_ROUTE] = COMMAND_OF_ID(struct rdma_ucm_query, query_route, id),
	[RDMA_USER_CM_CMD_CONNECT] = COMMAND_OF_ID(struct rdma_ucm_connect, connect_id, reserved),
	[RDMA_USER_CM_CMD_LISTEN] = COMMAND_OF_ID(struct rdma_ucm_listen, listen_id, backlog),
	[RDMA_USER_CM_CMD_ACCEPT] = COMMAND_OF_ID(struct rdma_ucm_accept, accept_id, reserved),
	[RDMA_USER_CM_CMD_REJECT] = COMMAND_OF_ID(struct rdma_ucm_reject, reject_id, private_data),
	[RDMA_USER_CM_CMD_DISCONNECT] = COMMAND_OF_ID(struct rdma_ucm_disconnect, disconnect_id,
						      id),
	[RDMA_USER_CM_CMD_INIT_QP_ATTR] = COMMAND_OF_ID(struct rdma_ucm_init_qp_attr, init_qp_attr,
							qp_state),
	[RDMA_USER_CM_CMD_GET_EVENT] = COMMAND(struct rdma_ucm_get_event, get_event, response),
	[RDMA_USER_CM_CMD_SET_OPTION] = COMMAND_OF_ID(struct rdma_ucm_set_option, set_option,
						      optlen),
	[RDMA_USER_CM_CMD_NOTIFY] = COMMAND_OF_ID(struct rdma_ucm_notify, notify, event),
	[RDMA_USER_CM_CMD_JOIN_IP_MCAST] = COMMAND_OF_ID(struct rdma_ucm_join_ip_mcast, join_group,
							 id),
	[RDMA_USER_CM_CMD_LEAVE_MCAST] = COMMAND(struct rdma_ucm_destroy_id, leave_group, id),
	[RDMA_USER_CM_CMD_MIGRATE_ID] = COMMAND(struct rdma_ucm_migrate_id, migrate_id, fd),
	[CMD_WRITE_CM_EVENT] = COMMAND_OF_ID(struct write_cm_event, write_event, param),
};
#define NUM_COMMANDS (sizeof(commands) / sizeof(commands[0]))

int vrdma_cm_command(struct vrdma_cm_channel *channel, const void *data, size_t length)
{
	struct command command = {.channel = channel};
	struct rdma_ucm_cmd_hdr header;
	uint32_t handle;

	if (length < sizeof(header))
		return EINVAL;
	memcpy(&header, data, sizeof(header));
	if (header.cmd >= NUM_COMMANDS || header.in > length - sizeof(header))
		return EINVAL;
	if (!commands[header.cmd].execute)
		return ENOSYS;
	if (header.in < commands[header.cmd].least)
		return EINVAL;
	command.out = header.out;
	memcpy(&command.in, (const char *)data + sizeof(header),
	       header.in < commands[header.cmd].size ? header.in : commands[header.cmd].size);
	if (commands[header.cmd].id != NONE) {
		memcpy(&handle, (const char *)&command.in + commands[header.cmd].id,
		       sizeof(handle));
		command.id = vrdma_cm_id_find(handle, channel);
		if (!command.id)
			return ENOENT;
	}
	return commands[header.cmd].execute(&command);
}
