/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The interface between the mediator and vrdma_mdev.ko: /dev/vrdma_mdev and the device fds that it
 * returns.
 *
 * The mediator opens /dev/vrdma_mdev, registers an HCA under a name and reads struct
 * vrdma_mdev_event from the fd, one for each mediated device of that HCA. Events for devices that
 * exist already (of an earlier mediator) are there at once. The mediator opens each device with
 * VRDMA_MDEV_OPEN_DEVICE. If it closes the fd, the parent and its devices stay, marked FATAL, for
 * the next mediator that registers the same name. If no device is left, the parent goes too.
 *
 * The module waits for the mediator only during a step of a migration, and when the driver of
 * VMware's device writes to it, and then for some seconds at most. It answers register reads from
 * the shadow page and queues register writes for read() on the device fd. Before a reset or close
 * returns, it takes guest memory (the window) away from the mediator. STATUS does not always come
 * from the shadow page: it reads 0 during a reset, and FATAL while the device is marked FATAL.
 *
 * A device is FATAL when its mediator has gone (has closed either fd), unless it was handed over.
 * Its old device fd then fails with ENODEV and polls as HUP, as it does once the device is removed.
 * The module raises vector 0 when it marks a device FATAL, and at the RESET_DONE by which a new
 * mediator takes over a FATAL device that a VM has open.
 *
 * VMware's device (pvrdma/device.h) has other BARs. Its doorbells are messages, and the guest
 * cannot map them. It has no STATUS: while it is FATAL, ERROR reads EIO, and no interrupt tells of
 * it.
 */
#ifndef VRDMA_MDEV_H
#define VRDMA_MDEV_H

#include <linux/ioctl.h>

#include "bits.h"
#include "device.h"

#define VRDMA_MDEV_PATH "/dev/vrdma_mdev"
#define VRDMA_MDEV_ABI_VERSION 9
/* Directory of the module's device in sysfs. Its file "abi_version" has the number above. */
#define VRDMA_MDEV_SYSFS "/sys/class/misc/vrdma_mdev"
#define VRDMA_MDEV_MAX_TYPES 16
#define VRDMA_MDEV_NAME_SIZE 16
#define VRDMA_MDEV_DESCRIPTION_SIZE 128
#define VRDMA_MDEV_ADDRESSES_SIZE 512
#define VRDMA_MDEV_MAX_UPLINKS 64
#define VRDMA_MDEV_UPLINK_SIZE 16
#define VRDMA_MDEV_VLAN_WORDS 64

/*
 * A type of mediated device; the mediator knows it by its index. Strings here and in struct
 * vrdma_mdev_register are padded with zeroes. Unused types and uplinks are all zero.
 */
struct vrdma_mdev_type {
	char name[VRDMA_MDEV_NAME_SIZE]; /* [a-z0-9-]: the type is <driver>-<name> */
	char description[VRDMA_MDEV_DESCRIPTION_SIZE];
	__u32 max_instances;	  /* 1..4096 */
	__u32 doorbell_pages;	  /* a power of two, 2..4096 */
	__u32 vectors;		  /* 2..VRDMA_MAX_VECTORS; VMware's device uses three of them */
	__u32 personality;	  /* VRDMA_MDEV_PERSONALITY_* */
	__aligned_u64 max_pinned; /* bytes of guest memory pinned at a time, for each device */
	/* The uplink of its devices until "uplink" is written: one of those below, or none */
	char uplink[VRDMA_MDEV_UPLINK_SIZE];
};
VRDMA_CHECK_SIZE(struct vrdma_mdev_type, 184);
/* Its devices are vrdma's own, or VMware's. */
#define VRDMA_MDEV_PERSONALITY_VRDMA 0
#define VRDMA_MDEV_PERSONALITY_PVRDMA 1

struct vrdma_mdev_register {
	__u32 abi_version;
	__u32 num_types;
	char name[VRDMA_MDEV_NAME_SIZE]; /* of the HCA: [a-z0-9-] */
	struct vrdma_mdev_type types[VRDMA_MDEV_MAX_TYPES];
	__u32 num_uplinks;
	__u32 reserved;
	/* Uplinks for devices: printable ASCII without '/', and neither ".", ".." nor "none" */
	char uplinks[VRDMA_MDEV_MAX_UPLINKS][VRDMA_MDEV_UPLINK_SIZE];
};
VRDMA_CHECK_SIZE(struct vrdma_mdev_register, 4000);

