/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The connection manager (rdma_cm(7)) of a process without a kernel. Layers, each of which knows
 * only those below it:
 *
 *   service             channels and devices, as programs open and close them
 *   ucma                the ABI of /dev/infiniband/rdma_cm, on which librdmacm writes commands
 *   id, send, receive   the state machine of an id: commands and messages make events
 *   resolve             IP addresses and ports
 *   table               ids and channels, and what a channel's reader finds
 *   gsi, mad            messages
 *
 * All is under one lock, which is taken before any of a device's. Functions return 0 or an errno.
 */
#ifndef VRDMA_CM_H
#define VRDMA_CM_H

#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <vrdma/mad.h>

#include "../device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VRDMA_CM_MAX_IDS 16384 /* a power of two */
#define VRDMA_CM_MAX_PORTS 64
#define VRDMA_CM_MAX_BACKLOG 1024
#define VRDMA_CM_MAX_GROUPS 64   /* of an id */
#define VRDMA_CM_QKEY 0x01234567 /* of datagrams, RDMA_UDP_QKEY */
#define VRDMA_CM_PKEY 0xffff

/* What a message costs until it is answered, in powers of two of 4.096 us (IBA 12.7.21). */
#define VRDMA_CM_RESPONSE_TIMEOUT 20 /* 4.3 s; what the peer is told */
#define VRDMA_CM_FIRST_TIMEOUT 15    /* 0.13 s, and then twice that: the peer may just start */
#define VRDMA_CM_MAX_RETRIES 15
#define VRDMA_CM_ACK_TIMEOUT 19

enum vrdma_cm_event_type {
	VRDMA_CM_ADDR_RESOLVED = 0,
	VRDMA_CM_ROUTE_RESOLVED = 2,
	VRDMA_CM_CONNECT_REQUEST = 4,
	VRDMA_CM_CONNECT_RESPONSE = 5,
	VRDMA_CM_UNREACHABLE = 7,
	VRDMA_CM_REJECTED = 8,
	VRDMA_CM_ESTABLISHED = 9,
	VRDMA_CM_DISCONNECTED = 10,
	VRDMA_CM_DEVICE_REMOVAL = 11,
	VRDMA_CM_MULTICAST_JOIN = 12,
	VRDMA_CM_TIMEWAIT_EXIT = 15,
};

/* IPv4 or IPv6, as sa.sa_family says. */
union vrdma_cm_address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* A device, and how messages get to its peers. */
struct vrdma_cm_port {
	struct vrdma_gids gids;
	uint8_t guid[8];
	uint8_t mtu;         /* enum ibv_mtu */
	uint16_t pkey_index; /* of connections: that of the default partition */
	uint64_t deadline;   /* of the first of its ids that waits, in ms; or 0 */
	/* Of several functions with these GIDs (struct vrdma_cmd_listen); other programs have them.
	 */
	uint8_t function_bits, function;
	/* Messages come from now on. */
	int (*start)(struct vrdma_cm_port *port);
	/* Requests for the service are this function's, or are no longer. */
	int (*listen)(struct vrdma_cm_port *port, uint64_t service_id);
	void (*unlisten)(struct vrdma_cm_port *port, uint64_t service_id);
	void (*send)(struct vrdma_cm_port *port, const struct vrdma_av *to,
		     const struct vrdma_mad *mad);
	/* The deadline is another. */
	void (*wake)(struct vrdma_cm_port *port);
};

struct vrdma_cm_event {
	struct vrdma_cm_event *next;
	struct vrdma_cm_id *id;       /* whose event it is */
	struct vrdma_cm_id *request;  /* of CONNECT_REQUEST: the new id */
	struct vrdma_cm_group *group; /* of MULTICAST_JOIN */
	struct rdma_ucm_event_resp resp;
};

/*
 * What a program has open: its file is a socket, which is readable while there are events, and has
 * a cookie that tells it from what is opened later by the same number.
 */
struct vrdma_cm_channel {
	struct vrdma_cm_channel *next;
	int fd;
	uint64_t cookie;
	struct vrdma_cm_event *first, **last;
};

/* A multicast group that an id has joined. */
struct vrdma_cm_group {
	struct vrdma_cm_group *next;
	struct vrdma_cm_id *id;
	uint32_t handle;
	uint64_t uid;
	uint32_t events_reported;
};

