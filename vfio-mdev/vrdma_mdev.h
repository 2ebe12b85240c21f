/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vrdma_mdev.ko: the declarations that its files share.
 *
 *   hca.c        /dev/vrdma_mdev: a mediator registers an HCA and gets events for its devices
 *   parent.c     the HCA as a parent of mediated devices: its types and their instances
 *   device.c     one mediated device: creation, VFIO open and close, removal
 *   sysfs.c      its attributes
 *   state.c      its condition, resets, and the messages for the mediator
 *   handover.c   what one mediator leaves to the next
 *   config.c     its PCI configuration space
 *   region.c     its VFIO regions, and the dispatch of accesses to them
 *   registers.c  BAR0: registers and the kick page
 *   pvrdma.c     VMware's device: writes that the mediator executes before they return
 *   irq.c        interrupts
 *   doorbells.c  BAR2: doorbell pages
 *   window.c     the guest's memory as the mediator sees it
 *   mapping.c    a mapping of the window by the mediator, and its page tables
 *   pins.c       the window's pages, pinned and unpinned by a thread of the device's
 *   log.c        pages that were written, told to the VM monitor while the VM moves
 *   sweep.c      pages that are not in use, unpinned while the VM moves
 *   unmap.c      ranges that the VM unmaps
 *   file.c       the file behind the VM's memory, for a second mapping by the mediator
 *   mediator.c   the device fd of the mediator
 *   migration.c  VFIO's migration states
 *   transfer.c   the device's state on its way between the VM and the mediator
 */
#ifndef VRDMA_MDEV_PRIVATE_H
#define VRDMA_MDEV_PRIVATE_H

#include <linux/bitmap.h>
#include <linux/eventfd.h>
#include <linux/kthread.h>
#include <linux/mdev.h>
#include <linux/mutex.h>
#include <linux/rtmutex.h>
#include <linux/spinlock.h>
#include <linux/uuid.h>
#include <linux/vfio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "vrdma/device.h"
#include "vrdma/mdev.h"
#include "vrdma/pci_config.h"
#include "vrdma/pvrdma/pci_config.h"
#include "vrdma/pvrdma/queue.h"

#include "compat.h"

static_assert(PAGE_SIZE == VRDMA_PAGE_SIZE);

#define VRDMA_MDEV_VLANS (VRDMA_MAX_VLAN + 1)
static_assert(sizeof_field(struct vrdma_mdev_device_info, vlans) * 8 > VRDMA_MAX_VLAN);

struct vrdma_type {
	struct mdev_type mdev;
	/* vrdma-<name>: KubeVirt finds types by this name, among those of all vendors. */
	char pretty_name[sizeof("vrdma-") + VRDMA_MDEV_NAME_SIZE];
	u32 instances;
};

/* An HCA, and the parent device of its mediated devices. Lives as long as its device. */
struct vrdma_hca {
	struct device device;
	struct mdev_parent parent;
	struct mdev_type *mdev_types[VRDMA_MDEV_MAX_TYPES];
	struct vrdma_type types[VRDMA_MDEV_MAX_TYPES];
	struct vrdma_mdev_register spec;

	/* Part of the registry, under its lock (parent.c). */
	struct list_head node;
	bool owned; /* a mediator's fd refers to this HCA */

	struct mutex read_lock; /* of the mediator's fd; before lock */
	struct mutex lock;     /* the fields below, the types' instances, and the uplinks in spec */
	bool serving;	       /* the mediator is alive */
	u32 instances;	       /* of all types */
	struct xarray devices; /* id -> struct vrdma_device, or VRDMA_REMOVED to be reported */
	u32 next_id;
	wait_queue_head_t wait;
};

/* Marks entries whose event the mediator has not read yet. */
#define VRDMA_EVENT_PENDING XA_MARK_1
#define VRDMA_REMOVED xa_mk_value(0)

enum vrdma_condition {
	VRDMA_RESETTING,   /* STATUS reads 0 until the mediator acknowledges the reset */
	VRDMA_LIVE,	   /* STATUS is the mediator's */
	VRDMA_FATAL,	   /* STATUS reads VRDMA_STATUS_FATAL until a reset */
	VRDMA_HANDED_OVER, /* STATUS is what the mediator left, until its successor is ready */
};

struct vrdma_write {
	u32 type; /* VRDMA_MDEV_MESSAGE_WRITE or _DOORBELL */
	u32 offset;
	u32 value;
};

