/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The function in another process, over vfio-user (vrdma/vfio_user.h).
 *
 * There is one request at a time, and each has a timeout. If the server hangs up, is late or breaks
 * the protocol, it gets no further request: the socket is shut down, which hangup_fd reports.
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

#include "bus.h"

#define TIMEOUT_SECONDS 10
#define MAX_FDS 16
#define MAX_REPLY 4096
#define MAX_ERRNO 4095
#define VERSION_JSON "{\"capabilities\":{\"max_msg_fds\":16,\"max_data_xfer_size\":4096}}"

struct vfio_user {
	struct vrdma_bus base;
	pthread_mutex_t lock; /* all below */
	int socket;
	uint16_t next_id;
	bool broken;
	unsigned int max_fds; /* that the server takes per message */
};

/* A command, up to two parts of payload, and room for the reply's payload. */
struct request {
	enum vfio_user_command command;
	uint32_t flags;
	struct iovec parts[2];
	const int *fds;
	unsigned int num_fds;

	void *reply;
	size_t reply_min;
	size_t reply_max;

	/* Set by exchange(). The caller closes the fds. */
	size_t reply_size;
	int reply_fds[MAX_FDS];
	unsigned int num_reply_fds;
};

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

static int send_request(struct vfio_user *user, const struct request *request)
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

static void take_fds(struct msghdr *message, struct request *request)
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

static int receive_all(struct vfio_user *user, struct request *request, void *data, size_t size)
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
static int receive_reply(struct vfio_user *user, struct request *request, int *refusal)
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

/* Returns 0 or a negative errno: the server's, or EIO once the connection has failed. */
static int exchange(struct vfio_user *user, struct request *request)
{
	int refusal = 0;
	int err = -EIO;

	pthread_mutex_lock(&user->lock);
	if (!user->broken) {
		user->next_id++;
		err = send_request(user, request);
		if (!err && !(request->flags & VFIO_USER_F_NO_REPLY))
			err = receive_reply(user, request, &refusal);
		if (err) {
			user->broken = true;
			shutdown(user->socket, SHUT_RDWR);
		}
	}
	pthread_mutex_unlock(&user->lock);
	if (!err && !refusal)
		return 0;
	close_fds(request->reply_fds, request->num_reply_fds);
	request->num_reply_fds = 0;
	return err ? -EIO : refusal;
}

/* For commands whose reply has no data, or may only repeat the command. */
static int command(struct vfio_user *user, enum vfio_user_command command, const void *payload,
		   size_t size, const int *fds, unsigned int num_fds)
{
	char reply[MAX_REPLY];
	struct request request = {
		.command = command,
		.parts = {{.iov_base = (void *)payload, .iov_len = size}},
		.fds = fds,
		.num_fds = num_fds,
		.reply = reply,
		.reply_max = sizeof(reply),
	};
	int err = exchange(user, &request);

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
	struct request request = {
		.command = VFIO_USER_REGION_READ,
		.parts = {{.iov_base = &access, .iov_len = sizeof(access)}},
		.reply = &reply,
		.reply_min = size,
		.reply_max = size,
	};

	if (exchange(to_vfio_user(bus), &request))
		return UINT32_MAX;
	close_fds(request.reply_fds, request.num_reply_fds);
	return reply.value;
}

static int write_region(struct vfio_user *user, const struct vfio_user_region_access *access,
			const void *value, uint32_t flags)
{
	struct vfio_user_region_access reply;
	struct request request = {
		.command = VFIO_USER_REGION_WRITE,
		.flags = flags,
		.parts = {{.iov_base = (void *)access, .iov_len = sizeof(*access)},
			  {.iov_base = (void *)value, .iov_len = access->count}},
		.reply = &reply,
		.reply_max = sizeof(reply),
	};
	int err = exchange(user, &request);

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

	/* As with a store to a BAR, only a later read shows a failure. */
	(void)write_region(to_vfio_user(bus), &access, &value, flags);
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
	struct vfio_user_dma_map map = {
		.argsz = sizeof(map),
		.flags = VFIO_USER_DMA_READ | VFIO_USER_DMA_WRITE,
		.offset = dma->offset,
		.address = dma->iova,
		.size = dma->length,
	};

	return command(to_vfio_user(bus), VFIO_USER_DMA_MAP, &map, sizeof(map), &dma->fd, 1);
}

static int bus_unmap(struct vrdma_bus *bus, uint64_t iova, uint64_t length)
{
	struct vfio_user_dma_unmap unmap = {
		.argsz = sizeof(unmap),
		.address = iova,
		.size = length,
	};

	return command(to_vfio_user(bus), VFIO_USER_DMA_UNMAP, &unmap, sizeof(unmap), NULL, 0);
}

