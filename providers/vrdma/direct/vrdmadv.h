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
 * Returns a list of `count` devices, as ibv_get_device_list() does, for ibv_open_device() and
 * ibv_free_device_list(). It does not access the devices; ibv_open_device() does. On failure,
 * returns NULL and sets errno.
 */
struct ibv_device **vrdmadv_get_device_list(const struct vrdmadv_device_attr *attr, int count);

/* As ibv_create_comp_channel() for a kernel's device. ibv_destroy_comp_channel() destroys it. */
struct ibv_comp_channel *vrdmadv_create_comp_channel(struct ibv_context *context);

/*
 * A direct channel: the device itself wakes the program, where an event of another channel first
 * wakes a thread of the driver. poll(2) finds its file readable while there are events, but the
 * program must not read it. For such a channel, and only for it, vrdmadv_get_cq_event() and
 * vrdmadv_destroy_direct_channel() take the places of ibv_get_cq_event() and
 * ibv_destroy_comp_channel(). A device has few direct channels, and fails with EAGAIN beyond that.
 */
struct ibv_comp_channel *vrdmadv_create_direct_channel(struct ibv_context *context);
int vrdmadv_is_direct_channel(struct ibv_comp_channel *channel);
int vrdmadv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
int vrdmadv_destroy_direct_channel(struct ibv_comp_channel *channel);

/*
 * As ibv_import_device() for a kernel's device. Imports a context that this process has open. On
 * failure, returns NULL and sets errno: ENODEV if cmd_fd belongs to no such context.
 */
struct ibv_context *vrdmadv_import_device(int cmd_fd);

/*
 * Opens a connection manager of the given devices. Its file takes the place of
 * /dev/infiniband/rdma_cm, to which librdmacm writes commands. poll(2) finds the file readable
 * while there are events. vrdmadv_cm_write() takes the place of write(2). vrdmadv_cm_close() must
 * be called before the file is closed. On failure, vrdmadv_cm_open() returns -1 and sets errno.
 */
int vrdmadv_cm_open(const struct vrdmadv_device_attr *attr, int count);
int vrdmadv_cm_is_open(int fd);
ssize_t vrdmadv_cm_write(int fd, const void *command, size_t length);
void vrdmadv_cm_close(int fd);

/*
 * madvise(2) and mremap(2) for allocators. Registration turns private memory into shared memory.
 * For such memory, these functions still do what allocators expect of private memory. They may be
 * called for any memory.
 */
int vrdmadv_madvise(void *address, size_t length, int advice);
void *vrdmadv_mremap(void *old_address, size_t old_length, size_t length, int flags,
		     void *new_address);

/*
 * The resource types that are passed to a parent domain's allocator (ibv_alloc_parent_domain(3)).
 * They are the same for a kernel's device.
 */
enum vrdmadv_resource_type {
	VRDMADV_RES_QP = 1,
	VRDMADV_RES_CQ = 2,
	VRDMADV_RES_SRQ = 3,
};

/* Whether the device, from a list or of a context, is a vrdma device without a kernel driver. */
int vrdmadv_is_device(const struct ibv_device *device);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_VRDMADV_H */
