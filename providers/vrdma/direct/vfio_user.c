/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The function in another process, over vfio-user (vrdma/vfio_user.h).
 *
 * There is one request at a time, and each has a timeout. If the server hangs up, is late or breaks
 * the protocol, it gets no further request: the socket is shut down, which hangup_fd reports. But a
 * server that asks for its device back is followed by another one, which gets the device
 * (restart.c).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <vrdma/device.h>
#include <vrdma/vfio_user.h>

#include "vfio_user.h"

#define MAX_FDS VRDMA_VFIO_USER_MAX_FDS
#define MAX_REPLY 4096
#define MAX_ERRNO 4095
#define VERSION_JSON "{\"capabilities\":{\"max_msg_fds\":16,\"max_data_xfer_size\":65536}}"

static struct vfio_user *to_vfio_user(struct vrdma_bus *bus)
{
	return (struct vfio_user *)bus;
}

static void close_fds(const int *fds, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		close(fds[i]);
}

static int send_all(int socket, struct msghdr *message)
{
	while (message->msg_iovlen) {
		ssize_t sent = sendmsg(socket, message, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return -EIO;
		message->msg_control = NULL; /* was sent with the first byte */
		message->msg_controllen = 0;
		while (message->msg_iovlen && (size_t)sent >= message->msg_iov->iov_len) {
			sent -= (ssize_t)message->msg_iov->iov_len;
			message->msg_iov++;
			message->msg_iovlen--;
		}
		if (message->msg_iovlen) {
			message->msg_iov->iov_base = (char *)message->msg_iov->iov_base + sent;
			message->msg_iov->iov_len -= (size_t)sent;
		}
	}
	return 0;
}

static int send_request(struct vfio_user *user, const struct vrdma_request *request)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
	} control = {};
	struct vfio_user_header header = {
		.id = user->next_id,
		.command = (__u16)request->command,
		.flags = VFIO_USER_TYPE_COMMAND | request->flags,
		.size = (__u32)(sizeof(header) + request->parts[0].iov_len +
				request->parts[1].iov_len),
	};
	struct iovec parts[] = {
		{.iov_base = &header, .iov_len = sizeof(header)},
		request->parts[0],
		request->parts[1],
	};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};

	if (request->num_fds) {
		size_t size = request->num_fds * sizeof(int);

		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(size);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(size);
		memcpy(CMSG_DATA(&control.align), request->fds, size);
	}
	return send_all(user->socket, &message);
}

static void take_fds(struct msghdr *message, struct vrdma_request *request)
{
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(message); cmsg;
	     cmsg = CMSG_NXTHDR(message, cmsg)) {
		const unsigned char *data = CMSG_DATA(cmsg);
		size_t count;

		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, data + i * sizeof(fd), sizeof(fd));
			if (request->num_reply_fds < MAX_FDS)
				request->reply_fds[request->num_reply_fds++] = fd;
			else
				close(fd);
		}
	}
}

static int receive_all(struct vfio_user *user, struct vrdma_request *request, void *data,
		       size_t size)
{
	char *at = data;

	while (size) {
		char control[CMSG_SPACE(MAX_FDS * sizeof(int))];
		struct iovec part = {.iov_base = at, .iov_len = size};
		struct msghdr message = {
			.msg_iov = &part,
			.msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof(control),
		};
		ssize_t received = recvmsg(user->socket, &message, MSG_CMSG_CLOEXEC);

		if (received < 0 && errno == EINTR)
			continue;
		if (received < 0)
			return -EIO;
		take_fds(&message, request);
		if (!received)
			return -EIO;
		at += received;
		size -= (size_t)received;
	}
	return 0;
}

/* Returns -EPROTO if the reply breaks the protocol. *refusal is an error that the reply reports. */
static int receive_reply(struct vfio_user *user, struct vrdma_request *request, int *refusal)
{
	struct vfio_user_header header;
	int err = receive_all(user, request, &header, sizeof(header));

	if (err)
		return err;
	if (header.id != user->next_id || header.command != request->command ||
	    VRDMA_GET(VFIO_USER_F_TYPE, header.flags) != VFIO_USER_TYPE_REPLY)
		return -EPROTO;
	if (header.flags & VFIO_USER_F_ERROR) {
		*refusal = header.error && header.error <= MAX_ERRNO ? -(int)header.error : -EIO;
		return header.size == sizeof(header) ? 0 : -EPROTO;
	}
	if (header.size < sizeof(header) + request->reply_min ||
	    header.size > sizeof(header) + request->reply_max)
		return -EPROTO;
	request->reply_size = header.size - sizeof(header);
	return receive_all(user, request, request->reply, request->reply_size);
}

