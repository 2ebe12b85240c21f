/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#define _GNU_SOURCE
#include "files.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* By the functions' newer kin, which are not replaced. */
EXPORT int access(const char *path, int mode)
{
	char buffer[PATH_MAX];

	return faccessat(AT_FDCWD, translate(path, buffer), mode, 0);
}

EXPORT int stat(const char *path, struct stat *status)
{
	char buffer[PATH_MAX];

	return fstatat(AT_FDCWD, translate(path, buffer), status, 0);
}

EXPORT int open(const char *path, int flags, ...)
{
	char buffer[PATH_MAX];
	mode_t mode = 0;

	if (flags & (O_CREAT | O_TMPFILE)) {
		va_list arguments;

		va_start(arguments, flags);
		mode = va_arg(arguments, mode_t); /* NOLINT(clang-analyzer-valist.Uninitialized) */
		va_end(arguments);
	}
	return openat(AT_FDCWD, translate(path, buffer), flags, mode);
}