/* read() on the /dev/vrdma_mdev fd: whole events, EAGAIN when there is none, pollable. */
struct vrdma_mdev_event {
	__u32 type;   /* VRDMA_MDEV_DEVICE_* */
	__u32 device; /* id for VRDMA_MDEV_OPEN_DEVICE */
};
VRDMA_CHECK_SIZE(struct vrdma_mdev_event, 8);
#define VRDMA_MDEV_DEVICE_ADDED 1
#define VRDMA_MDEV_DEVICE_REMOVED 2

struct vrdma_mdev_open_device {
	__u32 device;
	__s32 fd; /* out: non-blocking, close-on-exec. A device has one at a time (EBUSY) */
};
VRDMA_CHECK_SIZE(struct vrdma_mdev_open_device, 8);

#define VRDMA_MDEV_REGISTER _IOW('v', 0x80, struct vrdma_mdev_register)
#define VRDMA_MDEV_OPEN_DEVICE _IOWR('v', 0x81, struct vrdma_mdev_open_device)

/*
 * A device's share of its poller, set by the sysfs attributes "weight" (1..VRDMA_MDEV_MAX_WEIGHT),
 * "max_bytes_per_second" and "max_operations_per_second" (0: no limit).
 */
#define VRDMA_MDEV_SHARE_WEIGHT 0
#define VRDMA_MDEV_SHARE_MAX_BYTES 1
#define VRDMA_MDEV_SHARE_MAX_OPERATIONS 2
#define VRDMA_MDEV_SHARE_VALUES 3
#define VRDMA_MDEV_MAX_WEIGHT 10000

struct vrdma_mdev_share {
	__u32 set; /* bit VRDMA_MDEV_SHARE_*: was written; else the type's value applies */
	__u32 reserved;
	__aligned_u64 values[VRDMA_MDEV_SHARE_VALUES];
};
VRDMA_CHECK_SIZE(struct vrdma_mdev_share, 32);

/* The device fd. */
struct vrdma_mdev_device_info {
	__u8 uuid[16];		/* in the order of its text */
	__u32 type;		/* index */
	__u32 open;		/* 1 while a VM has the device */
	__u8 mac[6];		/* sysfs attribute "mac": all zero if it was not written */
	__u8 uplink_set;	/* 1: sysfs attribute "uplink" was written; 0: the type's applies */
	__u8 vlans_set;		/* 1: sysfs attribute "vlans" was written; 0: the type's apply */
	__u32 reset_generation; /* see VRDMA_MDEV_RESET_DONE */
	/* sysfs attribute "addresses": the guest's: "10.0.0.5/32,fd00::/64", or any */
	char addresses[VRDMA_MDEV_ADDRESSES_SIZE];
	/*
	 * As written, or empty for none. It was one of the registered uplinks when it was written,
	 * but perhaps of an earlier mediator.
	 */
	char uplink[VRDMA_MDEV_UPLINK_SIZE];
	__u32 reserved2;
	struct vrdma_mdev_share share;
	/* VLANs for its addresses: 1..VRDMA_MAX_VLAN; bit n % 64 of word n / 64 is VLAN n */
	__aligned_u64 vlans[VRDMA_MDEV_VLAN_WORDS];
};
VRDMA_CHECK_SIZE(struct vrdma_mdev_device_info, 1112);

/*
 * read() on the device fd returns the device's messages: whole messages, EAGAIN when there is none.
 * If more than VRDMA_MDEV_MAX_MESSAGES register writes are unread, further ones are dropped and the
 * device is marked FATAL. The module keeps one pending flag for each of the other kinds, so there
 * is always room for them. Order: SHARE, which a reset does not change; RESET, which voids all that
 * came before it; REVOKED; register writes and doorbells; ADMIN_DOORBELL; STEP.
 *
 * A write to VMware's device waits until there is room. If there is none, or if the mediator does
 * not execute a register's write, for VRDMA_MDEV_WRITE_MS, the device is marked FATAL.
 */
