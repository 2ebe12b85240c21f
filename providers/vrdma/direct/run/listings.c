/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Opens directories by their translated paths (files.h). A device's directory of interfaces becomes
 * /sys/class/net, of which only the device's interfaces are listed (network.h).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "files.h"
#include "network.h"

#define EXPORT __attribute__((visibility("default")))
#define MAX_LISTINGS 16

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "");

/* Looked up once, because programs read directories often. */
static struct {
	DIR *(*open)(const char *path);
	struct dirent *(*read)(DIR *dir);
	int (*close)(DIR *dir);
} stock;

/*
 * Directories of interfaces that are open. There is no lock, because a child of fork() might find
 * it taken. An entry belongs to its opener until opendir() has returned. Then it is used like the
 * DIR itself, by one thread at a time.
 */
static struct listing {
	_Atomic(DIR *) dir;
	struct vrdma_run_network network;
} listings[MAX_LISTINGS];

static void find_stock(void)
{
	stock.open = (DIR * (*)(const char *)) dlsym(RTLD_NEXT, "opendir");
	stock.read = (struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir");
	stock.close = (int (*)(DIR *))dlsym(RTLD_NEXT, "closedir");
}

static void use_stock(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_stock);
}

static struct listing *find(DIR *dir)
{
	for (unsigned int i = 0; i < MAX_LISTINGS; i++)
		if (listings[i].dir == dir)
			return &listings[i];
	return NULL;
}

static bool remember(DIR *dir, const struct vrdma_run_network *network)
{
	for (unsigned int i = 0; i < MAX_LISTINGS; i++) {
		DIR *none = NULL;

		if (atomic_compare_exchange_strong(&listings[i].dir, &none, dir)) {
			listings[i].network = *network;
			return true;
		}
	}
	return false;
}

EXPORT DIR *opendir(const char *path)
{
	struct vrdma_run_network network;
	char buffer[PATH_MAX];
	DIR *dir;

	use_stock();
	dir = stock.open(vrdma_run_translate(path, buffer));
	if (!dir || !vrdma_run_get_network(path, &network) || remember(dir, &network))
		return dir;
	stock.close(dir);
	errno = EMFILE;
	return NULL;
}

/* Interfaces are directories for a kernel's device, but links in /sys/class/net. */
static struct dirent *next(DIR *dir)
{
	const struct listing *listing = find(dir);
	struct dirent *entry;

	use_stock();
	do
		entry = stock.read(dir);
	while (entry && listing &&
	       !vrdma_run_lists(&listing->network, entry->d_name, strlen(entry->d_name)));
	if (entry && listing)
		entry->d_type = DT_DIR;
	return entry;
}

EXPORT struct dirent *readdir(DIR *dir)
{
	return next(dir);
}

EXPORT struct dirent64 *readdir64(DIR *dir)
{
	return (struct dirent64 *)next(dir);
}

EXPORT int closedir(DIR *dir)
{
	struct listing *listing = find(dir);

	use_stock();
	if (listing)
		listing->dir = NULL;
	return stock.close(dir);
}
