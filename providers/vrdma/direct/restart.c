/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A planned restart of the server (vrdma/vfio_user.h). The client fetches its device's state, waits
 * for the next server, and writes the state there. Memory, doorbell pages and descriptors keep
 * their places, so queue pairs do not notice: a doorbell that rings meanwhile is not needed,
 * because the device looks at each queue when it continues.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/vfio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "vfio_user.h"

#define PAUSE_MS 2 /* between two tries to connect */
#define MAX_PIECE ((size_t)1 << 16)
#define MAX_STATE ((size_t)1 << 30)

struct state {
	char *bytes;
	size_t length;
	size_t room;
};

struct state_command {
	struct vfio_user_device_feature feature;
	struct vfio_user_mig_state state;
};

/* A server that cannot migrate its devices refuses the feature. */
static int ask_for_migration(struct vfio_user *user)
{
	struct {
		struct vfio_user_device_feature feature;
		struct vfio_user_migration migration;
	} reply;
	struct vfio_user_device_feature ask = {
		.argsz = sizeof(reply),
		.flags = VFIO_DEVICE_FEATURE_GET | VFIO_DEVICE_FEATURE_MIGRATION,
	};
	struct vrdma_request request = {
		.command = VFIO_USER_DEVICE_FEATURE,
		.parts = {{.iov_base = &ask, .iov_len = sizeof(ask)}},
		.reply = &reply,
		.reply_min = sizeof(reply),
		.reply_max = sizeof(reply),
	};

	return vrdma_vfio_user_exchange(user, &request);
}

static int set_request_fd(struct vfio_user *user)
{
	return vrdma_vfio_user_set_irqs(user, VFIO_PCI_REQ_IRQ_INDEX, &user->base.request_fd, 1);
}

/* A server that offers only a part of this is served without. */
int vrdma_vfio_user_accept_requests(struct vfio_user *user)
{
	int err = ask_for_migration(user);

	if (err)
		return err == -EIO ? err : 0;
	user->base.request_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (user->base.request_fd < 0)
		return -errno;
	err = set_request_fd(user);
	if (err && err != -EIO) {
		close(user->base.request_fd);
		user->base.request_fd = -1;
		err = 0;
	}
	return err;
}

static int go_to(struct vfio_user *user, enum vfio_device_mig_state state)
{
	const struct state_command command = {
		.feature =
			{
				.argsz = sizeof(command),
				.flags = VFIO_DEVICE_FEATURE_SET |
					 VFIO_DEVICE_FEATURE_MIG_DEVICE_STATE,
			},
		.state.device_state = state,
	};

	return vrdma_vfio_user_command(user, VFIO_USER_DEVICE_FEATURE, &command, sizeof(command),
				       NULL, 0);
}

static int make_room(struct state *state)
{
	const size_t room = state->room ? 2 * state->room : 16 * MAX_PIECE;
	char *bytes;

	if (state->room - state->length >= MAX_PIECE)
		return 0;
	bytes = room <= MAX_STATE ? realloc(state->bytes, room) : NULL;
	if (!bytes)
		return -ENOMEM;
	state->bytes = bytes;
	state->room = room;
	return 0;
}

/* Returns how many bytes came, or a negative errno. */
static ssize_t read_piece(struct vfio_user *user, struct state *state)
{
	struct {
		struct vfio_user_mig_data head;
		char bytes[MAX_PIECE];
	} reply;
	struct vfio_user_mig_data ask = {.argsz = sizeof(reply), .size = MAX_PIECE};
	struct vrdma_request request = {
		.command = VFIO_USER_MIG_DATA_READ,
		.parts = {{.iov_base = &ask, .iov_len = sizeof(ask)}},
		.reply = &reply,
		.reply_min = sizeof(reply.head),
		.reply_max = sizeof(reply),
	};
	int err = make_room(state);

	if (!err)
		err = vrdma_vfio_user_exchange(user, &request);
	if (err)
		return err;
	if (reply.head.size != request.reply_size - sizeof(reply.head))
		return -EPROTO;
	memcpy(state->bytes + state->length, reply.bytes, reply.head.size);
	state->length += reply.head.size;
	return reply.head.size;
}

/* The server ends when its clients have hung up. */
static int fetch(struct vfio_user *user, struct state *state)
{
	int err = go_to(user, VFIO_DEVICE_STATE_STOP_COPY);
	ssize_t size = MAX_PIECE;

	if (err)
		return err;
	while (size == MAX_PIECE)
		size = read_piece(user, state);
	shutdown(user->socket, SHUT_RDWR);
	return size < 0 ? (int)size : 0;
}

