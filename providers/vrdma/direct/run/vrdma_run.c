/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* vrdma-run(1): runs a program that sees vrdma devices without a kernel driver. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <unistd.h>

#include "embedded.h"
#include "fail.h"

static const char usage[] =
	"usage: vrdma-run [--devices NUMBER] [--] PROGRAM [ARGUMENT...]\n"
	"       vrdma-run --device PATH [--address ADDRESS]... [--device PATH ...] "
	"[--] PROGRAM [ARGUMENT...]\n";

static const char help[] =
	"\n"
	"Runs PROGRAM on vrdma devices, without a kernel driver. Without --device, a vrdmad of its "
	"own\n"
	"serves them.\n"
	"\n"
	"  -n, --devices NUMBER   number of its own devices, 1 to 8; 1 by default\n"
	"  -d, --device PATH      a socket of vrdmad, or a directory in /sys/bus/mdev/devices\n"
	"  -a, --address ADDRESS  an IP address of the device before it\n"
	"  -h, --help             print this\n";

struct request {
	char *devices;      /* as VRDMA_RUN_DEVICES has them */
	unsigned int count; /* of --devices; 0: not given */
};

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
		vrdma_run_fail("memory");
	free(*text);
	*text = longer;
}

/* Stores an absolute path, valid in any directory. It must not contain separators of the list. */
static void add_device(char **devices, const char *device)
{
	char path[PATH_MAX];

	if (!realpath(device, path))
		vrdma_run_fail(device);
	if (strpbrk(path, ",;"))
		wrong("a device's path cannot have , or ; in it");
	append(devices, ";", path);
}

static void add_address(char **devices, const char *address)
{
	unsigned char bytes[sizeof(struct in6_addr)];

	if (!*devices)
		wrong("--address must follow a --device");
	if (inet_pton(AF_INET, address, bytes) != 1 && inet_pton(AF_INET6, address, bytes) != 1)
		wrong("--address takes an IPv4 or IPv6 address");
	append(devices, ",", address);
}

static unsigned int parse_count(const char *text)
{
	char *end;
	const unsigned long count = strtoul(text, &end, 10);

	if (*end || count < 1 || count > VRDMA_RUN_MAX_EMBEDDED)
		wrong("--devices takes a number from 1 to 8");
	return (unsigned int)count;
}

static void parse(int argc, char **argv, struct request *request)
{
	static const struct option options[] = {
		{"device", required_argument, NULL, 'd'},
		{"address", required_argument, NULL, 'a'},
		{"devices", required_argument, NULL, 'n'},
		{"help", no_argument, NULL, 'h'},
		{},
	};
	int option;

	while ((option = getopt_long(argc, argv, "+d:a:n:h", options, NULL)) != -1) {
		switch (option) {
		case 'd':
			add_device(&request->devices, optarg);
			break;
		case 'a':
			add_address(&request->devices, optarg);
			break;
		case 'n':
			request->count = parse_count(optarg);
			break;
		case 'h':
			printf("%s%s", usage, help);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (request->devices && request->count)
		wrong("--device and --devices exclude each other");
}

/* Looks beside this program, where it was built; else returns the path of the installed file. */
static char *find(const char *name, const char *installed)
{
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *path;

	if (length < 0)
		vrdma_run_fail("/proc/self/exe");
	self[length] = '\0';
	*strrchr(self, '/') = '\0';
	if (asprintf(&path, "%s/%s", self, name) < 0)
		vrdma_run_fail("memory");
	if (access(path, R_OK) == 0)
		return path;
	free(path);
	return strdup(installed);
}

static unsigned int count_devices(const char *devices)
{
	unsigned int count = 1;

	for (; *devices; devices++)
		count += *devices == ';';
	return count;
}

static char *embed(unsigned int count)
{
	char *vrdmad = find("vrdmad", VRDMA_DAEMON);
	char *devices = vrdma_run_embed(vrdmad, count);

	free(vrdmad);
	return devices;
}

/* Inside another vrdma-run, returns that one's devices: the program's peers have the same ones. */
static char *without_device(unsigned int count)
{
	const char *outer = getenv("VRDMA_RUN_DEVICES");

	if (!outer || !*outer)
		return embed(count ? count : 1);
	if (count > count_devices(outer))
		wrong("the outer vrdma-run has fewer devices than --devices asks for");
	return strdup(outer);
}

/* Appends to the libraries that are preloaded already: the runtime of a sanitizer must be first. */
static char *preload(void)
{
	const char *others = getenv("LD_PRELOAD");
	char *libraries = NULL;

	if (others && *others)
		append(&libraries, ":", others);
	append(&libraries, ":", find("libvrdma-run.so", VRDMA_LIBRARY));
	return libraries;
}

__attribute__((noreturn)) static void execute(char **command)
{
	bool missing;

	execvp(command[0], command);
	missing = errno == ENOENT;
	vrdma_run_complain(command[0]);
	exit(missing ? VRDMA_RUN_NOT_THERE : VRDMA_RUN_NOT_EXECUTED);
}

int main(int argc, char **argv)
{
	struct request request = {};

	parse(argc, argv, &request);
	if (optind == argc)
		wrong("no PROGRAM is given");
	if (!request.devices)
		request.devices = without_device(request.count);
	if (setenv("VRDMA_RUN_DEVICES", request.devices, 1) || setenv("LD_PRELOAD", preload(), 1))
		vrdma_run_fail("environment");
	execute(argv + optind);
}