/* Part of the state, under its lock. */
struct vrdma_handover {
	bool awaited;		/* the mediator's successor has not opened the device yet */
	unsigned long deadline; /* jiffies, until when it is awaited */
	u32 status;		/* while HANDED_OVER */
	struct file *file;	/* for the successor, or NULL */
	struct delayed_work timeout;
};

struct vrdma_state {
	struct mutex read_lock;	    /* of the device fd */
	struct rt_mutex reset_lock; /* makes a reset and its change of the window atomic */
	spinlock_t lock;	    /* everything below */
	wait_queue_head_t wait;
	enum vrdma_condition condition;
	bool open;	 /* by a VM */
	bool mediated;	 /* a mediator has the device fd */
	bool abandoned;	 /* by its mediator: stays FATAL until the next one opens it */
	bool removed;	 /* the mdev is gone; only the device fd keeps this memory */
	bool recovering; /* a mediator came back to a FATAL device: tell the guest of READY */
	bool reset_pending;
	bool doorbell_pending;
	bool share_pending;
	u32 generation; /* of resets */
	u32 head, tail; /* free-running indexes into writes */
	u32 done;	/* of VMware's device: writes before this index are executed */
	wait_queue_head_t done_wait;
	struct vrdma_write writes[VRDMA_MDEV_MAX_MESSAGES];
	struct eventfd_ctx *kick;
	u8 mac[6];
	char addresses[VRDMA_MDEV_ADDRESSES_SIZE];
	bool uplink_set;
	char uplink[VRDMA_MDEV_UPLINK_SIZE];
	bool vlans_set;
	DECLARE_BITMAP(vlans, VRDMA_MDEV_VLANS);
	struct vrdma_mdev_share share;
	struct vrdma_transfer *transfer; /* under way, or NULL */
	u32 step;			 /* the migration step that was last requested */
	u32 step_number;		 /* of that step */
	bool revoked_pending;
	u32 revoked_first; /* the pages that REVOKED tells */
	u32 revoked_last;
	bool step_pending; /* the mediator has not read the step */
	bool step_awaited; /* the mediator has not answered the step */
	int step_error;
	wait_queue_head_t step_wait;
	struct vrdma_handover handover;
};

struct vrdma_migration {
	struct mutex lock; /* a VM's thread may hold it while it waits for the mediator */
	enum vfio_device_mig_state state;
};

struct vrdma_config {
	spinlock_t lock; /* pci.bytes */
	struct vrdma_pci_config pci;
};

struct vrdma_irqs {
	spinlock_t lock; /* everything here */
	struct eventfd_ctx *msix[VRDMA_MAX_VECTORS];
	struct eventfd_ctx *request;
	DECLARE_BITMAP(pending, VRDMA_MAX_VECTORS); /* raised while no eventfd was set */
};

/* The lock of pages protects all but the last eight fields; see window.c. */
struct vrdma_window {
	struct xarray pages;
	struct list_head mappings;
	struct inode *inode;	       /* of the device fd, while there is one */
	struct kthread_worker *worker; /* pins and unpins, while a VM has the device */
	struct kthread_work work;
	bool live;
	bool late;   /* a touch has timed out waiting for the worker */
	bool sealed; /* no pins until the device is opened again */
	struct kthread_delayed_work sweep;
	bool sweeps;  /* the VM moves */
	bool tracked; /* a fault marks each page that is touched, since the last sweep */
	unsigned long next_sweep; /* jiffies: none is due before */
	unsigned long pinned;	  /* pages */
	u64 pins;		  /* pages that were pinned without a log, each time counted */
	unsigned long max_pinned;
	unsigned int max_tables;     /* maximum of page tables of a mapping: set once */
	unsigned long pinning;	     /* the page that the worker is pinning, or ULONG_MAX */
	unsigned long unpinning;     /* the first page that it is unpinning, */
	unsigned long unpinning_end; /* and the one after the last */
	unsigned long steps;	     /* calls of type1 that have returned */
	unsigned int unmappers;	     /* threads that are unmapping within the next two */
	unsigned long unmap_first;
	unsigned long unmap_last;
	struct mm_struct *vm;	/* of the VM monitor, while it has the device */
	bool given;		/* the mediator has got a file of its memory */
	unsigned long patience; /* jiffies that touches may wait */
	unsigned long patience_at;
	wait_queue_head_t wait; /* for the worker, and until no fault is under way */
	atomic_t faults;	/* of the mediator, in the window and BAR2 */
	struct mutex log_lock;	/* a VM's thread may hold it for any time */
	struct vrdma_log *log;	/* of written pages, or NULL: changed under log_lock (log.c) */
	atomic_t losses;	/* threads that have page tables lose what they know for a log */
	atomic64_t written;	/* pages that a log has told, each time counted */
	struct page *scratch;
	struct vrdma_mdev_info_page *info;
};

