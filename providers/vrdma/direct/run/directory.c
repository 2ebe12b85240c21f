/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#define _GNU_SOURCE
#include "directory.h"

#include <dirent.h>
#include <stdbool.h>
#include <sys/un.h>
#include <unistd.h>

#include "fail.h"

#define NAME "/vrdma-run-XXXXXX"
#define LONGEST_PATH_IN NAME "/vrdma0.sock"

/* A path in it must fit into a socket's address, a TOML string and VRDMA_RUN_DEVICES. */
static bool will_do(const char *parent)
{
	const size_t room = sizeof(((struct sockaddr_un *)0)->sun_path);

	if (*parent != '/' || strlen(parent) + sizeof(LONGEST_PATH_IN) > room)
		return false;
	for (const char *c = parent; *c; c++)
		if (strchr(",;\"\\", *c) || (unsigned char)*c < ' ')
			return false;
	return access(parent, W_OK | X_OK) == 0;
}

const char *vrdma_run_directory_parent(void)
{
	const char *own = getenv("XDG_RUNTIME_DIR");

	return own && will_do(own) ? own : "/tmp";
}

char *vrdma_run_path_in(const char *directory, const char *name)
{
	char *path;

	if (asprintf(&path, "%s/%s", directory, name) < 0)
		vrdma_run_fail("memory");
	return path;
}

char *vrdma_run_make_directory(void)
{
	char *path;

	if (asprintf(&path, "%s" NAME, vrdma_run_directory_parent()) < 0)
		vrdma_run_fail("memory");
	if (mkdtemp(path))
		return path;
	free(path);
	return NULL;
}

void vrdma_run_remove_directory(const char *path)
{
	DIR *directory = opendir(path);
	const struct dirent *entry;

	if (!directory)
		return;
	while ((entry = readdir(directory)))
		unlinkat(dirfd(directory), entry->d_name, 0);
	closedir(directory);
	rmdir(path);
}