enum vrdma_cm_state {
	VRDMA_CM_IDLE,
	VRDMA_CM_BOUND,
	VRDMA_CM_LISTEN,
	VRDMA_CM_ADDR, /* resolved */
	VRDMA_CM_ROUTE,
	VRDMA_CM_REQ_SENT,
	VRDMA_CM_REP_RCVD,
	VRDMA_CM_REQ_RCVD,
	VRDMA_CM_REP_SENT,
	VRDMA_CM_CONNECTED,
	VRDMA_CM_DREQ_SENT,
	VRDMA_CM_TIMEWAIT,
	VRDMA_CM_SIDR_SENT,
	VRDMA_CM_SIDR_RCVD,
	VRDMA_CM_OVER, /* rejected, given up, or a datagram service that is resolved */
};

struct vrdma_cm_id {
	uint32_t handle;  /* by which the program knows it */
	uint32_t comm_id; /* by which the peer does */
	uint64_t uid;     /* 0: the program does not know it yet, and is told no events */
	struct vrdma_cm_channel *channel;
	uint32_t events_reported;
	uint16_t port_space; /* enum rdma_ucm_port_space: RDMA_PS_TCP or RDMA_PS_UDP */
	bool bound;          /* the program's own choice of source, which excludes others' */
	bool reserved;       /* with the devices, which excludes other programs' */
	bool reuse;
	bool afonly;
	uint8_t tos;
	uint8_t ack_timeout; /* as the program wants it, or 0 */
	enum vrdma_cm_state state;

	union vrdma_cm_address source, destination;
	struct vrdma_cm_port *port; /* NULL: none yet, or all */

	struct vrdma_cm_group *groups;

	/* Of one that listens. */
	uint32_t backlog;
	uint32_t waiting; /* requests that the program has not read */

	/* Of a connection, and as far as they apply of a datagram service. */
	struct vrdma_av peer;
	uint64_t tid;
	uint32_t remote_id;
	uint32_t qpn, remote_qpn;
	uint32_t psn, remote_psn; /* where the other begins to send; where we do */
	uint8_t mtu;
	uint8_t timeout; /* of the QP: 4.096 us << n */
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry_count;
	struct rdma_ucm_ece ece; /* the program's */

	/* The message that waits for an answer, or what else the deadline is for. */
	struct vrdma_mad mad;
	uint64_t deadline; /* in ms; 0: none */
	uint8_t wait;      /* VRDMA_CM_TIMEOUT */
	uint8_t tries;     /* that are left */
};

extern pthread_mutex_t vrdma_cm_lock;

static inline bool vrdma_cm_is_datagram(const struct vrdma_cm_id *id)
{
	return id->port_space == RDMA_PS_UDP;
}

uint64_t vrdma_cm_now(void); /* in ms */

/* mad.c */
void vrdma_mad_init(struct vrdma_mad *mad, enum vrdma_cm_attribute attribute, uint64_t tid);

/* table.c */
struct vrdma_cm_id *vrdma_cm_id_new(struct vrdma_cm_channel *channel, uint16_t port_space);
void vrdma_cm_id_free(struct vrdma_cm_id *id);
/* The ids from *handle on, in turn; NULL at the end. */
struct vrdma_cm_id *vrdma_cm_id_next(uint32_t *handle);
struct vrdma_cm_id *vrdma_cm_id_find(uint32_t handle, const struct vrdma_cm_channel *channel);
struct vrdma_cm_id *vrdma_cm_id_by_comm_id(uint32_t comm_id);
/* With a file below max_fds. NULL and errno. */
struct vrdma_cm_channel *vrdma_cm_channel_new(int max_fds);
void vrdma_cm_channel_free(struct vrdma_cm_channel *channel);
/* By its file. */
struct vrdma_cm_channel *vrdma_cm_channel_find(int fd);
/* The kernel gives each socket one of its own; 0: no socket. */
uint64_t vrdma_cm_cookie(int fd);
struct vrdma_cm_channel *vrdma_cm_channel_first(void);
/* An event of id, in which there is more to say; NULL if nobody is to be told. */
struct vrdma_cm_event *vrdma_cm_event_add(struct vrdma_cm_id *id, enum vrdma_cm_event_type type,
					  int status);
struct vrdma_cm_event *vrdma_cm_event_take(struct vrdma_cm_channel *channel);
/* The next one of the id, or of its group alone, for it to go; or NULL. */
struct vrdma_cm_event *vrdma_cm_event_strike_out(struct vrdma_cm_id *id,
						 const struct vrdma_cm_group *group);
