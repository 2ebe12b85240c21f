/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A vrdmad that serves nothing, for the keeper's tests. It writes its process id to the file
 * FAKE_PID. FAKE_MANNER selects its behaviour:
 *   ready     reports that it serves, and ends on SIGTERM
 *   stubborn  reports that it serves, and ignores SIGTERM
 *   silent    reports nothing
 *   fails     ends at once
 *   deserts   reports that it serves, and ends
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define WRONG 99

static bool is(const char *manner)
{
	return strcmp(getenv("FAKE_MANNER"), manner) == 0;
}

/* Checks the arguments, and that the program's open files and LD_PRELOAD are not inherited. */
static bool is_run_well(int argc, char **argv)
{
	for (int fd = STDERR_FILENO + 1; fd < 64; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			return false;
	return argc == 3 && strcmp(argv[1], "--config") == 0 && access(argv[2], R_OK) == 0 &&
	       !getenv("LD_PRELOAD");
}

static void write_pid(void)
{
	FILE *out = fopen(getenv("FAKE_PID"), "w");

	if (!out || fprintf(out, "%d", getpid()) < 0 || fclose(out))
		exit(WRONG);
}

/* Like sd_notify(3). main() sends two notices, of which only the second reports readiness. */
static void tell(const char *notice)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", getenv("NOTIFY_SOCKET"));
	if (sendto(fd, notice, strlen(notice), 0, (struct sockaddr *)&address, sizeof(address)) < 0)
		exit(WRONG);
	close(fd);
}

int main(int argc, char **argv)
{
	if (!is_run_well(argc, argv))
		return WRONG;
	write_pid();
	if (is("fails"))
		return 1;
	if (is("stubborn"))
		signal(SIGTERM, SIG_IGN);
	if (!is("silent")) {
		tell("STATUS=NOT READY=1");
		tell("STATUS=ready\nREADY=1");
	}
	while (!is("deserts"))
		pause();
	return 0;
}