static void give_up(struct vfio_user *user)
{
	user->broken = true;
	shutdown(user->socket, SHUT_RDWR);
}

int vrdma_vfio_user_exchange(struct vfio_user *user, struct vrdma_request *request)
{
	int refusal = 0;
	int err = -EIO;

	if (!user->broken) {
		user->next_id++;
		err = send_request(user, request);
		if (!err && !(request->flags & VFIO_USER_F_NO_REPLY))
			err = receive_reply(user, request, &refusal);
		if (err)
			give_up(user);
	}
	if (!err && !refusal)
		return 0;
	close_fds(request->reply_fds, request->num_reply_fds);
	request->num_reply_fds = 0;
	return err ? -EIO : refusal;
}

/* For commands whose reply has no data, or may only repeat the command. */
int vrdma_vfio_user_command(struct vfio_user *user, enum vfio_user_command command,
			    const void *payload, size_t size, const int *fds, unsigned int num_fds)
{
	char reply[MAX_REPLY];
	struct vrdma_request request = {
		.command = command,
		.parts = {{.iov_base = (void *)payload, .iov_len = size}},
		.fds = fds,
		.num_fds = num_fds,
		.reply = reply,
		.reply_max = sizeof(reply),
	};
	int err = vrdma_vfio_user_exchange(user, &request);

	close_fds(request.reply_fds, request.num_reply_fds);
	return err;
}

static uint32_t bus_read(struct vrdma_bus *bus, uint32_t offset)
{
	struct vfio_user_region_access access = {
		.offset = offset,
		.region = VFIO_PCI_BAR0_REGION_INDEX,
		.count = sizeof(uint32_t),
	};
	struct {
		struct vfio_user_region_access access;
		uint32_t value;
		uint32_t padding;
	} reply;
	const size_t size = sizeof(access) + sizeof(reply.value);
	struct vfio_user *user = to_vfio_user(bus);
	struct vrdma_request request = {
		.command = VFIO_USER_REGION_READ,
		.parts = {{.iov_base = &access, .iov_len = sizeof(access)}},
		.reply = &reply,
		.reply_min = size,
		.reply_max = size,
	};

	int err;

	pthread_mutex_lock(&user->lock);
	err = vrdma_vfio_user_exchange(user, &request);
	pthread_mutex_unlock(&user->lock);
	if (err)
		return UINT32_MAX;
	close_fds(request.reply_fds, request.num_reply_fds);
	return reply.value;
}

static int write_region(struct vfio_user *user, const struct vfio_user_region_access *access,
			const void *value, uint32_t flags)
{
	struct vfio_user_region_access reply;
	struct vrdma_request request = {
		.command = VFIO_USER_REGION_WRITE,
		.flags = flags,
		.parts = {{.iov_base = (void *)access, .iov_len = sizeof(*access)},
			  {.iov_base = (void *)value, .iov_len = access->count}},
		.reply = &reply,
		.reply_max = sizeof(reply),
	};
	int err = vrdma_vfio_user_exchange(user, &request);

	if (!err)
		close_fds(request.reply_fds, request.num_reply_fds);
	return err;
}

static void write_register(struct vrdma_bus *bus, uint32_t offset, uint32_t value, uint32_t flags)
{
	const struct vfio_user_region_access access = {
		.offset = offset,
		.region = VFIO_PCI_BAR0_REGION_INDEX,
		.count = sizeof(value),
	};

	struct vfio_user *user = to_vfio_user(bus);

	/* As with a store to a BAR, only a later read shows a failure. */
	pthread_mutex_lock(&user->lock);
	(void)write_region(user, &access, &value, flags);
	pthread_mutex_unlock(&user->lock);
}