struct vrdma_mdev_message {
	__u32 type; /* VRDMA_MDEV_MESSAGE_* */
	/*
	 * WRITE: register. STEP: VRDMA_MDEV_STEP_*. REVOKED: the first page, its IOVA / page size.
	 * DOORBELL: that of the UAR's word in its BAR
	 */
	__u32 offset;
	/*
	 * WRITE, DOORBELL: value. RESET: generation to acknowledge. STEP: its number. REVOKED: the
	 * last page
	 */
	__u32 value;
	__u32 number; /* WRITE to VMware's device: for VRDMA_MDEV_WRITE_DONE. Else 0 */
};
VRDMA_CHECK_SIZE(struct vrdma_mdev_message, 16);
#define VRDMA_MDEV_MESSAGE_WRITE 1
#define VRDMA_MDEV_MESSAGE_ADMIN_DOORBELL 2
/*
 * Reset by VFIO or CONTROL.RESET (then no WRITE), or a VM opens or closes the device, or a mediator
 * opens it
 */
#define VRDMA_MDEV_MESSAGE_RESET 3
/* An attribute of the share was written; DEVICE_INFO has them all */
#define VRDMA_MDEV_MESSAGE_SHARE 4
/*
 * A step of a migration. The VM waits, some seconds at most, for VRDMA_MDEV_STEP_DONE with its
 * number
 */
#define VRDMA_MDEV_MESSAGE_STEP 5
/*
 * The VM has unmapped memory after VRDMA_MDEV_FILE was used: all of it is between these pages. If
 * it unmaps more before the message is read, the range covers that, too. A range may be told twice.
 */
#define VRDMA_MDEV_MESSAGE_REVOKED 6
/*
 * Of VMware's device, if it tells of a QP's WQEs or asks for an event. Equal ones that follow each
 * other may be one message.
 */
#define VRDMA_MDEV_MESSAGE_DOORBELL 7
#define VRDMA_MDEV_MAX_MESSAGES 256
#define VRDMA_MDEV_WRITE_MS VRDMA_ADMIN_TIMEOUT_MS

/*
 * Migration, by VFIO's protocol version 2. The module has the protocol's states; the mediator
 * carries out the steps. A RESET ends all that the mediator has begun, and unfreezes the device.
 */
#define VRDMA_MDEV_STEP_FREEZE 1  /* touch no guest memory from now on */
#define VRDMA_MDEV_STEP_THAW 2	  /* undoes FREEZE */
#define VRDMA_MDEV_STEP_SAVE 3	  /* write the frozen device's state to the transfer */
#define VRDMA_MDEV_STEP_LOAD 4	  /* read the state of a device to restore from the transfer */
#define VRDMA_MDEV_STEP_RESTORE 5 /* the VM has written it all: become that device, frozen */
/*
 * The VM is about to move, and runs for now: before VRDMA_MDEV_STEP_DONE, write to the transfer
 * what the device needs of its destination, at most 64 KiB. More can follow
 * (VRDMA_MDEV_TRANSFER_AHEAD). FREEZE and SAVE may come at any time, and the state then goes to the
 * same transfer. If the VM does not move, the transfer polls as ERR.
 */
#define VRDMA_MDEV_STEP_ANNOUNCE 6

/*
 * VRDMA_MDEV_STEP_DONE: ESTALE if nobody waits. A refused step leaves the device unchanged, except
 * RESTORE: after a refused RESTORE, the device needs a reset.
 */
#define VRDMA_MDEV_MAX_ERRNO 4095
struct vrdma_mdev_step_done {
	__u32 number;
	__u32 error; /* 0, or an errno for the VM */
};
VRDMA_CHECK_SIZE(struct vrdma_mdev_step_done, 8);

/*
 * From a RESET on, the window shows scratch pages only, and STATUS reads 0, until the mediator
 * acknowledges that reset's generation. An older generation is refused (ESTALE).
 */
struct vrdma_mdev_reset_done {
	__u32 generation;
	__u32 reserved;
};

