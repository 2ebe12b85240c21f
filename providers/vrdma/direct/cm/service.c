/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Channels that programs have open. While a channel is open, all devices that can be opened are
 * open, and ids can be bound to them. A device's QP1 is created for the first id that needs it. A
 * request to a process that has only started is therefore lost instead of refused, and the peer
 * retransmits it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../vrdmadv.h"
#include "cm.h"
#include "gsi.h"

#define EXPORT __attribute__((visibility("default")))
#define MAX_FDS 65536
#define RETRY_MS 1
#define MAX_MESSAGES 64 /* of one device, before other devices get the lock */

struct vrdma_cm_device {
	struct vrdma_cm_port port;
	struct vrdma_cm_device *next;
	struct vrdma_dev *dev;
	struct vrdma_gsi gsi;
	bool started;
};

/* Serializes opening and closing, which take too long for vrdma_cm_lock. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct vrdma_cm_device *devices;

/*
 * The cookies of files that are channels, indexed by the files' numbers. They distinguish writes to
 * channels from all other writes of a program, without a lock. The table is allocated when the
 * first channel is opened.
 */
static uint64_t *cookies;
static pid_t owner;

/* --- Devices --- */

static struct vrdma_cm_device *device_of(struct vrdma_cm_port *port)
{
	return container_of(port, struct vrdma_cm_device, port);
}

static int start_port(struct vrdma_cm_port *port)
{
	struct vrdma_cm_device *device = device_of(port);
	int ret;

	if (device->started)
		return 0;
	ret = vrdma_gsi_start(&device->gsi, device->dev);
	device->started = !ret;
	return ret;
}

static int listen_to(struct vrdma_cm_port *port, uint64_t service_id)
{
	if (!port->function_bits)
		return 0;
	return -vrdma_cmd_listen(device_of(port)->dev, VRDMA_ADMIN_LISTEN, service_id);
}

static void stop_listening(struct vrdma_cm_port *port, uint64_t service_id)
{
	if (port->function_bits)
		vrdma_cmd_listen(device_of(port)->dev, VRDMA_ADMIN_UNLISTEN, service_id);
}

static void send_mad(struct vrdma_cm_port *port, const struct vrdma_av *to,
		     const struct vrdma_mad *mad)
{
	if (device_of(port)->started)
		vrdma_gsi_send(&device_of(port)->gsi, to, mad);
}

static void wake_port(struct vrdma_cm_port *port)
{
	vrdma_events_wake(&device_of(port)->dev->events);
}

static struct vrdma_cm_device *make_device(struct vrdma_dev *dev)
{
	struct vrdma_cm_device *device = calloc(1, sizeof(*device));
	struct vrdma_cpl_query_port cpl;

	if (!device)
		return NULL;
	if (vrdma_cmd_query_port(dev, &cpl)) {
		free(device);
		return NULL;
	}
	device->dev = dev;
	device->port = (struct vrdma_cm_port){
		.gids = dev->gids,
		.mtu = cpl.active_mtu,
		.pkey_index = dev->pkeys.of_managers,
		.function_bits = dev->caps.function_bits,
		.function = dev->caps.function,
		.start = start_port,
		.listen = listen_to,
		.unlisten = stop_listening,
		.send = send_mad,
		.wake = wake_port,
	};
	memcpy(device->port.guid, dev->caps.node_guid, sizeof(device->port.guid));
	return device;
}

/* A device that cannot be opened is left out, as by ibv_get_device_list(). */
static void open_device(const struct vrdmadv_device_attr *attr, int index)
{
	struct vrdma_options options;
	struct vrdma_dev *dev = NULL;
	struct vrdma_cm_device *device = NULL;

	if (vrdma_direct_options(attr, index, &options))
		dev = vrdma_dev_get(&options);
	if (dev)
		device = make_device(dev);
	pthread_mutex_lock(&vrdma_cm_lock);
	if (device && vrdma_cm_add_port(&device->port)) {
		device->next = devices;
		devices = device;
		__atomic_store_n(&dev->cm, device, __ATOMIC_RELEASE);
		dev = NULL;
		device = NULL;
	}
	pthread_mutex_unlock(&vrdma_cm_lock);
	free(device);
	if (dev)
		vrdma_dev_put(dev);
}