static int write_state(struct vfio_user *user, const struct state *state)
{
	const size_t most = user->max_transfer < MAX_PIECE ? user->max_transfer : MAX_PIECE;
	size_t size;

	for (size_t at = 0; at < state->length; at += size) {
		struct vfio_user_mig_data head = {.argsz = sizeof(head)};
		struct vrdma_request request = {
			.command = VFIO_USER_MIG_DATA_WRITE,
			.parts = {{.iov_base = &head, .iov_len = sizeof(head)},
				  {.iov_base = state->bytes + at}},
		};
		int err;

		size = state->length - at < most ? state->length - at : most;
		head.size = (__u32)size;
		request.parts[1].iov_len = size;
		err = vrdma_vfio_user_exchange(user, &request);
		if (err)
			return err;
	}
	return 0;
}

static int give_again(struct vfio_user *user)
{
	const struct vrdma_given *given = &user->given;
	const struct vrdma_given_map *map;
	int err = 0;

	for (map = given->maps; map && !err; map = map->next) {
		const struct vrdma_dma dma = {
			.iova = map->iova,
			.length = map->length,
			.fd = vrdma_given_fd(map),
			.offset = map->offset,
		};

		err = vrdma_vfio_user_map(user, &dma);
	}
	if (!err)
		err = vrdma_vfio_user_set_irqs(user, VFIO_PCI_MSIX_IRQ_INDEX, given->vectors,
					       given->num_vectors);
	return err;
}

static int restore(struct vfio_user *user, const struct state *state)
{
	int err = ask_for_migration(user);

	if (!err)
		err = set_request_fd(user);
	if (!err)
		err = give_again(user);
	if (!err)
		err = go_to(user, VFIO_DEVICE_STATE_RESUMING);
	if (!err)
		err = write_state(user, state);
	if (!err)
		err = go_to(user, VFIO_DEVICE_STATE_RUNNING);
	return err;
}

/* vrdma-run removes the directory of its own vrdmad, and no other one will come. */
static bool directory_is_there(const char *path)
{
	char copy[PATH_MAX] = "";
	struct stat status;

	strncpy(copy, path, sizeof(copy) - 1);
	return stat(dirname(copy), &status) == 0;
}

/* Connects in the place of the old socket. Any error may end when the server is there. */
static int connect_again(struct vfio_user *user, uint64_t deadline)
{
	const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
	int fd = vrdma_vfio_user_connect(user->path);

	while (fd < 0 && vrdma_now_ms() < deadline && directory_is_there(user->path)) {
		nanosleep(&pause, NULL);
		fd = vrdma_vfio_user_connect(user->path);
	}
	if (fd < 0)
		return fd;
	vrdma_vfio_user_set_timeout(fd, VFIO_USER_RETURN_MS / 1000);
	if (dup3(fd, user->socket, O_CLOEXEC) < 0) {
		close(fd);
		return -EIO;
	}
	close(fd);
	user->broken = false;
	return 0;
}

/* Takes the request of the old server, before the next one can make another. */
static void end_request(struct vfio_user *user)
{
	uint64_t count;
	ssize_t size = read(user->base.request_fd, &count, sizeof(count));

	(void)size;
}

/*
 * A server may end before the device runs there (EIO, EBUSY), or have no room for a client yet. The
 * state is still here then, for the one after it.
 */
static int bring(struct vfio_user *user, const struct state *state)
{
	const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
	const uint64_t deadline = vrdma_now_ms() + VFIO_USER_RETURN_MS;
	int err = connect_again(user, deadline);

	while (!err) {
		err = vrdma_vfio_user_set_up(user);
		if (!err)
			err = restore(user, state);
		if ((err != -EIO && err != -EBUSY) || vrdma_now_ms() >= deadline)
			break;
		nanosleep(&pause, NULL);
		err = connect_again(user, deadline);
	}
	return err;
}

int vrdma_vfio_user_follow(struct vfio_user *user)
{
	struct state state = {};
	int err = !user->path || user->given.incomplete ? -EIO : fetch(user, &state);

	if (!err) {
		end_request(user);
		err = bring(user, &state);
	}
	if (!err)
		vrdma_vfio_user_set_timeout(user->socket, VRDMA_VFIO_USER_TIMEOUT_S);
	free(state.bytes);
	return err;
}

bool vrdma_vfio_user_is_gone(const char *path)
{
	const int err = errno;
	const int fd = vrdma_vfio_user_connect(path);

	if (fd >= 0)
		close(fd);
	errno = err;
	return fd == -ENOENT || fd == -ECONNREFUSED;
}

struct vrdma_bus *vrdma_vfio_user_await(const char *path)
{
	const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
	const uint64_t deadline = vrdma_now_ms() + VFIO_USER_RETURN_MS;
	struct vrdma_bus *bus = vrdma_vfio_user_open(path);

	while (!bus && vrdma_now_ms() < deadline) {
		nanosleep(&pause, NULL);
		bus = vrdma_vfio_user_open(path);
	}
	return bus;
}
