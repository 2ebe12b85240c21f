/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#define _GNU_SOURCE
#include <sys/cdefs.h>
/* Programs may pass NULL, which the kernel refuses. The compiler must not rule that out. */
#undef __nonnull
#define __nonnull(parameters)
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
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "../vrdmadv.h"
#include "network.h"

#define EXPORT __attribute__((visibility("default")))
#define MAX_DEVICES 64
#define CHARACTER_DEVICES "/dev/infiniband/"
#define CONNECTION_MANAGER CHARACTER_DEVICES "rdma_cm"
#define DEVICES VRDMA_RUN_SYSFS_DEVICES

/*
 * The C library's functions. Other system calls would do the same, but a program's seccomp filter
 * may forbid those. The functions are looked up early, because dlsym() is not for signal handlers.
 * Constructors of other libraries may run even earlier.
 */
static struct {
	int (*access)(const char *path, int mode);
	int (*fstat)(int fd, struct stat *status); /* NULL before glibc 2.33 */
	ssize_t (*write)(int fd, const void *data, size_t length);
	int (*close)(int fd);
} stock;

__attribute__((constructor)) static void find_stock(void)
{
	stock.access = (int (*)(const char *, int))dlsym(RTLD_NEXT, "access");
	stock.fstat = (int (*)(int, struct stat *))dlsym(RTLD_NEXT, "fstat");
	stock.write = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
	stock.close = (int (*)(int))dlsym(RTLD_NEXT, "close");
}

static void use_stock(void)
{
	if (!stock.close)
		find_stock();
}

/* Devices that have been opened. Entries are never removed, but their directories change. */
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

/* Names of our devices begin with vrdma. The kernel's own devices are not shown. */
const char *vrdma_run_translate(const char *path, char *buffer)
{
	const char *name;

	if (!path)
		return path;
	if (strncmp(path, CHARACTER_DEVICES "vrdma", sizeof(CHARACTER_DEVICES "vrdma") - 1) == 0)
		return "/dev/null";
	if (strncmp(path, DEVICES, sizeof(DEVICES) - 1) != 0)
		return path;
	name = path + sizeof(DEVICES) - 1;
	if (vrdma_run_find_network(path, buffer) ||
	    find_directory(name, strcspn(name, "/"), strchrnul(name, '/'), buffer))
		return buffer;
	return path;
}

EXPORT int access(const char *path, int mode)
{
	char buffer[PATH_MAX];

	use_stock();
	return stock.access(vrdma_run_translate(path, buffer), mode);
}

/*
 * These call newer functions of the C library, which are not replaced and make the same system
 * call. If there is no such function, they make the system call.
 */
EXPORT int stat(const char *path, struct stat *status)
{
	char buffer[PATH_MAX];

	return fstatat(AT_FDCWD, vrdma_run_translate(path, buffer), status, 0);
}

EXPORT int stat64(const char *path, struct stat64 *status)
{
	char buffer[PATH_MAX];

	return fstatat64(AT_FDCWD, vrdma_run_translate(path, buffer), status, 0);
}

EXPORT int lstat(const char *path, struct stat *status)
{
	char buffer[PATH_MAX];

	return fstatat(AT_FDCWD, vrdma_run_translate(path, buffer), status, AT_SYMLINK_NOFOLLOW);
}

EXPORT int lstat64(const char *path, struct stat64 *status)
{
	char buffer[PATH_MAX];

	return fstatat64(AT_FDCWD, vrdma_run_translate(path, buffer), status, AT_SYMLINK_NOFOLLOW);
}

/* With a directory there may be no path: the program then asks for the directory's own status. */
EXPORT int statx(int directory, const char *path, int flags, unsigned int mask,
		 struct statx *status)
{
	char buffer[PATH_MAX];

	if (directory == AT_FDCWD)
		path = vrdma_run_translate(path, buffer);
	return (int)syscall(SYS_statx, directory, path, flags, mask, status);
}

EXPORT ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	char buffer[PATH_MAX];

	return syscall(SYS_getxattr, vrdma_run_translate(path, buffer), name, value, size);
}

EXPORT ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
	char buffer[PATH_MAX];

	return syscall(SYS_lgetxattr, vrdma_run_translate(path, buffer), name, value, size);
}

EXPORT int open(const char *path, int flags, ...)
{
	char buffer[PATH_MAX];
	mode_t mode = 0;

	/* O_TMPFILE has the bit of O_DIRECTORY, too. */
	if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {
		va_list arguments;

		va_start(arguments, flags);
		mode = va_arg(arguments, mode_t); /* NOLINT(clang-analyzer-valist.Uninitialized) */
		va_end(arguments);
	}
	if (path && strcmp(path, CONNECTION_MANAGER) == 0)
		return vrdma_run_open_cm();
	return openat(AT_FDCWD, vrdma_run_translate(path, buffer), flags, mode);
}

/* open() can open files of any size. */
EXPORT int open64(const char *path, int flags, ...) __attribute__((alias("open")));

/* librdmacm checks that it has opened a character device. */
static int get_status(int fd, struct stat *status)
{
	int ret;

	use_stock();
	ret = stock.fstat ? stock.fstat(fd, status) : fstatat(fd, "", status, AT_EMPTY_PATH);
	if (!ret && vrdmadv_cm_is_open(fd))
		status->st_mode = (status->st_mode & ~(mode_t)S_IFMT) | S_IFCHR;
	return ret;
}

EXPORT int fstat(int fd, struct stat *status)
{
	return get_status(fd, status);
}

/* For programs that were linked before glibc 2.33, and for ThreadSanitizer. */
EXPORT int __fxstat(int version, int fd, struct stat *status);
int __fxstat(int version, int fd, struct stat *status)
{
	(void)version; /* there is only one */
	return get_status(fd, status);
}

EXPORT ssize_t write(int fd, const void *data, size_t length)
{
	use_stock();
	return vrdmadv_cm_is_open(fd) ? vrdmadv_cm_write(fd, data, length)
				      : stock.write(fd, data, length);
}

EXPORT int close(int fd)
{
	use_stock();
	vrdmadv_cm_close(fd);
	return stock.close(fd);
}