static void bus_write(struct vrdma_bus *bus, uint32_t offset, uint32_t value)
{
	write_register(bus, offset, value, 0);
}

static void bus_post(struct vrdma_bus *bus, uint32_t offset, uint32_t value)
{
	write_register(bus, offset, value, VFIO_USER_F_NO_REPLY);
}

static int bus_map(struct vrdma_bus *bus, const struct vrdma_dma *dma)
{
	struct vfio_user *user = to_vfio_user(bus);
	int err;

	pthread_mutex_lock(&user->lock);
	err = vrdma_vfio_user_map(user, dma);
	if (!err)
		vrdma_given_add(&user->given, dma);
	pthread_mutex_unlock(&user->lock);
	return err;
}

int vrdma_vfio_user_map(struct vfio_user *user, const struct vrdma_dma *dma)
{
	struct vfio_user_dma_map map = {
		.argsz = sizeof(map),
		.flags = VFIO_USER_DMA_READ | VFIO_USER_DMA_WRITE,
		.offset = dma->offset,
		.address = dma->iova,
		.size = dma->length,
	};

	return vrdma_vfio_user_command(user, VFIO_USER_DMA_MAP, &map, sizeof(map), &dma->fd, 1);
}

static int bus_unmap(struct vrdma_bus *bus, uint64_t iova, uint64_t length)
{
	struct vfio_user *user = to_vfio_user(bus);
	struct vfio_user_dma_unmap unmap = {
		.argsz = sizeof(unmap),
		.address = iova,
		.size = length,
	};
	int err;

	pthread_mutex_lock(&user->lock);
	err = vrdma_vfio_user_command(user, VFIO_USER_DMA_UNMAP, &unmap, sizeof(unmap), NULL, 0);
	if (!err)
		vrdma_given_remove(&user->given, iova);
	pthread_mutex_unlock(&user->lock);
	return err;
}

int vrdma_vfio_user_set_irqs(struct vfio_user *user, unsigned int index, const int *eventfds,
			     unsigned int count)
{
	unsigned int step;

	for (unsigned int start = 0; start < count; start += step) {
		struct vfio_user_irq_set set = {
			.argsz = sizeof(set),
			.flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
			.index = index,
			.start = start,
		};
		int err;

		step = count - start < user->max_fds ? count - start : user->max_fds;
		set.count = step;
		err = vrdma_vfio_user_command(user, VFIO_USER_DEVICE_SET_IRQS, &set, sizeof(set),
					      eventfds + start, step);
		if (err)
			return err;
	}
	return 0;
}

static int bus_set_vectors(struct vrdma_bus *bus, const int *eventfds, unsigned int count)
{
	struct vfio_user *user = to_vfio_user(bus);
	int err;

	pthread_mutex_lock(&user->lock);
	err = vrdma_vfio_user_set_irqs(user, VFIO_PCI_MSIX_IRQ_INDEX, eventfds, count);
	if (!err) {
		memcpy(user->given.vectors, eventfds, count * sizeof(*eventfds));
		user->given.num_vectors = count;
	}
	pthread_mutex_unlock(&user->lock);
	return err;
}

static int bus_follow(struct vrdma_bus *bus)
{
	struct vfio_user *user = to_vfio_user(bus);
	int err;

	pthread_mutex_lock(&user->lock);
	err = vrdma_vfio_user_follow(user);
	if (err)
		give_up(user);
	pthread_mutex_unlock(&user->lock);
	return err;
}

static void close_all(struct vfio_user *user)
{
	if (user->base.doorbells)
		munmap(user->base.doorbells, user->base.doorbells_size);
	if (user->base.kick_fd >= 0)
		close(user->base.kick_fd);
	if (user->base.request_fd >= 0)
		close(user->base.request_fd);
	if (user->socket >= 0)
		close(user->socket);
	vrdma_given_free(&user->given);
	free(user->path);
}

static void bus_abandon(struct vrdma_bus *bus)
{
	struct vfio_user *user = to_vfio_user(bus);

	pthread_mutex_init(&user->lock, NULL);
	user->broken = true;
	close(user->socket);
	user->socket = -1;
	vrdma_given_free(&user->given);
	vrdma_bus_disconnect(bus);
}

