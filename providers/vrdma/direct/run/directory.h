/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The directory of an embedded vrdmad, with its configuration and sockets, for this user only. */
#ifndef VRDMA_RUN_DIRECTORY_H
#define VRDMA_RUN_DIRECTORY_H

#ifdef __cplusplus
extern "C" {
#endif

/* On failure, returns NULL and sets errno. */
char *vrdma_run_make_directory(void);
/* Removes the directory and its files, if they exist. */
void vrdma_run_remove_directory(const char *path);

/* Where it is made: in the user's XDG_RUNTIME_DIR if that is suitable, else in /tmp. */
const char *vrdma_run_directory_parent(void);
char *vrdma_run_path_in(const char *directory, const char *name);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_RUN_DIRECTORY_H */