struct vrdma_device {
	struct vfio_device vdev; /* first: vfio_alloc_device() requires it */
	u32 id;
	uuid_t uuid;
	u32 type;
	u32 vectors;
	u32 doorbell_pages;
	bool pvrdma; /* VMware's device */

	__le32 *shadow;
	void *doorbells; /* one VM's: see doorbells.c */

	struct vrdma_state state;
	struct vrdma_config config;
	struct vrdma_irqs irqs;
	struct vrdma_window window;
	struct vrdma_migration migration;
};

static inline struct vrdma_device *vrdma_device_of(struct vfio_device *vdev)
{
	return container_of(vdev, struct vrdma_device, vdev);
}

static inline size_t vrdma_doorbells_size(const struct vrdma_device *dev)
{
	return (size_t)dev->doorbell_pages * PAGE_SIZE;
}

/* parent.c */
int vrdma_parent_init(void);
void vrdma_parent_exit(void);
struct vrdma_hca *vrdma_hca_register(const struct vrdma_mdev_register *spec);
void vrdma_hca_release(struct vrdma_hca *hca);
int vrdma_hca_admit(struct vrdma_hca *hca, u32 type);
void vrdma_hca_dismiss(struct vrdma_hca *hca, u32 type);
unsigned int vrdma_hca_available(struct mdev_type *mtype);
ssize_t vrdma_hca_describe(struct mdev_type *mtype, char *buf);
bool vrdma_hca_has_uplink(struct mdev_type *mtype, const char *name);
void vrdma_hca_default_uplink(struct mdev_type *mtype, char name[VRDMA_MDEV_UPLINK_SIZE]);

/* hca.c */
#define VRDMA_NO_UPLINK "none" /* in sysfs */
bool vrdma_valid_uplink(const char *name);
int vrdma_hca_publish(struct vrdma_hca *hca, struct vrdma_device *dev);
void vrdma_hca_unpublish(struct vrdma_hca *hca, struct vrdma_device *dev);

/* device.c */
extern struct mdev_driver vrdma_mdev_driver;
struct vrdma_device *vrdma_device_get(struct vrdma_device *dev);
void vrdma_device_put(struct vrdma_device *dev);

/* sysfs.c */
extern const struct attribute_group *vrdma_device_groups[];

/* state.c */
void vrdma_state_init(struct vrdma_device *dev);
u32 vrdma_state_status(struct vrdma_device *dev);
bool vrdma_state_defunct(struct vrdma_device *dev);
void vrdma_state_write(struct vrdma_device *dev, u32 offset, u32 value);
bool vrdma_state_fatal(struct vrdma_device *dev);
bool vrdma_state_post(struct vrdma_device *dev, struct vrdma_write write, bool executed);
int vrdma_write_done(struct vrdma_device *dev, u32 number);
void vrdma_state_doorbell(struct vrdma_device *dev);
void vrdma_state_set_share(struct vrdma_device *dev, unsigned int which, bool set, u64 value);
void vrdma_state_revoked(struct vrdma_device *dev, u32 first, u32 last);
void vrdma_state_kick(struct vrdma_device *dev);
void vrdma_state_set_kick(struct vrdma_device *dev, struct eventfd_ctx *kick);
void vrdma_state_remove(struct vrdma_device *dev);
void vrdma_reset(struct vrdma_device *dev);
void vrdma_reset_function(struct vrdma_device *dev);
void vrdma_reset_open(struct vrdma_device *dev, bool open);
void vrdma_configure(struct vrdma_device *dev, u64 offset, const u8 *bytes, size_t count);
int vrdma_reset_done(struct vrdma_device *dev, u32 generation);
int vrdma_adopt(struct vrdma_device *dev);
void vrdma_abandon(struct vrdma_device *dev);
void vrdma_abandon_late(struct vrdma_device *dev);
void vrdma_fail(struct vrdma_device *dev);
int vrdma_state_step(struct vrdma_device *dev, u32 step, bool *answered);
int vrdma_step_done(struct vrdma_device *dev, u32 number, int error);
struct vrdma_transfer *vrdma_state_set_transfer(struct vrdma_device *dev,
						struct vrdma_transfer *transfer);