struct vrdma_mdev_kick {
	__s32 eventfd; /* signalled on each write to the kick page; -1 for none */
	__u32 reserved;
};

struct vrdma_mdev_range {
	__aligned_u64 iova; /* page-aligned */
	__aligned_u64 length;
};

#define VRDMA_MDEV_DEVICE_INFO _IOR('v', 0x90, struct vrdma_mdev_device_info)
#define VRDMA_MDEV_RESET_DONE _IOW('v', 0x91, struct vrdma_mdev_reset_done)
#define VRDMA_MDEV_SET_KICK _IOW('v', 0x92, struct vrdma_mdev_kick)
#define VRDMA_MDEV_RAISE _IO('v', 0x93) /* argument: vector; signalled now or left pending */
#define VRDMA_MDEV_UNPIN _IOW('v', 0x94, struct vrdma_mdev_range) /* the next touch pins again */

#define VRDMA_MDEV_STEP_DONE _IOW('v', 0x95, struct vrdma_mdev_step_done)
/*
 * Returns the mediator's end of the transfer that is under way (ENOENT: none), once (EBUSY):
 * non-blocking, close-on-exec, pollable. SAVE writes to it, and LOAD reads from it, at most one
 * page per call (EAGAIN: not now). EPIPE: the VM does not need it any more.
 */
#define VRDMA_MDEV_TRANSFER _IO('v', 0x96)
/*
 * An ioctl of that end. Argument: 0 if all of the state is written, or an errno for the VM, which
 * ends the transfer. If the mediator closes its end without this ioctl, the VM gets EIO.
 */
#define VRDMA_MDEV_TRANSFER_END _IO('v', 0x97)

/*
 * Hands a device over to the mediator that registers the name next. The caller has frozen it, keeps
 * its state in a regular file (a memfd), and only closes its fds from then on. STATUS stays, memory
 * stays pinned, and messages wait, for VRDMA_MDEV_HANDOVER_SECONDS at most. EBUSY: the device is
 * FATAL, or stopped by its VM for a migration or a pause, or its VM asks for a step just now. In a
 * reset, the file is not kept. A restart takes less than 0.1 s on an idle host, and has taken 5 s
 * where everything competed for one slow processor.
 *
 * The successor opens the device and gets the file by VRDMA_MDEV_TAKE_OVER: an fd, close-on-exec,
 * that shares its offset with the predecessor's. It restores the device, and tells so by
 * VRDMA_MDEV_RESET_DONE with the generation of DEVICE_INFO; STATUS is its own from then on. ENOENT:
 * there is no file, and a RESET is waiting. A successor that cannot restore the device closes the
 * fd. The device is FATAL then, and begins with a RESET when it is opened again.
 */
#define VRDMA_MDEV_HANDOVER_SECONDS 15 /* less than VRDMA_ADMIN_TIMEOUT_MS */
struct vrdma_mdev_handover {
	__s32 file;
	__u32 reserved;
};
VRDMA_CHECK_SIZE(struct vrdma_mdev_handover, 8);

#define VRDMA_MDEV_HAND_OVER _IOW('v', 0x98, struct vrdma_mdev_handover)
#define VRDMA_MDEV_TAKE_OVER _IO('v', 0x99)

/*
 * How fast the mediator dirties the VM's memory while the VM moves. A pass of the migration finds
 * the `pinned` pages dirty that there were when the pass began, and those that were added to `pins`
 * in it. ENOENT: the VM does not move, or has stopped.
 *
 * If the VM monitor keeps a log of what is written, `pinned` is 0, and `pins` counts the pages that
 * it was told. Else `pinned` is the number of pinned pages, and `pins` counts pages that were
 * pinned.
 */
struct vrdma_mdev_precopy {
	__aligned_u64 passes; /* how often the VM monitor has asked what is left */
	__aligned_u64 pinned;
	__aligned_u64 pins; /* since the device exists, each time counted */
};
VRDMA_CHECK_SIZE(struct vrdma_mdev_precopy, 24);

#define VRDMA_MDEV_PRECOPY _IOR('v', 0x9a, struct vrdma_mdev_precopy)

