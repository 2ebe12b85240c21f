/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The connection manager (rdma_cm(7)) of a process without a kernel. Layers, each of which calls
 * only itself and those below it:
 *
 *   service             channels and devices, as programs open and close them
 *   ucma                the ABI of /dev/infiniband/rdma_cm, on which librdmacm writes commands
 *   id, send, receive   the state machine of an id: commands and messages make events
 *   multicast           groups of datagram services
 *   attr                what an id's QP needs
 *   resolve             IP addresses and ports
 *   table               ids and channels, and what a channel's reader finds
 *   gsi, mad            messages
 *
 * One lock protects all of this. It is taken before any lock of a device. Functions return 0 or an
 * errno.
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
#define VRDMA_CM_MAX_GROUPS 64   /* per id */
#define VRDMA_CM_QKEY 0x01234567 /* of datagrams, RDMA_UDP_QKEY */
#define VRDMA_CM_PKEY 0xffff

/* Timeouts n are 4.096 us * 2^n: how long a message waits for its answer (IBA 12.7.21). */
#define VRDMA_CM_RESPONSE_TIMEOUT 20 /* 4.3 s; announced to the peer */
#define VRDMA_CM_FIRST_TIMEOUT 15    /* 0.13 s, doubled each time: the peer may be starting */
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
	VRDMA_CM_USER = 18,     /* written by the program */
	VRDMA_CM_INTERNAL = 19, /* written by librdmacm */
};

/* IPv4 or IPv6, as sa.sa_family says. */
union vrdma_cm_address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* A device, and the functions that exchange messages with its peers. */
struct vrdma_cm_port {
	struct vrdma_gids gids;
	uint8_t guid[8];
	uint8_t mtu;         /* enum ibv_mtu */
	uint16_t pkey_index; /* of connections: that of the default partition */
	uint64_t deadline;   /* the earliest of its ids, in ms; 0: none */
	/*
	 * Several programs may share these GIDs (struct vrdma_cmd_listen): the number of this
	 * program's function, and the number's bits (0: there is one function).
	 */
	uint8_t function_bits, function;
	/* Begins to receive messages. */
	int (*start)(struct vrdma_cm_port *port);
	/* From now on this function gets the requests for the service, or no longer gets them. */
	int (*listen)(struct vrdma_cm_port *port, uint64_t service_id);
	void (*unlisten)(struct vrdma_cm_port *port, uint64_t service_id);
	void (*send)(struct vrdma_cm_port *port, const struct vrdma_av *to,
		     const struct vrdma_mad *mad);
	/* Tells the event thread that the deadline is earlier. */
	void (*wake)(struct vrdma_cm_port *port);
};

struct vrdma_cm_event {
	struct vrdma_cm_event *next;
	struct vrdma_cm_id *id;       /* the id that reports the event */
	struct vrdma_cm_id *request;  /* of CONNECT_REQUEST: the new id */
	struct vrdma_cm_group *group; /* of MULTICAST_JOIN */
	struct rdma_ucm_event_resp resp;
};

/*
 * A channel that a program has open. Its file is a socket, which is readable while the channel has
 * events. The socket's cookie distinguishes it from later files that have the same number.
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
	uint32_t handle;  /* the id's number for the program */
	uint32_t comm_id; /* the id's number for the peer */
	uint64_t uid;     /* 0: the program does not know the id yet, and gets no events of it */
	struct vrdma_cm_channel *channel;
	uint32_t events_reported;
	uint16_t port_space; /* enum rdma_ucm_port_space: RDMA_PS_TCP or RDMA_PS_UDP */
	bool bound;          /* to its source, which excludes other ids of this program */
	bool reserved;       /* with the devices, which excludes ids of other programs */
	bool reuse;
	bool afonly;
	uint8_t tos;
	uint8_t ack_timeout; /* set by the program, or 0 */
	enum vrdma_cm_state state;

	union vrdma_cm_address source, destination;
	struct vrdma_cm_port *port; /* NULL: none yet, or all */

	struct vrdma_cm_group *groups;

	/* Of an id that listens. */
	uint32_t backlog;
	uint32_t waiting; /* requests that the program has not read */

	/* Of a connection. Some apply to a datagram service, too. */
	struct vrdma_av peer;
	uint64_t tid;
	uint32_t remote_id;
	uint32_t qpn, remote_qpn;
	uint32_t psn, remote_psn; /* first PSN that the peer sends; that we send */
	uint8_t mtu;
	uint8_t timeout; /* of the QP: 4.096 us << n */
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry_count;
	struct rdma_ucm_ece ece; /* the program's */

	/* The last message. The deadline is that of its answer, or the end of TIMEWAIT. */
	struct vrdma_mad mad;
	uint64_t deadline; /* in ms; 0: none */
	uint8_t wait;      /* VRDMA_CM_TIMEOUT */
	uint8_t tries;     /* retransmissions left */
};

