/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#define _GNU_SOURCE
#include "files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_DEVICES 64
#define CHARACTER_DEVICES "/dev/infiniband/"
#define DEVICES "/sys/class/infiniband/"

/* Devices that have been opened. Entries are added, and their directories replaced. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int count;
static struct {
	char name[64];
	char directory[256];
} devices[MAX_DEVICES];

void vrdma_run_set_directory(const char *name, const char *directory)
{
	unsigned int i = 0;

	pthread_mutex_lock(&lock);
	while (i < count && strcmp(devices[i].name, name) != 0)
		i++;
	if (i < MAX_DEVICES) {
		snprintf(devices[i].name, sizeof(devices[i].name), "%s", name);
		snprintf(devices[i].directory, sizeof(devices[i].directory), "%s", directory);
		count += i == count;
	}
	pthread_mutex_unlock(&lock);
}

static bool find_directory(const char *name, size_t length, const char *rest, char *path)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < count && !found; i++) {
		found = strlen(devices[i].name) == length &&
			strncmp(devices[i].name, name, length) == 0;
		if (found)
			snprintf(path, PATH_MAX, "%s%s", devices[i].directory, rest);
	}
	pthread_mutex_unlock(&lock);
	return found;
}

/* The file that is meant. The names of ours begin with vrdma, and no kernel's are shown. */
static const char *translate(const char *path, char *buffer)
{
	const char *name;

	if (strncmp(path, CHARACTER_DEVICES "vrdma", sizeof(CHARACTER_DEVICES "vrdma") - 1) == 0)
		return "/dev/null";
	if (strncmp(path, DEVICES, sizeof(DEVICES) - 1) != 0)
		return path;
	name = path + sizeof(DEVICES) - 1;
	return find_directory(name, strcspn(name, "/"), strchrnul(name, '/'), buffer) ? buffer
										      : path;
}

EXPORT int access(const char *path, int mode)
{
	int (*stock)(const char *, int) = dlsym(RTLD_NEXT, "access");
	char buffer[PATH_MAX];

	return stock(translate(path, buffer), mode);
}

EXPORT int stat(const char *path, struct stat *status)
{
	int (*stock)(const char *, struct stat *) = dlsym(RTLD_NEXT, "stat");
	char buffer[PATH_MAX];

	return stock(translate(path, buffer), status);
}

EXPORT int open(const char *path, int flags, ...)
{
	int (*stock)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
	char buffer[PATH_MAX];
	mode_t mode = 0;

	if (flags & (O_CREAT | O_TMPFILE)) {
		va_list arguments;

		va_start(arguments, flags);
		mode = va_arg(arguments, mode_t);
		va_end(arguments);
	}
	return stock(translate(path, buffer), flags, mode);
}
