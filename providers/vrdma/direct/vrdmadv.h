/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* vrdma devices without a kernel driver: see vrdmadv(7). */
#ifndef VRDMA_VRDMADV_H
#define VRDMA_VRDMADV_H

#include <infiniband/verbs.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vrdmadv_device_attr {
	const char *path;      /* of a vfio-user socket, or of a VFIO device's directory in sysfs */
	const char *name;      /* what ibv_get_device_name() returns; NULL: vrdma0, vrdma1, ... */
	const char *addresses; /* beside the link-local one: "10.0.0.5,fd00::5", or NULL */
	uint64_t comp_mask;    /* 0 */
};

/*
 * A list of `count` devices as ibv_get_device_list() returns one, for ibv_open_device() and
 * ibv_free_device_list(). No device is looked at before it is opened. Returns NULL and sets errno.
 */
struct ibv_device **vrdmadv_get_device_list(const struct vrdmadv_device_attr *attr, int count);

/* What ibv_create_comp_channel() does for a kernel's device; ibv_destroy_comp_channel() ends it. */
struct ibv_comp_channel *vrdmadv_create_comp_channel(struct ibv_context *context);

/*
 * What ibv_import_device() does for a kernel's device, of a context that this process has open.
 * Returns NULL and sets errno: ENODEV where cmd_fd is none of such a context.
 */
struct ibv_context *vrdmadv_import_device(int cmd_fd);

/*
 * What stands for /dev/infiniband/rdma_cm, on which librdmacm writes commands: a file that poll(2)
 * finds readable while there are events, and a connection manager of the given devices behind it.
 * Returns -1 and sets errno. vrdmadv_cm_write() is its write(2). What is closed is to be closed
 * here first.
 */
int vrdmadv_cm_open(const struct vrdmadv_device_attr *attr, int count);
int vrdmadv_cm_is_open(int fd);
ssize_t vrdmadv_cm_write(int fd, const void *command, size_t length);
void vrdmadv_cm_close(int fd);

/*
 * madvise(2) and mremap(2) of memory that was registered, of which registering has made shared
 * memory: for allocators, to which it is private memory still. They may be called for any memory.
 */
int vrdmadv_madvise(void *address, size_t length, int advice);
void *vrdmadv_mremap(void *old_address, size_t old_length, size_t length, int flags,
		     void *new_address);

/*
 * What a parent domain's allocator is told that the memory is for (ibv_alloc_parent_domain(3)), of
 * a kernel's device, too.
 */
enum vrdmadv_resource_type {
	VRDMADV_RES_QP = 1,
	VRDMADV_RES_CQ = 2,
	VRDMADV_RES_SRQ = 3,
};

/* Whether the device, of a list or of a context, is one of those. */
int vrdmadv_is_device(const struct ibv_device *device);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_VRDMADV_H */