static void bus_close(struct vrdma_bus *bus)
{
	struct vfio_user *user = to_vfio_user(bus);

	close_all(user);
	pthread_mutex_destroy(&user->lock);
	free(user);
}

static const struct vrdma_bus_ops vfio_user_ops = {
	.read = bus_read,
	.write = bus_write,
	.post = bus_post,
	.map = bus_map,
	.unmap = bus_unmap,
	.set_vectors = bus_set_vectors,
	.follow = bus_follow,
	.abandon = bus_abandon,
	.close = bus_close,
};

/* A number in the server's capabilities, which are so short that no JSON parser is needed. */
static unsigned int capability(const char *json, const char *name, unsigned int otherwise)
{
	const char *at = strstr(json, name);

	if (!at)
		return otherwise;
	at += strlen(name);
	at += strspn(at, " \t\r\n:");
	return (unsigned int)strtoul(at, NULL, 10);
}

static int negotiate_version(struct vfio_user *user)
{
	struct vfio_user_version version = {
		.major = VFIO_USER_MAJOR,
		.minor = VFIO_USER_MINOR,
	};
	struct {
		struct vfio_user_version version;
		char json[MAX_REPLY];
	} reply = {};
	struct vrdma_request request = {
		.command = VFIO_USER_VERSION,
		.parts = {{.iov_base = &version, .iov_len = sizeof(version)},
			  {.iov_base = (void *)VERSION_JSON, .iov_len = sizeof(VERSION_JSON)}},
		.reply = &reply,
		.reply_min = sizeof(version),
		.reply_max = sizeof(reply) - 1, /* leaves a NUL at the end */
	};
	int err = vrdma_vfio_user_exchange(user, &request);

	if (err)
		return err;
	close_fds(request.reply_fds, request.num_reply_fds);
	if (reply.version.major != VFIO_USER_MAJOR)
		return -EPROTONOSUPPORT;
	user->max_fds = capability(reply.json, "\"max_msg_fds\"", VFIO_USER_DEFAULT_MAX_FDS);
	if (user->max_fds > MAX_FDS)
		user->max_fds = MAX_FDS;
	user->max_transfer = capability(reply.json, "\"max_data_xfer_size\"",
					VFIO_USER_DEFAULT_MAX_TRANSFER);
	return user->max_fds ? 0 : -EPROTO;
}

/* Returns the file descriptor of a reply that must have exactly one, or a negative errno. */
static int only_fd(struct vrdma_request *request)
{
	if (request->num_reply_fds == 1)
		return request->reply_fds[0];
	close_fds(request->reply_fds, request->num_reply_fds);
	return -EPROTO;
}

/* QPs know where the pages are, so those of the next server come to the same place. */
static int place_doorbells(struct vfio_user *user, int fd, const struct vfio_user_region_info *info)
{
	void *const place = user->base.doorbells;
	void *pages;

	if (place && info->size != user->base.doorbells_size)
		return -EPROTO;
	pages = mmap(place, info->size, PROT_READ | PROT_WRITE,
		     place ? MAP_SHARED | MAP_FIXED : MAP_SHARED, fd, (off_t)info->offset);
	if (pages == MAP_FAILED)
		return -errno;
	if (!place) {
		user->base.doorbells = pages;
		user->base.doorbells_size = info->size;
	}
	return 0;
}

static int map_doorbells(struct vfio_user *user)
{
	struct vfio_user_region_info info = {
		.argsz = MAX_REPLY,
		.index = VFIO_PCI_BAR2_REGION_INDEX,
	};
	union {
		struct vfio_user_region_info info;
		char bytes[MAX_REPLY];
	} reply;
	struct vrdma_request request = {
		.command = VFIO_USER_DEVICE_GET_REGION_INFO,
		.parts = {{.iov_base = &info, .iov_len = sizeof(info)}},
		.reply = &reply,
		.reply_min = sizeof(info),
		.reply_max = sizeof(reply),
	};
	int err = vrdma_vfio_user_exchange(user, &request);
	int fd;

	if (err)
		return err;
	fd = only_fd(&request);
	if (fd < 0)
		return fd;
	err = place_doorbells(user, fd, &reply.info);
	close(fd);
	return err;
}

