/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The vfio-user protocol, version 0.1, as far as a vrdma device and its clients use it. With it, a
 * VM monitor or a process reaches a PCI function in another process, over a stream socket of the
 * family AF_UNIX. Source: "vfio-user Protocol Specification", docs/interop/vfio-user.rst of QEMU.
 *
 * Every message is a header and a payload; file descriptors are passed with it as SCM_RIGHTS. A
 * reply carries the command's id and number. All words have the host's byte order. Payloads follow
 * the structures of VFIO and use its names for flags and indexes (linux/vfio.h).
 */
#ifndef VRDMA_VFIO_USER_H
#define VRDMA_VFIO_USER_H

#include "bits.h"

#define VFIO_USER_MAJOR 0
#define VFIO_USER_MINOR 1

enum vfio_user_command {
	VFIO_USER_VERSION = 1,
	VFIO_USER_DMA_MAP = 2,
	VFIO_USER_DMA_UNMAP = 3,
	VFIO_USER_DEVICE_GET_INFO = 4,
	VFIO_USER_DEVICE_GET_REGION_INFO = 5,
	VFIO_USER_DEVICE_GET_REGION_IO_FDS = 6,
	VFIO_USER_DEVICE_GET_IRQ_INFO = 7,
	VFIO_USER_DEVICE_SET_IRQS = 8,
	VFIO_USER_REGION_READ = 9,
	VFIO_USER_REGION_WRITE = 10,
	VFIO_USER_DEVICE_RESET = 13,
	VFIO_USER_DEVICE_FEATURE = 16,
	VFIO_USER_MIG_DATA_READ = 17,
	VFIO_USER_MIG_DATA_WRITE = 18,
};

struct vfio_user_header {
	__u16 id; /* the sender's; the reply repeats it */
	__u16 command;
	__u32 size;  /* of the whole message */
	__u32 flags; /* VFIO_USER_F_* */
	__u32 error; /* errno, in a reply with VFIO_USER_F_ERROR, which has no payload */
};
VRDMA_CHECK_SIZE(struct vfio_user_header, 16);
#define VFIO_USER_F_TYPE VRDMA_MASK(3, 0)
#define VFIO_USER_TYPE_COMMAND 0
#define VFIO_USER_TYPE_REPLY 1
#define VFIO_USER_F_NO_REPLY VRDMA_BIT(4)
#define VFIO_USER_F_ERROR VRDMA_BIT(5)

/*
 * JSON, {"capabilities": {…}} with a terminating NUL, may follow: max_msg_fds and
 * max_data_xfer_size are the sender's limits for one message that it receives.
 */
struct vfio_user_version {
	__u16 major;
	__u16 minor;
};
VRDMA_CHECK_SIZE(struct vfio_user_version, 4);
#define VFIO_USER_DEFAULT_MAX_FDS 1
#define VFIO_USER_DEFAULT_MAX_TRANSFER (1u << 20)

/*
 * The message has the file descriptor of memory that both sides map. Without one, the memory is
 * accessible only by messages (DMA_READ, DMA_WRITE), which we never send. No reply payload.
 */
struct vfio_user_dma_map {
	__u32 argsz;   /* of this structure */
	__u32 flags;   /* VFIO_USER_DMA_* */
	__u64 offset;  /* in the file */
	__u64 address; /* IOVA */
	__u64 size;
};
VRDMA_CHECK_SIZE(struct vfio_user_dma_map, 32);
#define VFIO_USER_DMA_READ VRDMA_BIT(0)
#define VFIO_USER_DMA_WRITE VRDMA_BIT(1)

/*
 * Unmaps a range. The reply repeats it: from then on the device does not touch it. The protocol
 * asks for exactly a range that was mapped. As in VFIO, a range may also have any number of whole
 * maps, and VFIO_DMA_UNMAP_FLAG_ALL with address and size 0 unmaps all.
 */
struct vfio_user_dma_unmap {
	__u32 argsz;
	__u32 flags; /* 0 or VFIO_DMA_UNMAP_FLAG_ALL */
	__u64 address;
	__u64 size;
};
VRDMA_CHECK_SIZE(struct vfio_user_dma_unmap, 24);

/* struct vfio_device_info */
struct vfio_user_device_info {
	__u32 argsz;
	__u32 flags; /* VFIO_DEVICE_FLAGS_* */
	__u32 num_regions;
	__u32 num_irqs;
};
VRDMA_CHECK_SIZE(struct vfio_user_device_info, 16);

