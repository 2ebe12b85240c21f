/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * One life of the device, from its first context to its last. All contexts of a process on one
 * path share it, because a device has one client at a time.
 *
 * A device that failed stays, and fails all verbs, until its contexts are closed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device.h"
#include "fork.h"

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct vrdma_dev *devices;

bool vrdma_dev_failed(struct vrdma_dev *dev)
{
	return dev->forked || __atomic_load_n(&dev->admin.dead, __ATOMIC_RELAXED);
}

/* No more commands are sent to the device. */
void vrdma_dev_fail(struct vrdma_dev *dev, const char *why)
{
	if (!vrdma_admin_kill(&dev->admin))
		return;
	fprintf(stderr, "vrdma: %s: device failed: %s\n", dev->path, why);
	vrdma_events_fatal(dev);
}

/*
 * Returns when the device does not access our memory any more, or when it has not answered the
 * reset for VRDMA_RESET_TIMEOUT_MS.
 */
void vrdma_dev_quiesce(struct vrdma_dev *dev)
{
	if (dev->forked)
		return;
	vrdma_admin_kill(&dev->admin);
	pthread_mutex_lock(&dev->quiesce_lock);
	if (!dev->quiesced)
		vrdma_function_reset(&dev->fn);
	dev->quiesced = true;
	pthread_mutex_unlock(&dev->quiesce_lock);
}

/* Makes the function answer commands. From now on, a thread follows its server. */
static int enable(struct vrdma_dev *dev)
{
	int ret = vrdma_memory_alloc(&dev->memory, &dev->status_page, VRDMA_PAGE_SIZE);

	if (ret)
		return ret;
	ret = -vrdma_function_enable(dev);
	if (!ret)
		ret = vrdma_events_start(dev);
	if (ret) {
		vrdma_dev_quiesce(dev);
		vrdma_memory_free(&dev->memory, &dev->status_page);
	}
	return ret;
}

static void disable(struct vrdma_dev *dev)
{
	vrdma_dev_quiesce(dev);
	vrdma_memory_free(&dev->memory, &dev->status_page);
}

/* Queries the function's properties, and makes what all contexts share. */
static int prepare(struct vrdma_dev *dev, const struct vrdma_options *options)
{
	int ret = -vrdma_cmd_query_device(dev, &dev->caps);

	if (!ret)
		ret = -vrdma_cmd_query_pkeys(dev, &dev->caps, &dev->pkeys);
	if (!ret)
		ret = vrdma_events_add_queues(dev);
	if (!ret)
		ret = vrdma_gids_init(dev, options);
	if (!ret)
		ret = -vrdma_sysfs_make(&dev->sysfs, dev->gids.entries, dev->gids.count,
					dev->pkeys.key, dev->pkeys.count);
	return ret;
}

static int start(struct vrdma_dev *dev, const struct vrdma_options *options)
{
	int ret = vrdma_admin_init(dev);

	if (ret)
		return ret;
	ret = enable(dev);
	if (ret)
		goto err_admin;
	ret = prepare(dev, options);
	if (ret)
		goto err_disable;
	return 0;

err_disable:
	vrdma_dev_quiesce(dev);
	vrdma_events_cleanup(dev);
	disable(dev);
err_admin:
	vrdma_admin_cleanup(dev);
	return ret;
}

/* A device's path names a socket, or a directory in sysfs. */
static struct vrdma_bus *open_bus(const char *path, bool await)
{
	struct stat status;

	if (await)
		return vrdma_vfio_user_await(path);
	if (stat(path, &status))
		return NULL;
	return S_ISDIR(status.st_mode) ? vrdma_vfio_open(path) : vrdma_vfio_user_open(path);
}

static int init(struct vrdma_dev *dev, const struct vrdma_options *options, bool await)
{
	struct vrdma_bus *bus;
	int ret;

	if (sysconf(_SC_PAGESIZE) != VRDMA_PAGE_SIZE)
		return ENOSYS; /* memory is shared in pages of the device */
	bus = open_bus(options->path, await);
	if (!bus)
		return errno;
	pthread_mutex_init(&dev->quiesce_lock, NULL);
	pthread_mutex_init(&dev->follow_lock, NULL);
	pthread_mutex_init(&dev->dm_lock, NULL);
	pthread_mutex_init(&dev->xrc_lock, NULL);
	vrdma_paging_init(&dev->paging);
	ret = -vrdma_function_init(&dev->fn, bus);
	if (ret)
		goto err_bus;
	ret = vrdma_memory_init(&dev->memory, bus);
	if (ret)
		goto err_function;
	ret = start(dev, options);
	if (ret)
		goto err_memory;
	return 0;

err_memory:
	vrdma_memory_destroy(&dev->memory);
err_function:
	vrdma_function_cleanup(&dev->fn);
err_bus:
	bus->ops->close(bus);
	return ret;
}

static void destroy(struct vrdma_dev *dev)
{
	vrdma_sysfs_remove(&dev->sysfs);
	vrdma_dev_quiesce(dev);
	vrdma_events_cleanup(dev);
	vrdma_paging_cleanup(dev);
	disable(dev);
	vrdma_admin_cleanup(dev);
	vrdma_memory_destroy(&dev->memory);
	vrdma_function_cleanup(&dev->fn);
	dev->fn.bus->ops->close(dev->fn.bus);
	free(dev->path);
	free(dev);
}