static int bus_set_vectors(struct vrdma_bus *bus, const int *eventfds, unsigned int count)
{
	struct vfio_user *user = to_vfio_user(bus);
	unsigned int step;

	for (unsigned int start = 0; start < count; start += step) {
		struct vfio_user_irq_set set = {
			.argsz = sizeof(set),
			.flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
			.index = VFIO_PCI_MSIX_IRQ_INDEX,
			.start = start,
		};
		int err;

		step = count - start < user->max_fds ? count - start : user->max_fds;
		set.count = step;
		err = command(user, VFIO_USER_DEVICE_SET_IRQS, &set, sizeof(set), eventfds + start,
			      step);
		if (err)
			return err;
	}
	return 0;
}

static void close_all(struct vfio_user *user)
{
	if (user->base.doorbells)
		munmap(user->base.doorbells, user->base.doorbells_size);
	if (user->base.kick_fd >= 0)
		close(user->base.kick_fd);
	if (user->socket >= 0)
		close(user->socket);
}

static void bus_abandon(struct vrdma_bus *bus)
{
	struct vfio_user *user = to_vfio_user(bus);

	pthread_mutex_init(&user->lock, NULL);
	user->broken = true;
	close(user->socket);
	user->socket = -1;
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
	struct request request = {
		.command = VFIO_USER_VERSION,
		.parts = {{.iov_base = &version, .iov_len = sizeof(version)},
			  {.iov_base = (void *)VERSION_JSON, .iov_len = sizeof(VERSION_JSON)}},
		.reply = &reply,
		.reply_min = sizeof(version),
		.reply_max = sizeof(reply) - 1, /* leaves a NUL at the end */
	};
	int err = exchange(user, &request);

	if (err)
		return err;
	close_fds(request.reply_fds, request.num_reply_fds);
	if (reply.version.major != VFIO_USER_MAJOR)
		return -EPROTONOSUPPORT;
	user->max_fds = capability(reply.json, "\"max_msg_fds\"", VFIO_USER_DEFAULT_MAX_FDS);
	if (user->max_fds > MAX_FDS)
		user->max_fds = MAX_FDS;
	return user->max_fds ? 0 : -EPROTO;
}

/* Returns the file descriptor of a reply that must have exactly one, or a negative errno. */
static int only_fd(struct request *request)
{
	if (request->num_reply_fds == 1)
		return request->reply_fds[0];
	close_fds(request->reply_fds, request->num_reply_fds);
	return -EPROTO;
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
	struct request request = {
		.command = VFIO_USER_DEVICE_GET_REGION_INFO,
		.parts = {{.iov_base = &info, .iov_len = sizeof(info)}},
		.reply = &reply,
		.reply_min = sizeof(info),
		.reply_max = sizeof(reply),
	};
	int err = exchange(user, &request);
	void *pages;
	int fd;

	if (err)
		return err;
	fd = only_fd(&request);
	if (fd < 0)
		return fd;
	pages = mmap(NULL, reply.info.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		     (off_t)reply.info.offset);
	err = errno;
	close(fd);
	if (pages == MAP_FAILED)
		return -err;
	user->base.doorbells = pages;
	user->base.doorbells_size = reply.info.size;
	return 0;
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
	struct request request = {
		.command = VFIO_USER_DEVICE_GET_REGION_IO_FDS,
		.parts = {{.iov_base = &ask, .iov_len = sizeof(ask)}},
		.reply = &reply,
		.reply_min = sizeof(ask),
		.reply_max = sizeof(reply),
	};
	int err = exchange(user, &request);
	size_t count;

	if (err)
		return err;
	count = (request.reply_size - sizeof(ask)) / sizeof(reply.regions[0]);
	for (size_t i = 0; i < count; i++) {
		const struct vfio_user_ioeventfd *region = &reply.regions[i];

		if (region->offset != VRDMA_BAR0_KICK_OFFSET ||
		    region->type != VFIO_USER_IO_FD_TYPE_IOEVENTFD ||
		    region->fd_index >= request.num_reply_fds)
			continue;
		user->base.kick_fd = fcntl(request.reply_fds[region->fd_index], F_DUPFD_CLOEXEC, 0);
		break;
	}
	close_fds(request.reply_fds, request.num_reply_fds);
	return user->base.kick_fd < 0 ? -EPROTO : 0;
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

static int set_up(struct vfio_user *user)
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

struct vrdma_bus *vrdma_vfio_user_attach(int socket)
{
	const struct timeval timeout = {.tv_sec = TIMEOUT_SECONDS};
	struct vfio_user *user = calloc(1, sizeof(*user));
	int err;

	if (!user) {
		close(socket);
		return NULL;
	}
	setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	pthread_mutex_init(&user->lock, NULL);
	user->base.ops = &vfio_user_ops;
	user->base.kick_fd = -1;
	user->base.kick_offset = -1;
	user->base.hangup_fd = socket;
	user->base.hangup_event = POLLHUP;
	user->socket = socket;
	err = set_up(user);
	if (err) {
		bus_close(&user->base);
		errno = -err;
		return NULL;
	}
	return &user->base;
}

struct vrdma_bus *vrdma_vfio_user_open(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd;

	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	memcpy(address.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return NULL;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		int err = errno;

		close(fd);
		errno = err;
		return NULL;
	}
	return vrdma_vfio_user_attach(fd);
}