/* The caller holds vrdma_cm_lock. The device may have failed. */
static void detach(struct vrdma_dev *dev)
{
	if (!dev->cm)
		return;
	vrdma_cm_port_gone(&dev->cm->port);
	vrdma_cm_remove_port(&dev->cm->port);
	__atomic_store_n(&dev->cm, NULL, __ATOMIC_RELAXED);
}

/* An event thread may be waiting for the lock. It then finds no device, and does nothing. */
static void close_devices(void)
{
	while (devices) {
		struct vrdma_cm_device *device = devices;

		pthread_mutex_lock(&vrdma_cm_lock);
		detach(device->dev);
		devices = device->next;
		pthread_mutex_unlock(&vrdma_cm_lock);
		if (device->started)
			vrdma_gsi_stop(&device->gsi);
		vrdma_dev_put(device->dev);
		free(device);
	}
}

int vrdma_cm_run(struct vrdma_dev *dev)
{
	struct vrdma_cm_device *device;
	struct vrdma_gsi_message message;
	uint64_t now;
	int wait = -1;

	if (!__atomic_load_n(&dev->cm, __ATOMIC_ACQUIRE))
		return wait;
	/* Who has the lock may wait for an answer, and this thread may have to bring the device on.
	 */
	if (pthread_mutex_trylock(&vrdma_cm_lock))
		return RETRY_MS;
	device = dev->cm;
	if (device && device->started) {
		int budget = MAX_MESSAGES;

		vrdma_gsi_arm(&device->gsi);
		while (budget && vrdma_gsi_receive(&device->gsi, &message)) {
			vrdma_cm_received(&device->port, &message.sender, &message.mad);
			budget--;
		}
		now = vrdma_cm_now();
		vrdma_cm_expire(&device->port, now);
		if (!budget)
			wait = 0;
		else if (device->port.deadline)
			wait = device->port.deadline > now ? (int)(device->port.deadline - now) : 0;
	}
	pthread_mutex_unlock(&vrdma_cm_lock);
	return wait;
}

void vrdma_cm_device_failed(struct vrdma_dev *dev)
{
	pthread_mutex_lock(&vrdma_cm_lock);
	detach(dev);
	pthread_mutex_unlock(&vrdma_cm_lock);
}

/* --- fork() and exit() --- */

static void before_fork(void)
{
	pthread_mutex_lock(&open_lock);
	pthread_mutex_lock(&vrdma_cm_lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&vrdma_cm_lock);
	pthread_mutex_unlock(&open_lock);
}

/* Channels, ids and devices stay the parent's. In the child, commands on a channel get EBADF. */
static void after_fork_in_child(void)
{
	vrdma_cm_table_forget();
	for (; devices; devices = devices->next)
		detach(devices->dev);
	after_fork();
}

/*
 * Our locks are taken before those of devices. Handlers that run before a fork() run in the reverse
 * order of registration, so ours are registered after those of devices.
 */
