/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* vrdma-run(1): a program that sees vrdma devices without a kernel driver. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libvrdma-run.so"

static const char usage[] =
	"usage: vrdma-run --device PATH [--address ADDRESS]... [--device PATH ...] "
	"[--] PROGRAM [ARGUMENT...]\n";

static void fail(const char *what)
{
	fprintf(stderr, "vrdma-run: %s: %s\n", what, strerror(errno));
	exit(127);
}

static void wrong(const char *what)
{
	fprintf(stderr, "vrdma-run: %s\n%s", what, usage);
	exit(2);
}

/* Adds separator and value to *text. */
static void append(char **text, const char *separator, const char *value)
{
	char *longer;

	if (asprintf(&longer, "%s%s%s", *text ? *text : "", *text ? separator : "", value) < 0)
		fail("memory");
	free(*text);
	*text = longer;
}

/* Devices are found from any directory; the separators of the list cannot be in their names. */
static void add_device(char **devices, const char *device)
{
	char path[PATH_MAX];

	if (!realpath(device, path))
		fail(device);
	if (strpbrk(path, ",;"))
		wrong("a device's path cannot have , or ; in it");
	append(devices, ";", path);
}

static void add_address(char **devices, const char *address)
{
	unsigned char bytes[sizeof(struct in6_addr)];

	if (!*devices)
		wrong("--address is of the --device before it");
	if (inet_pton(AF_INET, address, bytes) != 1 && inet_pton(AF_INET6, address, bytes) != 1)
		wrong("--address wants an IPv4 or IPv6 address");
	append(devices, ",", address);
}

static char *parse(int argc, char **argv)
{
	static const struct option options[] = {
		{"device", required_argument, NULL, 'd'},
		{"address", required_argument, NULL, 'a'},
		{"help", no_argument, NULL, 'h'},
		{},
	};
	char *devices = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "+d:a:h", options, NULL)) != -1) {
		switch (option) {
		case 'd':
			add_device(&devices, optarg);
			break;
		case 'a':
			add_address(&devices, optarg);
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	return devices;
}

/* Beside this program, where it was built; else where it is installed. */
static char *library(void)
{
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *path;

	if (length < 0)
		fail("/proc/self/exe");
	self[length] = '\0';
	*strrchr(self, '/') = '\0';
	if (asprintf(&path, "%s/" LIBRARY, self) < 0)
		fail("memory");
	if (access(path, R_OK) == 0)
		return path;
	free(path);
	return strdup(VRDMA_LIBRARY_DIRECTORY "/" LIBRARY);
}

/* After what is preloaded already: the runtime of a sanitizer has to be first. */
static char *preload(void)
{
	const char *others = getenv("LD_PRELOAD");
	char *libraries = NULL;

	if (others && *others)
		append(&libraries, ":", others);
	append(&libraries, ":", library());
	return libraries;
}

int main(int argc, char **argv)
{
	char *devices = parse(argc, argv);

	if (!devices)
		wrong("which --device?");
	if (optind == argc)
		wrong("which program?");
	if (setenv("VRDMA_RUN_DEVICES", devices, 1) || setenv("LD_PRELOAD", preload(), 1))
		fail("environment");
	execvp(argv[optind], argv + optind);
	fail(argv[optind]);
}