struct vrdma_transfer *vrdma_state_transfer(struct vrdma_device *dev);
void vrdma_release(struct vrdma_device *dev);
bool vrdma_next_message(struct vrdma_device *dev, struct vrdma_mdev_message *message, u32 *head);
void vrdma_take_message(struct vrdma_device *dev, const struct vrdma_mdev_message *message,
			u32 head);
bool vrdma_has_message(struct vrdma_device *dev);

/* handover.c */
void vrdma_handover_init(struct vrdma_device *dev);
int vrdma_hand_over(struct vrdma_device *dev, int fd);
int vrdma_take_over(struct vrdma_device *dev);
void vrdma_handover_forget(struct vrdma_state *state);
void vrdma_handover_cancel(struct vrdma_device *dev);

/* config.c */
void vrdma_config_init(struct vrdma_device *dev);
void vrdma_config_reset(struct vrdma_device *dev);
bool vrdma_config_bus_master(struct vrdma_device *dev);
bool vrdma_config_change(struct vrdma_device *dev, u64 offset, const u8 *bytes, size_t count);
ssize_t vrdma_config_read(struct vrdma_device *dev, char __user *buf, size_t count, u64 offset);
ssize_t vrdma_config_write(struct vrdma_device *dev, const char __user *buf, size_t count,
			   u64 offset);

/* region.c */
int vrdma_region_info(struct vfio_device *vdev, struct vfio_region_info *info,
		      struct vfio_info_cap *caps);
ssize_t vrdma_region_read(struct vfio_device *vdev, char __user *buf, size_t count, loff_t *pos);
ssize_t vrdma_region_write(struct vfio_device *vdev, const char __user *buf, size_t count,
			   loff_t *pos);
int vrdma_region_mmap(struct vfio_device *vdev, struct vm_area_struct *vma);

/* registers.c */
ssize_t vrdma_registers_read(struct vrdma_device *dev, char __user *buf, size_t count, u64 offset);
ssize_t vrdma_registers_write(struct vrdma_device *dev, const char __user *buf, size_t count,
			      u64 offset);

/* pvrdma.c */
__le32 vrdma_pvrdma_read(struct vrdma_device *dev, u32 offset);
void vrdma_pvrdma_write(struct vrdma_device *dev, u32 offset, u32 value);
ssize_t vrdma_pvrdma_ring(struct vrdma_device *dev, const char __user *buf, size_t count,
			  u64 offset);

/* doorbells.c */
void *vrdma_doorbells_alloc(const struct vrdma_device *dev);
int vrdma_doorbells_renew(struct vrdma_device *dev);
int vrdma_doorbells_mmap(struct vrdma_device *dev, struct vm_area_struct *vma, unsigned long page);

/* irq.c */
void vrdma_irqs_init(struct vrdma_device *dev);
void vrdma_irqs_close(struct vrdma_device *dev);
void vrdma_irqs_reset(struct vrdma_device *dev);
u32 vrdma_irq_count(const struct vrdma_device *dev, u32 index);
int vrdma_irqs_set(struct vrdma_device *dev, const struct vfio_irq_set *set, const void *data);
void vrdma_irq_raise(struct vrdma_device *dev, u32 vector);
void vrdma_irq_request(struct vfio_device *vdev, unsigned int count);

/* window.c */
int vrdma_window_init(struct vrdma_device *dev, u64 max_pinned);
void vrdma_window_destroy(struct vrdma_device *dev);
void vrdma_fault_begin(struct vrdma_window *window);
void vrdma_fault_end(struct vrdma_window *window);
void vrdma_faults_wait(struct vrdma_window *window);
void vrdma_window_attach(struct vrdma_device *dev, struct inode *inode);
void vrdma_window_detach(struct vrdma_device *dev);
void vrdma_window_zap(struct vrdma_window *window, pgoff_t first, pgoff_t count);
void vrdma_window_empty(struct vrdma_window *window, unsigned long first, unsigned long count);
void vrdma_window_hide(struct vrdma_window *window, unsigned long first, unsigned long count);
void vrdma_window_take_dirty(struct vrdma_window *window, unsigned long first, unsigned long count,
			     unsigned long *dirty);