extern pthread_mutex_t vrdma_cm_lock;

static inline bool vrdma_cm_is_datagram(const struct vrdma_cm_id *id)
{
	return id->port_space == RDMA_PS_UDP;
}

/* mad.c */
void vrdma_mad_init(struct vrdma_mad *mad, enum vrdma_cm_attribute attribute, uint64_t tid);

/* table.c */
uint64_t vrdma_cm_now(void); /* in ms */
struct vrdma_cm_id *vrdma_cm_id_new(struct vrdma_cm_channel *channel, uint16_t port_space);
void vrdma_cm_id_free(struct vrdma_cm_id *id);
/* Iterates over the ids from *handle on. NULL: there are no more. */
struct vrdma_cm_id *vrdma_cm_id_next(uint32_t *handle);
struct vrdma_cm_id *vrdma_cm_id_find(uint32_t handle, const struct vrdma_cm_channel *channel);
struct vrdma_cm_id *vrdma_cm_id_by_comm_id(uint32_t comm_id);
/* The file's number is below max_fds. On an error, returns NULL and sets errno. */
struct vrdma_cm_channel *vrdma_cm_channel_new(int max_fds);
void vrdma_cm_channel_free(struct vrdma_cm_channel *channel);
/* Finds a channel by the number of its file. */
struct vrdma_cm_channel *vrdma_cm_channel_find(int fd);
/* Returns the socket's cookie, which the kernel gave to this socket only. 0: no socket. */
uint64_t vrdma_cm_cookie(int fd);
struct vrdma_cm_channel *vrdma_cm_channel_first(void);
/* Adds an event of id. The caller may fill in more. NULL: the program gets no event. */
struct vrdma_cm_event *vrdma_cm_event_add(struct vrdma_cm_id *id, enum vrdma_cm_event_type type,
					  int status);
struct vrdma_cm_event *vrdma_cm_event_take(struct vrdma_cm_channel *channel);
/* Removes the next event of the id, or if group is not NULL, of the group. NULL: there is none. */
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
/* Reserves the id's port with the devices that it is bound to, unless it is reserved already. */
int vrdma_cm_reserve(struct vrdma_cm_id *id);
void vrdma_cm_release(struct vrdma_cm_id *id);
int vrdma_cm_resolve(struct vrdma_cm_id *id, const union vrdma_cm_address *source,
		     const union vrdma_cm_address *destination);
/* Returns the index of the source's GID, or -1. The id must have a port. */
int vrdma_cm_source_index(const struct vrdma_cm_id *id);
uint64_t vrdma_cm_service_id(const struct vrdma_cm_id *id, const union vrdma_cm_address *address);
/* Write and read the addresses of both ends in the private data of a request. */
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
/* Returns how many events of the id the program has read. */
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

/* attr.c: attributes that a QP of the id needs for the state. */
int vrdma_cm_qp_attr(const struct vrdma_cm_id *id, uint32_t state, struct ib_uverbs_qp_attr *attr);
void vrdma_cm_ah_attr(const struct vrdma_cm_id *id, struct ib_uverbs_ah_attr *attr);

/* ucma.c: executes a command. Returns 0 or an errno; EAGAIN: there is no event. */
int vrdma_cm_command(struct vrdma_cm_channel *channel, const void *command, size_t length);

/*
 * service.c: for the event thread of a device. Handles messages and expired deadlines. Returns for
 * how many ms it need not be called unless there is an event. -1: for any time.
 */
int vrdma_cm_run(struct vrdma_dev *dev);
void vrdma_cm_device_failed(struct vrdma_dev *dev);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_CM_H */
