/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A directory in the place of the device's part of sysfs, where libibverbs reads GIDs and P_Keys.
 *
 * The process holds a lock on its directory. So the directory of a killed process is recognized by
 * its missing lock. The next process that makes a directory removes it.
 */
#ifndef VRDMA_DIRECT_SYSFS_H
#define VRDMA_DIRECT_SYSFS_H

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VRDMA_MAX_GIDS 34 /* for each address, one for RoCE v1 and one for v2 */

struct vrdma_sysfs {
	char path[IBV_SYSFS_PATH_MAX]; /* empty where there is none */
	int fd;
};

/* Returns 0 or -errno. After an error, there is no directory. */
int vrdma_sysfs_make(struct vrdma_sysfs *sysfs, const union ibv_gid *gids, unsigned int num_gids,
		     const uint16_t *pkeys, unsigned int num_pkeys);
void vrdma_sysfs_remove(struct vrdma_sysfs *sysfs);
/* In a child of fork(): the directory stays the parent's. */
void vrdma_sysfs_abandon(struct vrdma_sysfs *sysfs);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_DIRECT_SYSFS_H */
