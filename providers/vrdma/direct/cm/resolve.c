/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * IP addresses without an IP network. The address of a peer is its GID, and the addresses of a
 * device are the GIDs that it was given. If several devices could reach a peer, the one whose
 * address shares most leading bits with the peer's is chosen. GIDs are used as RoCE v2, which Linux
 * prefers, too. If a device has a loopback address, loopback addresses are like others. Otherwise a
 * loopback address is like no address, as in Linux: an id that listens there listens everywhere,
 * and an id that connects there reaches no peer.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "cm.h"

#define FIRST_PORT 32768 /* of the ports that are picked */
#define NUM_PORTS 28232
#define MAX_PICKS 16 /* attempts, each of which may pick a port of another program */

static struct vrdma_cm_port *ports[VRDMA_CM_MAX_PORTS];

bool vrdma_cm_add_port(struct vrdma_cm_port *port)
{
	unsigned int i = 0;

	while (i < VRDMA_CM_MAX_PORTS && ports[i])
		i++;
	if (i < VRDMA_CM_MAX_PORTS)
		ports[i] = port;
	return i < VRDMA_CM_MAX_PORTS;
}

void vrdma_cm_remove_port(struct vrdma_cm_port *port)
{
	unsigned int i = 0;

	while (ports[i] != port)
		i++;
	memmove(&ports[i], &ports[i + 1], (VRDMA_CM_MAX_PORTS - 1 - i) * sizeof(ports[0]));
	ports[VRDMA_CM_MAX_PORTS - 1] = NULL;
}

struct vrdma_cm_port *vrdma_cm_port_at(unsigned int index)
{
	return index < VRDMA_CM_MAX_PORTS ? ports[index] : NULL;
}

/* --- Addresses --- */

bool vrdma_cm_is_ip(const union vrdma_cm_address *address)
{
	return address->sa.sa_family == AF_INET || address->sa.sa_family == AF_INET6;
}

static __be16 *port_of(union vrdma_cm_address *address)
{
	return address->sa.sa_family == AF_INET ? &address->in.sin_port : &address->in6.sin6_port;
}

static __be16 get_port(const union vrdma_cm_address *address)
{
	return address->sa.sa_family == AF_INET ? address->in.sin_port : address->in6.sin6_port;
}

void vrdma_cm_to_gid(const union vrdma_cm_address *address, union ibv_gid *gid)
{
	if (address->sa.sa_family == AF_INET6)
		memcpy(gid->raw, &address->in6.sin6_addr, 16);
	else
		vrdma_map_ipv4(gid->raw, &address->in.sin_addr);
}

/* Keeps family and port. */
static void set_host(union vrdma_cm_address *address, const union ibv_gid *gid)
{
	if (address->sa.sa_family == AF_INET)
		memcpy(&address->in.sin_addr, gid->raw + 12, 4);
	else
		memcpy(&address->in6.sin6_addr, gid->raw, 16);
}

static bool same_host(const union vrdma_cm_address *a, const union vrdma_cm_address *b)
{
	union ibv_gid gid_a, gid_b;

	vrdma_cm_to_gid(a, &gid_a);
	vrdma_cm_to_gid(b, &gid_b);
	return memcmp(&gid_a, &gid_b, sizeof(gid_a)) == 0;
}

/* --- Addresses of devices --- */

/* The index of the GID's RoCE v2 entry, or -1. */
static int gid_index(const struct vrdma_cm_port *port, const union ibv_gid *gid)
{
	for (unsigned int i = 1; i < port->gids.count; i += 2)
		if (memcmp(&port->gids.entries[i], gid, sizeof(*gid)) == 0)
			return (int)i;
	return -1;
}

static bool is_loopback(const union vrdma_cm_address *address)
{
	if (address->sa.sa_family == AF_INET)
		return ntohl(address->in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&address->in6.sin6_addr);
}