void vrdma_cm_id_move(struct vrdma_cm_id *id, struct vrdma_cm_channel *channel);
void vrdma_cm_table_forget(void);

/* resolve.c */
bool vrdma_cm_add_port(struct vrdma_cm_port *port);
void vrdma_cm_remove_port(struct vrdma_cm_port *port);
struct vrdma_cm_port *vrdma_cm_port_at(unsigned int index); /* NULL after the last */
bool vrdma_cm_is_ip(const union vrdma_cm_address *address);
bool vrdma_cm_is_any(const union vrdma_cm_address *address);
void vrdma_cm_to_gid(const union vrdma_cm_address *address, union ibv_gid *gid);
int vrdma_cm_bind(struct vrdma_cm_id *id, const union vrdma_cm_address *address);
/* Its port with the devices that it is bound to, which it may have already. */
int vrdma_cm_reserve(struct vrdma_cm_id *id);
void vrdma_cm_release(struct vrdma_cm_id *id);
int vrdma_cm_resolve(struct vrdma_cm_id *id, const union vrdma_cm_address *source,
		     const union vrdma_cm_address *destination);
int vrdma_cm_source_index(const struct vrdma_cm_id *id); /* its GID's, or -1; of one with a port */
uint64_t vrdma_cm_service_id(const struct vrdma_cm_id *id, const union vrdma_cm_address *address);
/* What the private data of a request tell of both ends, on both of them. */
void vrdma_cm_write_ip(const struct vrdma_cm_id *id, struct vrdma_cm_ip *ip);
bool vrdma_cm_read_ip(const struct vrdma_cm_ip *ip, uint64_t service_id,
		      union vrdma_cm_address *local, union vrdma_cm_address *remote);
struct vrdma_cm_id *vrdma_cm_find_listener(const struct vrdma_cm_port *port, uint64_t service_id,
					   const union vrdma_cm_address *address);

/* id.c */
int vrdma_cm_resolve_route(struct vrdma_cm_id *id);
int vrdma_cm_listen(struct vrdma_cm_id *id, uint32_t backlog);
int vrdma_cm_connect(struct vrdma_cm_id *id, const struct rdma_ucm_conn_param *param);
int vrdma_cm_accept(struct vrdma_cm_id *id, const struct rdma_ucm_conn_param *param);
int vrdma_cm_reject(struct vrdma_cm_id *id, const void *data, uint8_t length,
		    enum vrdma_cm_reason reason);
int vrdma_cm_disconnect(struct vrdma_cm_id *id);
void vrdma_cm_established(struct vrdma_cm_id *id); /* the QP has received something */
/* Returns how many events the program was told of. */
uint32_t vrdma_cm_destroy(struct vrdma_cm_id *id);
void vrdma_cm_port_gone(struct vrdma_cm_port *port);
void vrdma_cm_expire(struct vrdma_cm_port *port, uint64_t now);

/* receive.c */
void vrdma_cm_received(struct vrdma_cm_port *port, const struct vrdma_av *sender,
		       const struct vrdma_mad *mad);

/* multicast.c */
int vrdma_cm_join(struct vrdma_cm_id *id, const union vrdma_cm_address *address, uint64_t uid,
		  uint32_t *handle);
int vrdma_cm_leave(const struct vrdma_cm_channel *channel, uint32_t handle, uint32_t *reported);
void vrdma_cm_leave_all(struct vrdma_cm_id *id);

/* attr.c: what a QP of the id needs for the state. */
int vrdma_cm_qp_attr(const struct vrdma_cm_id *id, uint32_t state, struct ib_uverbs_qp_attr *attr);
void vrdma_cm_ah_attr(const struct vrdma_cm_id *id, struct ib_uverbs_ah_attr *attr);

/* ucma.c: a command. Returns 0 or an errno; EAGAIN: there is no event. */
int vrdma_cm_command(struct vrdma_cm_channel *channel, const void *command, size_t length);

/*
 * service.c: for the event thread of a device. Looks for messages and at the clock; returns for how
 * many ms there will be nothing to do, -1 for good.
 */
int vrdma_cm_run(struct vrdma_dev *dev);
void vrdma_cm_device_failed(struct vrdma_dev *dev);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_CM_H */