/*
 * A fork waits while another thread changes data that the child will clean up: the list of devices,
 * their bus addresses, and their tables of objects. It also waits while a device gets to its next
 * server. Otherwise the child would have descriptors of it that nobody closes.
 */
static void before_fork(void)
{
	pthread_mutex_lock(&devices_lock);
	/* Commands are executed under these two, and wait while a device gets to its next server.
	 */
	for (struct vrdma_dev *dev = devices; dev; dev = dev->next) {
		pthread_mutex_lock(&dev->paging.lock);
		pthread_mutex_lock(&dev->memory.lock);
	}
	for (struct vrdma_dev *dev = devices; dev; dev = dev->next) {
		pthread_mutex_lock(&dev->follow_lock);
		pthread_mutex_lock(&dev->events.lock);
	}
}

static void after_fork(void)
{
	for (struct vrdma_dev *dev = devices; dev; dev = dev->next) {
		pthread_mutex_unlock(&dev->events.lock);
		pthread_mutex_unlock(&dev->follow_lock);
		pthread_mutex_unlock(&dev->memory.lock);
		pthread_mutex_unlock(&dev->paging.lock);
	}
	pthread_mutex_unlock(&devices_lock);
}

/* The device stays the parent's. In the child it counts as failed, with no command in flight. */
static void after_fork_in_child(void)
{
	for (struct vrdma_dev *dev = devices; dev; dev = dev->next) {
		dev->forked = true;
		vrdma_sysfs_abandon(&dev->sysfs);
		pthread_mutex_init(&dev->admin.lock, NULL);
		pthread_cond_init(&dev->admin.changed, NULL);
		pthread_mutex_init(&dev->dm_lock, NULL);
		pthread_mutex_init(&dev->xrc_lock, NULL);
		vrdma_events_forked(&dev->events);
		vrdma_paging_forked(&dev->paging);
		dev->fn.bus->ops->abandon(dev->fn.bus);
	}
	after_fork();
	devices = NULL;
}

/*
 * The handlers of a child run in the order of registration. So the child has its copies of shared
 * memory, by the handlers of fork.c, before after_fork_in_child() runs.
 */
static void handle_forks(void)
{
	vrdma_fork_prepare();
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

void vrdma_dev_handle_forks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, handle_forks);
}

/* Under the lock. Skips devices that failed, so that a new context can try again. */
static struct vrdma_dev *find(const char *path)
{
	struct vrdma_dev *dev = devices;

	while (dev && (strcmp(dev->path, path) != 0 || vrdma_dev_failed(dev)))
		dev = dev->next;
	return dev;
}

static struct vrdma_dev *try_to_make(const struct vrdma_options *options, bool await)
{
	struct vrdma_dev *dev = calloc(1, sizeof(*dev));
	int ret;

	if (!dev)
		return NULL;
	dev->events.wake_fd = -1;
	dev->path = strdup(options->path);
	ret = dev->path ? init(dev, options, await) : ENOMEM;
	if (ret) {
		free(dev->path);
		free(dev);
		errno = ret;
		return NULL;
	}
	dev->next = devices;
	devices = dev;
	return dev;
}

/* A server that ends while a device is opened may be about to be restarted. */
static struct vrdma_dev *make(const struct vrdma_options *options)
{
	struct vrdma_dev *dev = try_to_make(options, false);

	return dev || errno != EIO || !vrdma_vfio_user_is_gone(options->path)
		       ? dev
		       : try_to_make(options, true);
}

/* A program that ends without closing its contexts would leave the files behind. */
__attribute__((destructor)) static void remove_files(void)
{
	for (struct vrdma_dev *dev = devices; dev; dev = dev->next)
		vrdma_sysfs_remove(&dev->sysfs);
}

/* Returns NULL and sets errno if there is no such device. */
struct vrdma_dev *vrdma_dev_get(const struct vrdma_options *options)
{
	struct vrdma_dev *dev;

	vrdma_dev_handle_forks();
	pthread_mutex_lock(&devices_lock);
	dev = find(options->path);
	if (!dev)
		dev = make(options);
	if (dev)
		dev->refs++;
	pthread_mutex_unlock(&devices_lock);
	return dev;
}

/* Returns a device that fits, with a reference that the caller puts, or NULL. */
struct vrdma_dev *vrdma_dev_find(bool (*fits)(struct vrdma_dev *dev, void *arg), void *arg)
{
	struct vrdma_dev *dev;

	pthread_mutex_lock(&devices_lock);
	dev = devices;
	while (dev && !fits(dev, arg))
		dev = dev->next;
	if (dev)
		dev->refs++;
	pthread_mutex_unlock(&devices_lock);
	return dev;
}

void vrdma_dev_put(struct vrdma_dev *dev)
{
	struct vrdma_dev **at = &devices;
	bool last;

	pthread_mutex_lock(&devices_lock);
	last = !--dev->refs;
	while (last && *at && *at != dev)
		at = &(*at)->next;
	if (last && *at)
		*at = dev->next;
	if (last)
		destroy(dev);
	pthread_mutex_unlock(&devices_lock);
}