static bool is_loopback_gid(const union ibv_gid *gid, sa_family_t family)
{
	union vrdma_cm_address address = {.sa.sa_family = family};

	if (vrdma_is_mapped_ipv4(gid->raw) != (family == AF_INET))
		return false;
	set_host(&address, gid);
	return is_loopback(&address);
}

/* Whether a device has a loopback address of the family. */
static bool have_loopback(sa_family_t family)
{
	for (unsigned int i = 0; vrdma_cm_port_at(i); i++)
		for (unsigned int j = 1; j < ports[i]->gids.count; j += 2)
			if (is_loopback_gid(&ports[i]->gids.entries[j], family))
				return true;
	return false;
}

bool vrdma_cm_is_any(const union vrdma_cm_address *address)
{
	if (is_loopback(address))
		return !have_loopback(address->sa.sa_family);
	if (address->sa.sa_family == AF_INET)
		return address->in.sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&address->in6.sin6_addr);
}

static struct vrdma_cm_port *find_port(const union vrdma_cm_address *address)
{
	union ibv_gid gid;

	vrdma_cm_to_gid(address, &gid);
	for (unsigned int i = 0; vrdma_cm_port_at(i); i++)
		if (gid_index(ports[i], &gid) >= 0)
			return ports[i];
	return NULL;
}

static int common_bits(const union ibv_gid *a, const union ibv_gid *b)
{
	int bits = 0;

	while (bits < 128 && !((a->raw[bits / 8] ^ b->raw[bits / 8]) & 0x80 >> bits % 8))
		bits++;
	return bits;
}

/* Chooses among the GIDs of all devices those of the peer's address family. */
static int choose_source(struct vrdma_cm_id *id, const union ibv_gid *peer)
{
	const union ibv_gid *best = NULL;

	for (unsigned int i = 0; vrdma_cm_port_at(i); i++) {
		const struct vrdma_gids *gids = &ports[i]->gids;

		for (unsigned int j = 1; j < gids->count; j += 2) {
			const union ibv_gid *gid = &gids->entries[j];

			if (vrdma_is_mapped_ipv4(gid->raw) != vrdma_is_mapped_ipv4(peer->raw) ||
			    (best && common_bits(gid, peer) <= common_bits(best, peer)))
				continue;
			best = gid;
			id->port = ports[i];
		}
	}
	if (!best)
		return ENETUNREACH;
	set_host(&id->source, best);
	return 0;
}

/* --- Ports --- */

/* Whether id cannot have its source because other has it. */
static bool conflicts(const struct vrdma_cm_id *id, const struct vrdma_cm_id *other)
{
	if (other == id || !other->bound || other->port_space != id->port_space ||
	    get_port(&other->source) != get_port(&id->source))
		return false;
	if (id->reuse && other->reuse && other->state != VRDMA_CM_LISTEN)
		return false;
	if (id->source.sa.sa_family != other->source.sa.sa_family && (id->afonly || other->afonly))
		return false;
	return vrdma_cm_is_any(&id->source) || vrdma_cm_is_any(&other->source) ||
	       same_host(&id->source, &other->source);
}

static bool port_is_free(const struct vrdma_cm_id *id)
{
	struct vrdma_cm_id *other;
	uint32_t handle = 0;

	while ((other = vrdma_cm_id_next(&handle)))
		if (conflicts(id, other))
			return false;
	return true;
}

static bool is_at(const struct vrdma_cm_id *id, const struct vrdma_cm_port *port)
{
	return !id->port || id->port == port;
}

/* Releases the port with the first `count` devices, or with all if there are fewer. */
static void release_first(const struct vrdma_cm_id *id, unsigned int count)
{
	const uint64_t service_id = vrdma_cm_service_id(id, &id->source);

	for (unsigned int i = 0; i < count && ports[i]; i++)
		if (is_at(id, ports[i]))
			ports[i]->unlisten(ports[i], service_id);
}

