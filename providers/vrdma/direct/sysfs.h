/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A directory in the place of the device's part of sysfs, where libibverbs reads GIDs and P_Keys.
 *
 * Its process holds a lock on it. So what a process that was killed has left can be told, and the
 * next one that makes a directory removes it.
 */
#ifndef VRDMA_DIRECT_SYSFS_H
#define VRDMA_DIRECT_SYSFS_H

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VRDMA_MAX_GIDS 34 /* of each address one as RoCE v1 and one as v2 */

struct vrdma_sysfs {
	char path[IBV_SYSFS_PATH_MAX]; /* empty where there is none */
	int fd;
};

/* Returns 0 or -errno, and then there is none. */
int vrdma_sysfs_make(struct vrdma_sysfs *sysfs, const union ibv_gid *gids, unsigned int num_gids,
		     const uint16_t *pkeys, unsigned int num_pkeys);
void vrdma_sysfs_remove(struct vrdma_sysfs *sysfs);
/* In a child: it stays the parent's alone. */
void vrdma_sysfs_abandon(struct vrdma_sysfs *sysfs);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_DIRECT_SYSFS_H */