/*
 * The file that is the VM's memory, so that the mediator can map it a second time, as memory that
 * an HCA of the host can pin. The range must have been touched. The VM monitor must have mapped the
 * file shared, and the file must be one of tmpfs, such as a memfd.
 *
 * The module does not take such a mapping away. If the VM unmaps memory, a REVOKED message tells
 * the mediator, which then no longer uses the memory by this file. A RESET ends all use.
 *
 * EINVAL: the range is empty, not page-aligned or beyond the window. EFAULT: its first page is not
 * pinned and shown now. EOPNOTSUPP: the page is of no such file: anonymous memory, huge pages
 * (hugetlbfs, whose pages cannot be mapped one by one), another file system. EAGAIN: the VM
 * monitor changes its mappings just now.
 */
struct vrdma_mdev_file {
	__aligned_u64 iova; /* page-aligned */
	__aligned_u64
		length; /* out: that of the first pages, which follow each other in the file */
	__aligned_u64 offset; /* out: of the first page in the file */
	__s32 fd;	      /* out: close-on-exec; it is open as the VM monitor has opened it */
	__u32 reserved;
};
VRDMA_CHECK_SIZE(struct vrdma_mdev_file, 32);

#define VRDMA_MDEV_FILE _IOWR('v', 0x9b, struct vrdma_mdev_file)

/*
 * Argument: the number of a WRITE to VMware's device. That write is executed, and so are all before
 * it, and the VM goes on. ESTALE: it is so already, or a reset has made the write void. A mediator
 * that takes over a device (VRDMA_MDEV_TAKE_OVER) need not tell it of what was read before.
 */
#define VRDMA_MDEV_WRITE_DONE _IO('v', 0x9c)

/*
 * An ioctl of the mediator's end of a transfer, in the step ANNOUNCE: so much of the state goes
 * ahead while the VM runs. The VM waits for these bytes when it reads, some seconds at most for the
 * next ones. Those that it has not read when it stops come first then. EINVAL: the VM has stopped,
 * or the mediator still owes bytes.
 */
struct vrdma_mdev_ahead {
	__aligned_u64 bytes; /* that the mediator will write, besides those that it has written */
	__aligned_u64 rest;  /* an estimate of what is left for the time when the VM has stopped */
};
VRDMA_CHECK_SIZE(struct vrdma_mdev_ahead, 16);

#define VRDMA_MDEV_TRANSFER_AHEAD _IOW('v', 0x9d, struct vrdma_mdev_ahead)

/*
 * mmap offsets of the device fd; shared mappings only.
 *   SHADOW     read-write, page 0 of BAR0, or VMware's BAR1, as the guest reads it
 *   DOORBELLS  read-write, BAR2; with VMware's device, pages of the mediator's own
 *   INFO       read-only, struct vrdma_mdev_info_page
 *   WINDOW     read-write, the guest's IOVA space: WINDOW + n shows IOVA n. The first touch (access
 *              by the mediator) of a page pins it. A touch where the guest has no memory, beyond
 *              the pin limit, or after a reset gets a scratch page and counts in scratch_faults;
 *              UNPIN of the range makes the next touch try again. A touch never raises SIGBUS, and
 *              never reaches another guest's memory. A touch that needs more page tables than a
 *              device may have replaces the mapping by an equal one; touches of scratch pages then
 *              try again, too.
 */
#define VRDMA_MDEV_MMAP_SHADOW 0x0ull
#define VRDMA_MDEV_MMAP_INFO 0x10000ull
#define VRDMA_MDEV_MMAP_DOORBELLS 0x10000000ull
#define VRDMA_MDEV_MMAP_WINDOW 0x10000000000ull
#define VRDMA_MDEV_WINDOW_SIZE VRDMA_IOVA_SPACE

struct vrdma_mdev_info_page {
	__aligned_u64 scratch_faults; /* touches that got a scratch page */
	__aligned_u64 revocations;    /* ranges that were taken away: dma_unmap, reset, close */
	__aligned_u64 pinned;	      /* bytes */
};

#endif /* VRDMA_MDEV_H */
