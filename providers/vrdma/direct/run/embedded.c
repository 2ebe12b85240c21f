/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#define _GNU_SOURCE
#include "embedded.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "directory.h"
#include "fail.h"
#include "keeper.h"

#define START_MS 30000 /* a machine for tests is often busy */
#define END_MS 5000
#define MAX_CLIENTS 16 /* of a device */
/* vrdmad divides mappings and file descriptors among all clients. Each client needs enough. */
#define MAX_ALL_CLIENTS 64

/* --- The devices of vrdmad --- */

static FILE *open_text(char **text, size_t *size)
{
	FILE *out = open_memstream(text, size);

	if (!out)
		vrdma_run_fail("memory");
	return out;
}

static void close_text(FILE *out)
{
	if (fclose(out))
		vrdma_run_fail("memory");
}

/* localhost may be an IPv4 or an IPv6 address. */
static void print_addresses(FILE *out, unsigned int device)
{
	fprintf(out, "127.0.0.%u%s", device + 1, device == 0 ? ",::1" : "");
}

char *vrdma_run_embedded_devices(const char *directory, unsigned int count)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_text(&text, &size);

	for (unsigned int i = 0; i < count; i++) {
		fprintf(out, "%s%s/vrdma%u.sock,", i ? ";" : "", directory, i);
		print_addresses(out, i);
	}
	close_text(out);
	return text;
}

static unsigned int clients_of_each(unsigned int count)
{
	const unsigned int share = MAX_ALL_CLIENTS / count;

	return share < MAX_CLIENTS ? share : MAX_CLIENTS;
}

static void print_device(FILE *out, const char *directory, unsigned int device, unsigned int count)
{
	fprintf(out, "\n[[vfio_user]]\nname = \"vrdma%u\"\nsocket = \"%s/vrdma%u.sock\"\n", device,
		directory, device);
	fputs("addresses = \"", out);
	print_addresses(out, device);
	fprintf(out, "\"\ntype = \"medium\"\nclients = %u\nwindow_gib = 32\n",
		clients_of_each(count));
}

/* vrdmad logs to the program's standard error, so it logs errors only. */
char *vrdma_run_embedded_config(const char *directory, unsigned int count)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_text(&text, &size);

	fputs("log_level = \"error\"\nmdev = false\n\n[control]\nsocket = \"\"\n\n"
	      "[soft]\nrealtime_priority = 0\n",
	      out);
	for (unsigned int i = 0; i < count; i++)
		print_device(out, directory, i, count);
	close_text(out);
	return text;
}

/* --- Starting it --- */

__attribute__((noreturn)) static void give_up(const char *directory, const char *what)
{
	vrdma_run_complain(what);
	vrdma_run_remove_directory(directory);
	exit(VRDMA_RUN_NOT_THERE);
}

static char *make_directory(void)
{
	char *directory = vrdma_run_make_directory();

	if (!directory)
		vrdma_run_fail(vrdma_run_directory_parent());
	return directory;
}

static void write_config(const char *directory, unsigned int count)
{
	char *text = vrdma_run_embedded_config(directory, count);
	char *path = vrdma_run_config_path(directory);
	FILE *out = fopen(path, "we");

	if (!out || fputs(text, out) < 0 || fclose(out))
		give_up(directory, path);
	free(path);
	free(text);
}

/* The keeper must not be a child of the program, which may wait for all its children. */
static void start_keeper(const struct vrdma_run_keeper *keeper)
{
	pid_t pid = fork();

	if (pid < 0)
		give_up(keeper->directory, "fork");
	if (pid > 0) {
		waitpid(pid, NULL, 0);
		return;
	}
	/* Signals of terminal keys are for the program, which may need its devices to the end. */
	setsid();
	pid = fork();
	if (pid == 0)
		vrdma_run_keep(keeper);
	if (pid < 0)
		vrdma_run_complain("fork");
	_exit(0);
}

static void await_start(const char *directory, int started)
{
	char byte;

	if (read(started, &byte, 1) == 1)
		return;
	/* The keeper has printed the reason, if it could. */
	vrdma_run_remove_directory(directory);
	exit(VRDMA_RUN_NOT_THERE);
}

/* vrdmad and the program share memory by such files. A filter of system calls may refuse them. */
static void check_memfd(void)
{
	int fd = memfd_create("vrdma-run", MFD_CLOEXEC);

	if (fd < 0)
		vrdma_run_fail("memfd_create");
	close(fd);
}

char *vrdma_run_embed(const char *vrdmad, unsigned int count)
{
	struct vrdma_run_keeper keeper = {
		.vrdmad = vrdmad,
		.program = (int)syscall(SYS_pidfd_open, getpid(), 0),
		.start_ms = START_MS,
		.end_ms = END_MS,
	};
	char *directory, *devices;
	int started[2];

	if (keeper.program < 0)
		vrdma_run_fail("pidfd_open");
	check_memfd();
	if (pipe2(started, O_CLOEXEC))
		vrdma_run_fail("pipe");
	directory = make_directory();
	keeper.directory = directory;
	keeper.started = started[1];
	write_config(directory, count);
	start_keeper(&keeper);
	close(keeper.program);
	close(started[1]);
	await_start(directory, started[0]);
	close(started[0]);
	devices = vrdma_run_embedded_devices(directory, count);
	free(directory);
	return devices;
}