int vrdma_cm_reserve(struct vrdma_cm_id *id)
{
	const uint64_t service_id = vrdma_cm_service_id(id, &id->source);

	if (id->reserved)
		return 0;
	for (unsigned int i = 0; vrdma_cm_port_at(i); i++) {
		int ret = is_at(id, ports[i]) ? ports[i]->listen(ports[i], service_id) : 0;

		if (!ret)
			continue;
		release_first(id, i);
		return ret;
	}
	id->reserved = true;
	return 0;
}

/* For an id that was at all devices: keeps its port with the device that was chosen for it. */
static void release_others(const struct vrdma_cm_id *id)
{
	const uint64_t service_id = vrdma_cm_service_id(id, &id->source);

	for (unsigned int i = 0; id->reserved && vrdma_cm_port_at(i); i++)
		if (ports[i] != id->port)
			ports[i]->unlisten(ports[i], service_id);
}

void vrdma_cm_release(struct vrdma_cm_id *id)
{
	if (id->reserved)
		release_first(id, VRDMA_CM_MAX_PORTS);
	id->reserved = false;
}

static int pick_port(struct vrdma_cm_id *id)
{
	uint32_t start = 0;

	if (getrandom(&start, sizeof(start), 0) != sizeof(start))
		start = id->comm_id;
	for (uint32_t i = 0; i < NUM_PORTS; i++) {
		*port_of(&id->source) = htons((uint16_t)(FIRST_PORT + (start + i) % NUM_PORTS));
		if (port_is_free(id))
			return 0;
	}
	return EADDRNOTAVAIL;
}

static int bind_here(struct vrdma_cm_id *id, const union vrdma_cm_address *address)
{
	int ret;

	if (id->state != VRDMA_CM_IDLE)
		return EINVAL;
	if (!vrdma_cm_is_ip(address))
		return EAFNOSUPPORT;
	id->port = vrdma_cm_is_any(address) ? NULL : find_port(address);
	if (!id->port && !vrdma_cm_is_any(address))
		return EADDRNOTAVAIL;
	id->source = *address;
	if (get_port(address))
		ret = port_is_free(id) ? 0 : EADDRINUSE;
	else
		ret = pick_port(id);
	if (ret)
		return ret;
	id->state = VRDMA_CM_BOUND;
	id->bound = true;
	return 0;
}

static void unbind(struct vrdma_cm_id *id)
{
	id->state = VRDMA_CM_IDLE;
	id->bound = false;
	id->port = NULL;
}

/*
 * A port is in use if another program has it on the same device. An id that shares its port (reuse)
 * reserves it only when it listens.
 */
int vrdma_cm_bind(struct vrdma_cm_id *id, const union vrdma_cm_address *address)
{
	int tries = MAX_PICKS;
	int ret;

	do {
		ret = bind_here(id, address);
		if (ret || id->reuse)
			return ret;
		ret = vrdma_cm_reserve(id);
		if (ret)
			unbind(id);
	} while (ret == EADDRINUSE && !get_port(address) && --tries);
	return ret;
}

int vrdma_cm_source_index(const struct vrdma_cm_id *id)
{
	union ibv_gid own;

	vrdma_cm_to_gid(&id->source, &own);
	return gid_index(id->port, &own);
}

static void set_peer(struct vrdma_cm_id *id)
{
	union ibv_gid peer;

	vrdma_cm_to_gid(&id->destination, &peer);
	memset(&id->peer, 0, sizeof(id->peer));
	memcpy(id->peer.dgid, &peer, sizeof(id->peer.dgid));
	id->peer.sgid_index = (uint8_t)vrdma_cm_source_index(id);
	id->peer.hop_limit = VRDMA_CM_HOP_LIMIT;
	id->peer.traffic_class = id->tos;
	id->peer.port_num = VRDMA_PORT;
}

