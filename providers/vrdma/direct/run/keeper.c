/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#define _GNU_SOURCE
#include "keeper.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../clock.h"
#include "directory.h"
#include "fail.h"

#define PROGRAM 3 /* the keeper's file descriptors, after the standard ones */
#define STARTED 4
#define FIRST_FREE 5

struct vrdmad {
	pid_t pid;
	int pidfd;
	int notices; /* of sd_notify(3), a socket */
};

char *vrdma_run_config_path(const char *directory)
{
	return vrdma_run_path_in(directory, "vrdmad.conf");
}

static char *notices_path(const char *directory)
{
	return vrdma_run_path_in(directory, "notices");
}

/* --- The keeper itself --- */

/* Closes all other files. Otherwise the keeper would keep a pipe open, or a file system busy. */
static void let_go(const struct vrdma_run_keeper *keeper)
{
	const int program = fcntl(keeper->program, F_DUPFD, FIRST_FREE);
	const int started = fcntl(keeper->started, F_DUPFD, FIRST_FREE);
	const int null = open("/dev/null", O_RDWR);

	if (program < 0 || started < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(null, STDOUT_FILENO) < 0 || dup3(program, PROGRAM, O_CLOEXEC) < 0 ||
	    dup3(started, STARTED, O_CLOEXEC) < 0 || chdir("/"))
		vrdma_run_fail("keeper");
	close_range(FIRST_FREE, UINT_MAX, 0);
}

/* SIGTERM to all processes ends the program. The keeper must survive that, to clean up. */
static void keep_signals_off(sigset_t *usual)
{
	sigset_t signals;

	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, usual);
}

/* --- vrdmad --- */

static bool open_notices(const char *directory, struct vrdmad *vrdmad)
{
	char *path = notices_path(directory);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	bool open;

	vrdmad->notices = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	open = vrdmad->notices >= 0 &&
	       bind(vrdmad->notices, (const struct sockaddr *)&address, sizeof(address)) == 0;
	if (!open)
		vrdma_run_complain(path);
	free(path);
	return open;
}

/* vrdmad must not load the program's libraries: it allows itself only the system calls it knows. */
static void set_environment(const char *directory)
{
	char *path = notices_path(directory);

	setenv("NOTIFY_SOCKET", path, 1);
	unsetenv("LD_PRELOAD");
	free(path);
}

__attribute__((noreturn)) static void become_vrdmad(const struct vrdma_run_keeper *keeper,
						    pid_t parent, const sigset_t *usual)
{
	char *config = vrdma_run_config_path(keeper->directory);

	set_environment(keeper->directory);
	sigprocmask(SIG_SETMASK, usual, NULL);
	/* If the keeper is killed, the kernel kills vrdmad as well. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent)
		execl(keeper->vrdmad, "vrdmad", "--config", config, NULL);
	vrdma_run_complain(keeper->vrdmad);
	_exit(VRDMA_RUN_NOT_THERE);
}

static bool start(const struct vrdma_run_keeper *keeper, const sigset_t *usual,
		  struct vrdmad *vrdmad)
{
	const pid_t parent = getpid();

	if (!open_notices(keeper->directory, vrdmad))
		return false;
	vrdmad->pid = fork();
	if (vrdmad->pid == 0)
		become_vrdmad(keeper, parent, usual);
	vrdmad->pidfd = vrdmad->pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, vrdmad->pid, 0);
	if (vrdmad->pidfd < 0)
		vrdma_run_complain("fork");
	return vrdmad->pidfd >= 0;
}

/* --- Waiting --- */

/* A notice is a datagram of lines. The line READY=1 says that vrdmad serves. */
static bool says_ready(int notices)
{
	char text[256];
	const ssize_t length = recv(notices, text, sizeof(text) - 1, 0);

	text[length > 0 ? length : 0] = '\0';
	return strncmp(text, "READY=1", 7) == 0 || strstr(text, "\nREADY=1");
}

static bool refuse(const struct vrdma_run_keeper *keeper, const char *why)
{
	fprintf(stderr, "vrdma-run: %s %s\n", keeper->vrdmad, why);
	return false;
}

/* False if vrdmad does not serve, or the program has ended. */
static bool await_ready(const struct vrdma_run_keeper *keeper, const struct vrdmad *vrdmad)
{
	const int64_t deadline = (int64_t)vrdma_now_ms() + keeper->start_ms;
	struct pollfd fds[] = {
		{.fd = vrdmad->notices, .events = POLLIN},
		{.fd = vrdmad->pidfd, .events = POLLIN},
		{.fd = PROGRAM, .events = POLLIN},
	};

	for (int64_t left = keeper->start_ms; left > 0; left = deadline - (int64_t)vrdma_now_ms()) {
		if (poll(fds, 3, (int)left) < 0)
			continue;
		if (fds[2].revents)
			return false;
		if (fds[0].revents && says_ready(vrdmad->notices))
			return true;
		if (fds[1].revents && !fds[0].revents)
			return refuse(keeper, "has ended before it was ready");
	}
	return refuse(keeper, "was not ready in time");
}

static void await_end(const struct vrdmad *vrdmad)
{
	struct pollfd fds[] = {
		{.fd = PROGRAM, .events = POLLIN},
		{.fd = vrdmad->pidfd, .events = POLLIN},
	};

	while (poll(fds, 2, -1) < 0)
		;
	if (!fds[0].revents)
		fputs("vrdma-run: vrdmad has ended\n", stderr);
}

/* --- The end --- */

static void end(const struct vrdma_run_keeper *keeper, const struct vrdmad *vrdmad)
{
	struct pollfd fd = {.fd = vrdmad->pidfd, .events = POLLIN};

	kill(vrdmad->pid, SIGTERM);
	if (poll(&fd, 1, keeper->end_ms) <= 0)
		kill(vrdmad->pid, SIGKILL);
	waitpid(vrdmad->pid, NULL, 0);
}

static void serve(const struct vrdma_run_keeper *keeper, const sigset_t *usual)
{
	struct vrdmad vrdmad;
	bool ready;

	if (!start(keeper, usual, &vrdmad))
		return;
	ready = await_ready(keeper, &vrdmad);
	if (ready && write(STARTED, "", 1) == 1) {
		close(STARTED);
		await_end(&vrdmad);
	}
	/* First, as there may be no time: a container's first process takes all others with it. */
	vrdma_run_remove_directory(keeper->directory);
	end(keeper, &vrdmad);
}

void vrdma_run_keep(const struct vrdma_run_keeper *keeper)
{
	sigset_t usual;

	prctl(PR_SET_NAME, "vrdma-run-keep");
	keep_signals_off(&usual);
	let_go(keeper);
	serve(keeper, &usual);
	vrdma_run_remove_directory(keeper->directory);
	_exit(0);
}