static void handle_forks(void)
{
	vrdma_dev_handle_forks();
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

static void close_channel(struct vrdma_cm_channel *channel)
{
	struct vrdma_cm_id *id;
	uint32_t handle = 0;

	__atomic_store_n(&cookies[channel->fd], 0, __ATOMIC_RELAXED);
	while ((id = vrdma_cm_id_next(&handle)))
		if (id->channel == channel)
			vrdma_cm_destroy(id);
	vrdma_cm_channel_free(channel);
}

static void close_all(bool (*matches)(const struct vrdma_cm_channel *channel, int fd), int fd)
{
	struct vrdma_cm_channel *channel;
	bool last;

	pthread_mutex_lock(&open_lock);
	pthread_mutex_lock(&vrdma_cm_lock);
	channel = vrdma_cm_channel_first();
	while (channel) {
		struct vrdma_cm_channel *next = channel->next;

		if (matches(channel, fd))
			close_channel(channel);
		channel = next;
	}
	last = !vrdma_cm_channel_first();
	pthread_mutex_unlock(&vrdma_cm_lock);
	if (last)
		close_devices();
	pthread_mutex_unlock(&open_lock);
}

static bool is_any(const struct vrdma_cm_channel *channel, int fd)
{
	(void)channel;
	(void)fd;
	return true;
}

static bool has_fd(const struct vrdma_cm_channel *channel, int fd)
{
	return channel->fd == fd;
}

/* Whether the channel was closed by other calls than close(): by close_range() or dup2(). */
static bool is_lost(const struct vrdma_cm_channel *channel, int fd)
{
	(void)fd;
	return vrdma_cm_cookie(channel->fd) != channel->cookie;
}

/* Tells peers that their connections end. */
__attribute__((destructor)) static void at_exit(void)
{
	close_all(is_any, 0);
}

/* --- Channels --- */

/* The caller holds vrdma_cm_lock. */
static int open_channel(void)
{
	uint64_t *const table = cookies ? cookies : calloc(MAX_FDS, sizeof(*cookies));
	const struct vrdma_cm_channel *channel;

	if (!table)
		return -1;
	__atomic_store_n(&cookies, table, __ATOMIC_RELEASE);
	channel = vrdma_cm_channel_new(MAX_FDS);
	if (!channel)
		return -1;
	owner = getpid();
	__atomic_store_n(&cookies[channel->fd], channel->cookie, __ATOMIC_RELEASE);
	return channel->fd;
}

EXPORT int vrdmadv_cm_open(const struct vrdmadv_device_attr *attr, int count)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int fd;

	close_all(is_lost, 0);
	pthread_mutex_lock(&open_lock);
	for (int i = 0; i < count && !vrdma_cm_channel_first(); i++)
		open_device(&attr[i], i);
	pthread_once(&once, handle_forks);
	pthread_mutex_lock(&vrdma_cm_lock);
	fd = open_channel();
	pthread_mutex_unlock(&vrdma_cm_lock);
	pthread_mutex_unlock(&open_lock);
	return fd;
}

/* The cookie of the channel whose file has, or had, this number. 0: there was none. */
static uint64_t cookie_of(int fd)
{
	const uint64_t *const table = __atomic_load_n(&cookies, __ATOMIC_ACQUIRE);

	return table && fd >= 0 && fd < MAX_FDS ? __atomic_load_n(&table[fd], __ATOMIC_ACQUIRE) : 0;
}

EXPORT int vrdmadv_cm_is_open(int fd)
{
	const uint64_t cookie = cookie_of(fd);

	return cookie && vrdma_cm_cookie(fd) == cookie;
}

/* A child of vfork() shares our memory, but closes only files of its own. */
EXPORT void vrdmadv_cm_close(int fd)
{
	if (cookie_of(fd) && owner == getpid())
		close_all(has_fd, fd);
}

static int execute(int fd, const void *command, size_t length)
{
	struct vrdma_cm_channel *channel;
	int ret;

	pthread_mutex_lock(&vrdma_cm_lock);
	channel = vrdma_cm_channel_find(fd);
	ret = channel ? vrdma_cm_command(channel, command, length) : EBADF;
	pthread_mutex_unlock(&vrdma_cm_lock);
	return ret;
}

/*
 * Waits on a duplicate of the file, because a program may close a channel while one of its threads
 * waits. That thread then waits for ever, as on a channel of the kernel. A signal interrupts the
 * wait, as on a channel of the kernel.
 */
static int wait_for_event(int fd, const void *command, size_t length)
{
	struct pollfd readable = {.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0), .events = POLLIN};
	int ret;

	if (readable.fd < 0)
		return errno;
	do
		ret = poll(&readable, 1, -1) < 0 ? errno : execute(fd, command, length);
	while (ret == EAGAIN);
	close(readable.fd);
	return ret;
}

EXPORT ssize_t vrdmadv_cm_write(int fd, const void *command, size_t length)
{
	int ret = execute(fd, command, length);

	if (ret == EAGAIN && !(fcntl(fd, F_GETFL) & O_NONBLOCK))
		ret = wait_for_event(fd, command, length);
	if (!ret)
		return (ssize_t)length;
	errno = ret;
	return -1;
}