/* QPs know the number of this descriptor, too. */
static int place_kick(struct vfio_user *user, int fd)
{
	if (user->base.kick_fd >= 0)
		return dup3(fd, user->base.kick_fd, O_CLOEXEC) < 0 ? -errno : 0;
	user->base.kick_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return user->base.kick_fd < 0 ? -errno : 0;
}

/* Gets the eventfd that takes the place of the kick page. */
static int get_kick(struct vfio_user *user)
{
	struct {
		struct vfio_user_region_io_fds head;
		struct vfio_user_ioeventfd regions[MAX_FDS];
	} reply;
	struct vfio_user_region_io_fds ask = {
		.argsz = sizeof(reply),
		.index = VFIO_PCI_BAR0_REGION_INDEX,
	};
	struct vrdma_request request = {
		.command = VFIO_USER_DEVICE_GET_REGION_IO_FDS,
		.parts = {{.iov_base = &ask, .iov_len = sizeof(ask)}},
		.reply = &reply,
		.reply_min = sizeof(ask),
		.reply_max = sizeof(reply),
	};
	int err = vrdma_vfio_user_exchange(user, &request);
	size_t count;

	if (err)
		return err;
	err = -EPROTO;
	count = (request.reply_size - sizeof(ask)) / sizeof(reply.regions[0]);
	for (size_t i = 0; i < count; i++) {
		const struct vfio_user_ioeventfd *region = &reply.regions[i];

		if (region->offset != VRDMA_BAR0_KICK_OFFSET ||
		    region->type != VFIO_USER_IO_FD_TYPE_IOEVENTFD ||
		    region->fd_index >= request.num_reply_fds)
			continue;
		err = place_kick(user, request.reply_fds[region->fd_index]);
		break;
	}
	close_fds(request.reply_fds, request.num_reply_fds);
	return err;
}

/* Allows the device to access our memory. Each new client has to do so. */
static int set_bus_master(struct vfio_user *user)
{
	const struct vfio_user_region_access access = {
		.offset = PCI_COMMAND,
		.region = VFIO_PCI_CONFIG_REGION_INDEX,
		.count = sizeof(uint16_t),
	};
	const uint16_t command = PCI_COMMAND_MASTER;

	return write_region(user, &access, &command, 0);
}

int vrdma_vfio_user_set_up(struct vfio_user *user)
{
	int err = negotiate_version(user);

	if (!err)
		err = map_doorbells(user);
	if (!err)
		err = get_kick(user);
	if (!err)
		err = set_bus_master(user);
	return err;
}

void vrdma_vfio_user_set_timeout(int socket, unsigned int seconds)
{
	const struct timeval timeout = {.tv_sec = seconds};

	setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
}

/* The bus owns the socket. A bus without a path stays with its first server. */
static struct vrdma_bus *attach(int socket, const char *path)
{
	struct vfio_user *user = calloc(1, sizeof(*user));
	int err;

	if (!user) {
		close(socket);
		return NULL;
	}
	vrdma_vfio_user_set_timeout(socket, VRDMA_VFIO_USER_TIMEOUT_S);
	pthread_mutex_init(&user->lock, NULL);
	user->base.ops = &vfio_user_ops;
	user->base.kick_fd = -1;
	user->base.kick_offset = -1;
	user->base.hangup_fd = socket;
	user->base.hangup_event = POLLHUP;
	user->base.request_fd = -1;
	user->socket = socket;
	user->path = path ? realpath(path, NULL) : NULL; /* the program may change its directory */
	err = vrdma_vfio_user_set_up(user);
	if (!err && user->path)
		err = vrdma_vfio_user_accept_requests(user);
	if (err) {
		bus_close(&user->base);
		errno = -err;
		return NULL;
	}
	return &user->base;
}

struct vrdma_bus *vrdma_vfio_user_attach(int socket)
{
	return attach(socket, NULL);
}

int vrdma_vfio_user_connect(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		int err = errno;

		close(fd);
		return -err;
	}
	return fd;
}

struct vrdma_bus *vrdma_vfio_user_open(const char *path)
{
	int fd = vrdma_vfio_user_connect(path);

	if (fd < 0) {
		errno = -fd;
		return NULL;
	}
	return attach(fd, path);
}