int vrdma_cm_resolve(struct vrdma_cm_id *id, const union vrdma_cm_address *source,
		     const union vrdma_cm_address *destination)
{
	union vrdma_cm_address any = {.sa.sa_family = destination->sa.sa_family};
	union ibv_gid gid;
	int ret;

	if (!vrdma_cm_is_ip(destination))
		return EAFNOSUPPORT;
	if (vrdma_cm_is_any(destination))
		return ENETUNREACH;
	if (id->state == VRDMA_CM_IDLE) {
		ret = bind_here(id, source->sa.sa_family ? source : &any);
		if (ret)
			return ret;
	}
	if (id->state != VRDMA_CM_BOUND || id->source.sa.sa_family != destination->sa.sa_family)
		return EINVAL;
	vrdma_cm_to_gid(destination, &gid);
	if (!id->port) {
		ret = choose_source(id, &gid);
		if (ret)
			return ret;
		release_others(id);
	}
	id->destination = *destination;
	set_peer(id);
	id->state = VRDMA_CM_ADDR;
	vrdma_cm_event_add(id, VRDMA_CM_ADDR_RESOLVED, 0);
	return 0;
}

/* --- Addresses in messages --- */

/* IBA annex A11.4.1: port space and port. */
uint64_t vrdma_cm_service_id(const struct vrdma_cm_id *id, const union vrdma_cm_address *address)
{
	return (uint64_t)id->port_space << 16 | ntohs(get_port(address));
}

static void write_host(const union vrdma_cm_address *address, uint8_t *host)
{
	memset(host, 0, 16);
	if (address->sa.sa_family == AF_INET)
		memcpy(host + 12, &address->in.sin_addr, 4);
	else
		memcpy(host, &address->in6.sin6_addr, 16);
}

void vrdma_cm_write_ip(const struct vrdma_cm_id *id, struct vrdma_cm_ip *ip)
{
	const uint8_t version = id->source.sa.sa_family == AF_INET ? 4 : 6;

	ip->version = 0;
	ip->ip_version = (__u8)VRDMA_SET(VRDMA_CM_IP_VERSION, version);
	ip->port = get_port(&id->source);
	write_host(&id->source, ip->source);
	write_host(&id->destination, ip->destination);
}

static void read_host(union vrdma_cm_address *address, bool ipv4, const uint8_t *host, __be16 port)
{
	memset(address, 0, sizeof(*address));
	address->sa.sa_family = ipv4 ? AF_INET : AF_INET6;
	if (ipv4)
		memcpy(&address->in.sin_addr, host + 12, 4);
	else
		memcpy(&address->in6.sin6_addr, host, 16);
	*port_of(address) = port;
}

bool vrdma_cm_read_ip(const struct vrdma_cm_ip *ip, uint64_t service_id,
		      union vrdma_cm_address *local, union vrdma_cm_address *remote)
{
	const unsigned int version = VRDMA_GET(VRDMA_CM_IP_VERSION, ip->ip_version);

	if (ip->version || (version != 4 && version != 6))
		return false;
	read_host(local, version == 4, ip->destination, htons((uint16_t)service_id));
	read_host(remote, version == 4, ip->source, ip->port);
	return true;
}

static bool listens_at(const struct vrdma_cm_id *id, const union vrdma_cm_address *address)
{
	const bool same_family = id->source.sa.sa_family == address->sa.sa_family;

	if (vrdma_cm_is_any(&id->source))
		return same_family || (id->source.sa.sa_family == AF_INET6 && !id->afonly);
	return same_family && same_host(&id->source, address);
}

struct vrdma_cm_id *vrdma_cm_find_listener(const struct vrdma_cm_port *port, uint64_t service_id,
					   const union vrdma_cm_address *address)
{
	struct vrdma_cm_id *id;
	uint32_t handle = 0;

	while ((id = vrdma_cm_id_next(&handle)))
		if (id->state == VRDMA_CM_LISTEN && (!id->port || id->port == port) &&
		    vrdma_cm_service_id(id, &id->source) == service_id && listens_at(id, address))
			return id;
	return NULL;
}