void vrdma_window_disable(struct vrdma_device *dev);
void vrdma_window_enable(struct vrdma_device *dev);
void vrdma_window_unpin(struct vrdma_device *dev, u64 iova, u64 length);
void vrdma_window_revoke(struct vrdma_device *dev, unsigned long first, unsigned long last);

struct page *vrdma_window_page(struct vrdma_window *window, unsigned long index);

/* mapping.c */
#define VRDMA_WINDOW_PGOFF (VRDMA_MDEV_MMAP_WINDOW >> PAGE_SHIFT)

unsigned int vrdma_mapping_tables(u64 max_pinned);
int vrdma_window_mmap(struct vrdma_device *dev, struct vm_area_struct *vma);
bool vrdma_mappings_end(struct vrdma_window *window);

/* pins.c */
#define VRDMA_WINDOW_PAGES (VRDMA_MDEV_WINDOW_SIZE >> PAGE_SHIFT)
#define VRDMA_PAGE_WANTED xa_mk_value(LONG_MAX)
#define VRDMA_PAGE_SCRATCH xa_mk_value(LONG_MAX - 1)
#define VRDMA_PAGE_REVOKED XA_MARK_0

int vrdma_pins_open(struct vrdma_device *dev);
void vrdma_pins_close(struct vrdma_device *dev);
void vrdma_pins_count(struct vrdma_window *window, struct vrdma_mdev_precopy *precopy);
bool vrdma_pins_reclaim(struct vrdma_window *window, unsigned long index);
void vrdma_pins_touch(struct vrdma_device *dev, unsigned long index);
void vrdma_pins_wake(struct vrdma_window *window);
void vrdma_pins_settle(struct vrdma_window *window);
bool vrdma_pins_settled(struct vrdma_window *window, unsigned long first, unsigned long last);

/* log.c */
void vrdma_log_init(struct vrdma_device *dev);
bool vrdma_log_lets_write(struct vrdma_log *log, unsigned long index, bool writes);
void vrdma_log_lose_begin(struct vrdma_window *window);
void vrdma_log_lose_end(struct vrdma_window *window, unsigned long first, unsigned long count);
void vrdma_log_stop(struct vrdma_window *window);

/* sweep.c */
#define VRDMA_PAGE_TOUCHED XA_MARK_2
void vrdma_sweep_init(struct vrdma_window *window);
void vrdma_sweep_set(struct vrdma_device *dev, bool sweeps);
void vrdma_sweep_exit(struct vrdma_window *window);

/* unmap.c */
bool vrdma_unmapping(const struct vrdma_window *window, unsigned long index);
void vrdma_window_dma_unmap(struct vfio_device *vdev, u64 iova, u64 length);
void vrdma_unmap_exit(void);

/* file.c */
void vrdma_file_open(struct vrdma_window *window);
void vrdma_file_close(struct vrdma_window *window);
struct file *vrdma_file_of(struct vrdma_device *dev, unsigned long first, unsigned long *count,
			   pgoff_t *pgoff);
void vrdma_file_revoke(struct vrdma_device *dev, unsigned long first, unsigned long last);

/* mediator.c */
int vrdma_mediator_open(struct vrdma_device *dev);

/* migration.c */
void vrdma_migration_init(struct vrdma_device *dev);
void vrdma_migration_reset(struct vrdma_device *dev);

/* transfer.c */
#define VRDMA_TRANSFER_SIZE SZ_64K /* of the pipe; a power of two */
struct vrdma_transfer *vrdma_transfer_create(bool saving, bool early);
struct vrdma_transfer *vrdma_transfer_get(struct vrdma_transfer *transfer);
void vrdma_transfer_put(struct vrdma_transfer *transfer);
void vrdma_transfer_end(struct vrdma_transfer *transfer, int error);
int vrdma_transfer_stop(struct vrdma_transfer *transfer);
bool vrdma_transfer_passes(struct vrdma_transfer *transfer, u64 *passes);
u64 vrdma_transfer_rest(struct vrdma_transfer *transfer);
struct file *vrdma_transfer_vm_file(struct vrdma_transfer *transfer);
int vrdma_transfer_open(struct vrdma_transfer *transfer);

#endif /* VRDMA_MDEV_PRIVATE_H */
