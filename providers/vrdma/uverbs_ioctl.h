/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Calls methods of our driver (uverbs.h). libibverbs has no functions for them. */
#ifndef VRDMA_UVERBS_IOCTL_H
#define VRDMA_UVERBS_IOCTL_H

#include <errno.h>
#include <infiniband/verbs.h> /* before rdma's headers, whose RDMA_UAPI_PTR it replaces */
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

#define VRDMA_UVERBS_MAX_ATTRS 3

static inline struct ib_uverbs_attr vrdma_uverbs_handle(uint32_t id, uint32_t handle)
{
	return (struct ib_uverbs_attr){
		.attr_id = (uint16_t)id,
		.flags = UVERBS_ATTR_F_MANDATORY,
		.data = handle,
	};
}

static inline struct ib_uverbs_attr vrdma_uverbs_answer(uint32_t id, void *data, size_t size)
{
	return (struct ib_uverbs_attr){
		.attr_id = (uint16_t)id,
		.len = (uint16_t)size,
		.flags = UVERBS_ATTR_F_MANDATORY,
		.data = (uintptr_t)data,
	};
}

/* Returns 0 or an errno. */
static inline int vrdma_uverbs_call(int fd, uint16_t object, uint16_t method,
				    const struct ib_uverbs_attr *attrs, uint16_t count)
{
	struct {
		struct ib_uverbs_ioctl_hdr header;
		struct ib_uverbs_attr attrs[VRDMA_UVERBS_MAX_ATTRS];
	} command = {
		.header =
			{
				.length = (uint16_t)(sizeof(command.header) +
						     count * sizeof(*attrs)),
				.object_id = object,
				.method_id = method,
				.num_attrs = count,
				.driver_id = RDMA_DRIVER_UNKNOWN,
			},
	};

	for (uint16_t i = 0; i < count; i++)
		command.attrs[i] = attrs[i];
	return ioctl(fd, RDMA_VERBS_IOCTL, &command.header) ? errno : 0;
}

#endif /* VRDMA_UVERBS_IOCTL_H */