/* struct vfio_region_info. A region that can be mapped comes with a file descriptor. */
struct vfio_user_region_info {
	__u32 argsz;
	__u32 flags; /* VFIO_REGION_INFO_FLAG_* */
	__u32 index; /* VFIO_PCI_*_REGION_INDEX */
	__u32 cap_offset;
	__u64 size;
	__u64 offset; /* for mmap() */
};
VRDMA_CHECK_SIZE(struct vfio_user_region_info, 32);

/* In a reply: followed by `count` sub-regions, and the file descriptors that they name. */
struct vfio_user_region_io_fds {
	__u32 argsz;
	__u32 flags; /* 0 */
	__u32 index;
	__u32 count; /* 0 in the command */
};
VRDMA_CHECK_SIZE(struct vfio_user_region_io_fds, 16);

/* Signalling the eventfd is the same as writing to the sub-region. */
struct vfio_user_ioeventfd {
	__u64 offset; /* in the region */
	__u64 size;
	__u32 fd_index;
	__u32 type; /* VFIO_USER_IO_FD_TYPE_IOEVENTFD */
	__u32 flags;
	__u32 padding;
	__u64 datamatch;
};
VRDMA_CHECK_SIZE(struct vfio_user_ioeventfd, 40);
#define VFIO_USER_IO_FD_TYPE_IOEVENTFD 0

/* struct vfio_irq_info */
struct vfio_user_irq_info {
	__u32 argsz;
	__u32 flags; /* VFIO_IRQ_INFO_* */
	__u32 index; /* VFIO_PCI_*_IRQ_INDEX */
	__u32 count;
};
VRDMA_CHECK_SIZE(struct vfio_user_irq_info, 16);

/*
 * struct vfio_irq_set, followed by one byte per vector with VFIO_IRQ_SET_DATA_BOOL. With
 * VFIO_IRQ_SET_DATA_EVENTFD the eventfds are passed as file descriptors; a message without any
 * removes the present ones.
 */
struct vfio_user_irq_set {
	__u32 argsz;
	__u32 flags; /* VFIO_IRQ_SET_* */
	__u32 index;
	__u32 start;
	__u32 count;
};
VRDMA_CHECK_SIZE(struct vfio_user_irq_set, 20);

/* REGION_READ, REGION_WRITE and their replies. Data follows a write and a read's reply. */
struct vfio_user_region_access {
	__u64 offset;
	__u32 region;
	__u32 count;
};
VRDMA_CHECK_SIZE(struct vfio_user_region_access, 16);

/*
 * struct vfio_device_feature. The feature's data follows a SET and the reply of a GET; argsz is the
 * room for the reply. A reply to SET or PROBE repeats the command.
 *
 * VFIO_DEVICE_FEATURE_MIGRATION has struct vfio_user_migration: what the device can do.
 * VFIO_DEVICE_FEATURE_MIG_DEVICE_STATE has struct vfio_user_mig_state.
 */
struct vfio_user_device_feature {
	__u32 argsz;
	__u32 flags; /* VFIO_DEVICE_FEATURE_*, and the number of the feature */
};
VRDMA_CHECK_SIZE(struct vfio_user_device_feature, 8);

struct vfio_user_migration {
	__u64 flags; /* VFIO_MIGRATION_* */
};
VRDMA_CHECK_SIZE(struct vfio_user_migration, 8);

struct vfio_user_mig_state {
	__u32 device_state; /* enum vfio_device_mig_state */
	__u32 data_fd;	    /* unused: the state is read and written by messages */
};
VRDMA_CHECK_SIZE(struct vfio_user_mig_state, 8);

/*
 * MIG_DATA_READ in STOP_COPY, and MIG_DATA_WRITE in RESUMING. The state is a stream. Data follows
 * the reply of a READ, which is the last one if it has less than was asked for, and a WRITE, whose
 * reply has no payload.
 */
struct vfio_user_mig_data {
	__u32 argsz; /* of the reply, with its data */
	__u32 size;  /* of the data */
};
VRDMA_CHECK_SIZE(struct vfio_user_mig_data, 8);

/*
 * A planned restart of the server, by these means. When the server is about to end, it freezes its
 * devices and signals VFIO_PCI_REQ_IRQ_INDEX to each client that has asked for the feature
 * MIGRATION. Such a client has VFIO_USER_FETCH_MS to read the state of its device in STOP_COPY, and
 * hangs up. It connects to the next server as any client does, maps its memory and the BARs, sets
 * its interrupts, writes the state in RESUMING and goes to RUNNING.
 */
#define VFIO_USER_FETCH_MS 2000
/* The next server may take this long: as VRDMA_MDEV_HANDOVER_SECONDS. */
#define VFIO_USER_RETURN_MS 15000

#endif /* VRDMA_VFIO_USER_H */
