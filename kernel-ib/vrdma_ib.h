/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guest's driver of the vrdma PCI function.
 *
 * Layers, each of which calls only itself and those below it:
 *
 *	pci					the function
 *	device					the one device that lives on it at a time
 *	port, netdev, counter_sets, resources	the port; what is counted and listed
 *	ucontext, dm, import, xrcd, srq, qp	the verbs
 *	pd, ah, cq, mr, mw, counters		those of what other objects use
 *	udata					what the provider says beside a verb
 *	eq, odp					events; pages on demand
 *	work_queue, post_send			the data path of kernel users: what is sent
 *	mr_fast, poll_cq, post_recv		its regions, completions and receives
 *	queue_memory, doorbell, pages		rings, and who is told; page lists
 *	vrdma/commands.h, admin			one function a command; the admin queue
 *	regs					registers, reset
 *
 * These calls go up the layers. Lower files report failures to the device: vrdma_dev_fail(),
 * vrdma_dev_check(), vrdma_dev_failed(), vrdma_dev_quiesce(). They report changes of the port:
 * vrdma_dev_set_netdev_up(), vrdma_dev_set_uplink_up(). A device that is to start again asks the
 * function: vrdma_function_restart().
 *
 * The device is a program on another processor of the host, even if this kernel has only one. So
 * vrdma/barrier.h orders accesses that the device sees, and smp_*() those that only this kernel's
 * processors see.
 */
#ifndef VRDMA_IB_H
#define VRDMA_IB_H

#include <linux/completion.h>
#include <linux/if.h>
#include <linux/if_ether.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/refcount.h>
#include <linux/rwsem.h>
#include <linux/semaphore.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include <rdma/ib_umem.h>
#include <rdma/ib_umem_odp.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>
#include <rdma/uverbs_ioctl.h>

#include <vrdma/admin_queue.h>
#include <vrdma/barrier.h>
#include <vrdma/commands.h>
#include <vrdma/counters.h>
#include <vrdma/device.h>
#include <vrdma/device_attr.h>
#include <vrdma/event_queue.h>
#include <vrdma/qp_attr.h>
#include <vrdma/queue.h>
#include <vrdma/registers.h>
#include <vrdma/ring.h>
#include <vrdma/uverbs.h>

#include "compat.h"

/* A doorbell page belongs to one process: a guest page must not hold two of them. */
static_assert(PAGE_SIZE == VRDMA_DOORBELL_PAGE_SIZE);

/* The PCI function. It outlives its devices: after each failure a new one is created on it. */
struct vrdma_function {
	struct pci_dev *pdev;
	void __iomem *regs;
	void __iomem *doorbells; /* page 0 of them: the kernel's own */
	struct vrdma_identity id;
	bool known; /* id, and interrupts for its vectors */

	/* Creates and replaces dev; as a work item it never runs twice at a time. */
	struct delayed_work restart;
	struct vrdma_dev *dev; /* or NULL, until the function can be enabled */
	int start_error;       /* why there is no device, as last logged */
	bool stopped;	       /* makes no device: removed, shut down or suspended */
};

struct vrdma_admin {
	dma_addr_t asq_dma;
	dma_addr_t acq_dma;
	int irq;
	char irq_name[32];

	struct semaphore free_ids;
	spinlock_t lock; /* all below; taken in interrupts */
	struct vrdma_admin_queue queue;
	struct completion done[VRDMA_ADMIN_DEPTH]; /* by id: the answer is there */
	bool dead;				   /* nothing is sent or answered any more */
};

struct vrdma_eq {
	struct vrdma_dev *dev;
	void *buffer; /* struct vrdma_eq_control, then entries */
	dma_addr_t dma;
	u32 consumer; /* free-running; only the interrupt handler touches it */
	u32 handle;
	int irq;
	char irq_name[32];
};

/*
 * The object that an event names. Events hold it while they are delivered, so that it outlives
 * them.
 */
struct vrdma_event_target {
	refcount_t refs;
	struct completion idle;
};

struct vrdma_dev {
	struct ib_device ibdev;
	struct vrdma_function *fn;
	struct vrdma_admin admin;
	struct vrdma_cpl_query_device caps;
	struct vrdma_pkeys pkeys;
	int status_irq;
	char status_irq_name[32];

	struct page *status_page; /* struct vrdma_status_page */
	dma_addr_t status_page_dma;

	struct vrdma_eq async_eq;
	struct vrdma_eq *comp_eqs; /* ibdev.num_comp_vectors of them */
	struct xarray cqs;	   /* cqn to struct vrdma_event_target */
	struct xarray srqs;
	struct xarray qps;
	struct xarray odp_mrs; /* by key */
	struct workqueue_struct *odp_wq;

	atomic_long_t dm_size; /* bytes of device memory that are taken */

	struct mutex counters_lock; /* the QPs' counters, and the commands that read them */

	struct mutex quiesce_lock; /* quiesced, and the reset before it is set */
	bool quiesced;		   /* was reset; touches no guest memory any more */
	struct work_struct flush;  /* has kernel CQs polled to flush WQEs */

	spinlock_t event_lock; /* the fields below, and each event while ib_core gets it */
	bool events_open;      /* the device is registered */
	/* The port is up if both are: */
	bool netdev_up; /* the paired netdev */
	bool uplink_up; /* the device's, by its events */

	/* The last seen state of the paired netdev; written under the RTNL lock. */
	struct notifier_block netdev_notifier;
	struct net_device *netdev;
	struct kobject *net_dir;
	char net_link[IFNAMSIZ]; /* its name there, or empty */
	unsigned int netdev_mtu;
};

struct vrdma_ucontext {
	struct ib_ucontext ibucontext;
	u32 handle;
	struct rdma_user_mmap_entry *doorbell;
	struct rdma_user_mmap_entry *kick;
	struct rdma_user_mmap_entry *status;
};

/* Pages that processes may map. The pages live as long as the last mapping. */
struct vrdma_dm_pages {
	struct vrdma_dev *dev;
	struct page *first;
	dma_addr_t dma;
	size_t size;
};

struct vrdma_dm {
	struct ib_dm ibdm;
	struct vrdma_dm_pages *pages;
	struct rdma_user_mmap_entry *entry; /* owns the pages, for the mappings */
};

struct vrdma_pd {
	struct ib_pd ibpd;
	u32 handle;
};

struct vrdma_ah {
	struct ib_ah ibah;
	u32 handle;	    /* or 0: the kernel's, unknown to the device */
	struct vrdma_av av; /* the kernel's: each of its WQEs holds a copy */
};

struct vrdma_mr {
	struct ib_mr ibmr;
	struct ib_umem *umem;
	u32 key; /* as it was given out: ibmr's low byte may differ */
	int access_flags;

	/* Fast registration: the pages that were mapped last (mr_fast.c). */
	__le64 *list;
	dma_addr_t list_dma;
	u32 list_count;
	u32 list_max;

	/* For pages on demand, see odp.c: */
	bool odp;
	bool odp_implicit; /* the whole address space, in children */
	u32 odp_first_offset;
	unsigned long odp_start; /* user address of page 0 */
	u64 odp_pages;
	u64 odp_iova;
	u64 odp_length;
	struct vrdma_event_target target;
	struct mutex odp_lock;		 /* the children, and one fault at a time */
	struct rw_semaphore odp_leaving; /* held for writing while the device forgets the region */
	bool odp_forgotten;		 /* the device uses none of its pages any more */
	struct xarray odp_children;	 /* by address >> VRDMA_ODP_CHILD_SHIFT */
};

struct vrdma_mw {
	struct ib_mw ibmw;
	u32 key; /* as it was given out */
};

struct vrdma_queue_page {
	void *data;
	dma_addr_t dma;
};

/* The memory of a queue: pinned memory of a process, or the kernel's own. */
struct vrdma_queue_memory {
	struct ib_umem *umem;
	struct vrdma_queue_page *pages; /* the kernel's, else NULL */
	unsigned int num_pages;
};

/* The address of an offset in a queue of the kernel's; no entry crosses a page. */
static inline void *vrdma_queue_at(const struct vrdma_queue_memory *memory, size_t offset)
{
	return memory->pages[offset >> PAGE_SHIFT].data + offset_in_page(offset);
}

/* A copy of a posted WQE's fields that the device cannot change. */
struct vrdma_posted {
	u64 wr_id;
	u32 ctrl; /* first word of the WQE */
};

/*
 * A kernel user's ring of WQEs. Posts hold the lock; the thread that polls the CQ moves the tail.
 */
struct vrdma_work_queue {
	spinlock_t lock; /* taken in interrupts */
	const struct vrdma_queue_memory *memory;
	size_t offset;		     /* of the ring in it */
	struct vrdma_posted *posted; /* by slot */
	u32 head;		     /* WQEs posted, free-running */
	u32 tail;		     /* WQEs completed, free-running */
	u32 depth;		     /* a power of two, or 0 */
	u32 max_sge;
	u8 stride_shift;
};

struct vrdma_cq {
	struct ib_cq ibcq;
	struct vrdma_event_target target;
	struct mutex resize_lock; /* memory, with the device's ring */
	struct vrdma_queue_memory memory;
	u32 cqn;

	/* For kernel CQs only. */
	spinlock_t lock;	    /* all below; taken in interrupts */
	u32 consumer;		    /* CQEs taken, free-running */
	u32 depth;		    /* a power of two */
	u32 arm;		    /* as last written for the device */
	struct list_head senders;   /* QPs, by send_link */
	struct list_head receivers; /* QPs with a ring of their own, by recv_link */
};

/* The posted WQE of an SRQ's cookie. */
struct vrdma_cookie {
	u64 wr_id;
	u32 next_free; /* of a free one, else VRDMA_COOKIE_POSTED */
};

#define VRDMA_COOKIE_POSTED U32_MAX

struct vrdma_xrcd {
	struct ib_xrcd ibxrcd;
	u32 handle;
};

struct vrdma_srq {
	struct ib_srq ibsrq;
	struct vrdma_event_target target;
	struct mutex resize_lock; /* memory and max_wr, with the device's ring */
	struct vrdma_queue_memory memory;
	u32 srqn;
	u32 max_wr;
	u32 max_sge;
	u8 stride_shift;

	/* For kernel SRQs only. */
	spinlock_t lock; /* all below; taken in interrupts */
	struct vrdma_cookie *cookies;
	u32 free_count;
	u32 first_free; /* cookie, while free_count is not 0 */
	u32 head;	/* WQEs posted, free-running */
};

struct vrdma_qp {
	struct ib_qp ibqp;
	struct vrdma_event_target target;
	struct vrdma_queue_memory memory;
	struct ib_qp_cap cap;
	enum ib_sig_type sq_sig_type;
	struct vrdma_counters *counters; /* as last read, for frequent queries, or NULL */
	unsigned long counters_until;	 /* jiffies at which they expire */

	/* For kernel QPs only. */
	struct vrdma_work_queue sq;
	struct vrdma_work_queue rq;
	u32 doorbell_slot;
	bool attached; /* to its CQs, which may complete its WQEs */
	struct list_head send_link;
	struct list_head recv_link;
};

/* A page list that the device can read (see device.h), for the duration of a command. */
struct vrdma_pages {
	struct vrdma_page_list list;
	u32 first_offset;
	struct list_head mapped;
	struct page *open[VRDMA_PAGE_LIST_MAX_LEVELS]; /* being filled, by level - 1 */
	unsigned int used[VRDMA_PAGE_LIST_MAX_LEVELS];
};

static inline struct vrdma_dev *to_vrdma_dev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct vrdma_dev, ibdev);
}

static inline struct vrdma_ucontext *to_vrdma_ucontext(struct ib_ucontext *ibucontext)
{
	return container_of(ibucontext, struct vrdma_ucontext, ibucontext);
}

static inline struct vrdma_pd *to_vrdma_pd(struct ib_pd *ibpd)
{
	return container_of(ibpd, struct vrdma_pd, ibpd);
}

static inline struct vrdma_ah *to_vrdma_ah(struct ib_ah *ibah)
{
	return container_of(ibah, struct vrdma_ah, ibah);
}

static inline struct vrdma_mr *to_vrdma_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct vrdma_mr, ibmr);
}

static inline void vrdma_mr_set_key(struct vrdma_mr *mr, u32 key)
{
	mr->key = key;
	mr->ibmr.lkey = key;
	mr->ibmr.rkey = key;
}

static inline struct vrdma_mw *to_vrdma_mw(struct ib_mw *ibmw)
{
	return container_of(ibmw, struct vrdma_mw, ibmw);
}

static inline struct vrdma_cq *to_vrdma_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct vrdma_cq, ibcq);
}

static inline struct vrdma_xrcd *to_vrdma_xrcd(struct ib_xrcd *ibxrcd)
{
	return container_of(ibxrcd, struct vrdma_xrcd, ibxrcd);
}

static inline struct vrdma_srq *to_vrdma_srq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct vrdma_srq, ibsrq);
}

static inline struct vrdma_qp *to_vrdma_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct vrdma_qp, ibqp);
}

/* pci.c */
void vrdma_function_restart(struct vrdma_function *fn);

/* regs.c */
int vrdma_identify(struct vrdma_function *fn);
bool vrdma_ready(struct vrdma_function *fn);
bool vrdma_enabled(struct vrdma_function *fn);
int vrdma_reset(struct vrdma_function *fn);
int vrdma_enable(struct vrdma_dev *dev);

/* admin.c */
int vrdma_admin_init(struct vrdma_dev *dev);
void vrdma_admin_cleanup(struct vrdma_dev *dev);
bool vrdma_admin_kill(struct vrdma_admin *admin);

/* eq.c */
int vrdma_eqs_init(struct vrdma_dev *dev);
void vrdma_eqs_cleanup(struct vrdma_dev *dev);
int vrdma_event_target_add(struct xarray *table, u32 id, struct vrdma_event_target *target);
struct vrdma_event_target *vrdma_event_target_get(struct xarray *table, u32 id);
void vrdma_event_target_put(struct vrdma_event_target *target);
void vrdma_event_target_remove(struct xarray *table, u32 id, struct vrdma_event_target *target);
void vrdma_wake_kernel_cqs(struct vrdma_dev *dev);

/* device.c */
struct vrdma_dev *vrdma_dev_create(struct vrdma_function *fn);
void vrdma_dev_destroy(struct vrdma_dev *dev);
void vrdma_dev_check(struct vrdma_dev *dev);
void vrdma_dev_fail(struct vrdma_dev *dev, const char *why);
void vrdma_dev_quiesce(struct vrdma_dev *dev);
void vrdma_dev_event(struct vrdma_dev *dev, enum ib_event_type type);
void vrdma_dev_set_netdev_up(struct vrdma_dev *dev, bool up);
void vrdma_dev_set_uplink_up(struct vrdma_dev *dev, bool up);

/* netdev.c */
struct net_device *vrdma_get_netdev(struct ib_device *ibdev, u32 port);
int vrdma_netdev_pair(struct vrdma_dev *dev);
void vrdma_netdev_unpair(struct vrdma_dev *dev);

/* udata.c */
int vrdma_udata_none(struct ib_udata *udata);
int vrdma_udata_in(struct ib_udata *udata, void *req, size_t size);
int vrdma_udata_out(struct ib_udata *udata, void *resp, size_t size);
u32 vrdma_udata_owner(struct ib_udata *udata);

/* pages.c */
bool vrdma_copies_memory(struct vrdma_dev *dev);
int vrdma_pages_init(struct vrdma_dev *dev, struct vrdma_pages *pages, struct ib_umem *umem,
		     u64 start);
int vrdma_pages_init_queue(struct vrdma_dev *dev, struct vrdma_pages *pages,
			   const struct vrdma_queue_memory *memory);
void vrdma_pages_cleanup(struct vrdma_dev *dev, struct vrdma_pages *pages);
struct ib_umem *vrdma_pin_queue(struct vrdma_dev *dev, struct vrdma_pages *pages, u64 address,
				u64 size);

/* queue_memory.c */
int vrdma_queue_memory_init(struct vrdma_dev *dev, struct vrdma_queue_memory *memory,
			    struct vrdma_pages *pages, struct ib_udata *udata, u64 address,
			    u64 size);
void vrdma_queue_memory_cleanup(struct vrdma_dev *dev, struct vrdma_queue_memory *memory);

/* doorbell.c */
void vrdma_announce_sends(struct vrdma_dev *dev, struct vrdma_qp *qp);
void vrdma_announce_receives(struct vrdma_dev *dev, struct vrdma_qp *qp);

/* work_queue.c */
int vrdma_work_queues_init(struct vrdma_qp *qp, const struct vrdma_uverbs_create_qp *layout);
void vrdma_work_queues_cleanup(struct vrdma_qp *qp);
void vrdma_work_queues_attach(struct vrdma_qp *qp);
void vrdma_work_queues_detach(struct vrdma_qp *qp);
void vrdma_work_queues_reset(struct vrdma_qp *qp);
void vrdma_qp_kernel_layout(struct vrdma_uverbs_create_qp *layout, struct ib_qp_init_attr *attr);
u8 vrdma_receive_stride_shift(u32 max_sge);

static inline bool vrdma_work_queue_full(const struct vrdma_work_queue *wq)
{
	/* The thread that moved the tail has read the shadow entry that this frees. */
	return wq->head - smp_load_acquire(&wq->tail) >= wq->depth;
}

static inline void *vrdma_wqe_at(const struct vrdma_work_queue *wq, u32 index)
{
	size_t slot = vrdma_ring_slot(index, wq->depth);

	return vrdma_queue_at(wq->memory, wq->offset + (slot << wq->stride_shift));
}

/* Passes the WQE at head to the device. ctrl is the WQE's first word. */
static inline void vrdma_work_queue_publish(struct vrdma_work_queue *wq, __le32 *ctrl, u32 value,
					    u64 wr_id)
{
	struct vrdma_posted *posted = &wq->posted[vrdma_ring_slot(wq->head, wq->depth)];

	value |= vrdma_ring_phase(wq->head, wq->depth, VRDMA_WQE_PHASE);
	posted->wr_id = wr_id;
	posted->ctrl = value;
	/* A thread that flushes the WQE sees its shadow entry. */
	smp_store_release(&wq->head, wq->head + 1);
	/*
	 * The rest of the WQE is written before its phase. A thread that sees it complete sees the
	 * head.
	 */
	vrdma_store_release(ctrl, value);
}

static inline void vrdma_write_sges(struct vrdma_sge *to, const struct ib_sge *from, int count)
{
	int i;

	for (i = 0; i < count; i++) {
		to[i].addr = cpu_to_le64(from[i].addr);
		to[i].length = cpu_to_le32(from[i].length);
		to[i].lkey = cpu_to_le32(from[i].lkey);
	}
}

/* post_send.c */
int vrdma_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		    const struct ib_send_wr **bad_wr);

/* post_recv.c */
int vrdma_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		    const struct ib_recv_wr **bad_wr);
int vrdma_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
			const struct ib_recv_wr **bad_wr);
int vrdma_srq_ring_init(struct vrdma_srq *srq);
void vrdma_srq_ring_cleanup(struct vrdma_srq *srq);
bool vrdma_srq_complete(struct vrdma_srq *srq, u32 cookie, u64 *wr_id);

/* poll_cq.c */
void vrdma_cq_ring_init(struct vrdma_cq *cq, u32 depth);
bool vrdma_cq_has_kernel_qps(struct vrdma_cq *cq);
void vrdma_cq_strike_out(struct vrdma_cq *cq, struct vrdma_qp *qp);
int vrdma_poll_cq(struct ib_cq *ibcq, int num_entries, struct ib_wc *wc);
int vrdma_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);

/* port.c */
int vrdma_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *props);
int vrdma_get_port_immutable(struct ib_device *ibdev, u32 port, struct ib_port_immutable *props);
enum rdma_link_layer vrdma_get_link_layer(struct ib_device *ibdev, u32 port);
int vrdma_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey);
int vrdma_add_gid(const struct ib_gid_attr *attr, void **context);
int vrdma_del_gid(const struct ib_gid_attr *attr, void **context);

/* counters.c */
struct rdma_hw_stats *vrdma_alloc_hw_port_stats(struct ib_device *ibdev, u32 port);
int vrdma_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index);
int vrdma_process_mad(struct ib_device *ibdev, int flags, u32 port, const struct ib_wc *wc,
		      const struct ib_grh *grh, const struct ib_mad *in, struct ib_mad *out,
		      size_t *out_size, u16 *out_pkey_index);

/* counter_sets.c */
struct rdma_hw_stats *vrdma_counter_alloc_stats(struct rdma_counter *counter);
int vrdma_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp);
int vrdma_counter_unbind_qp(struct ib_qp *ibqp);
int vrdma_counter_dealloc(struct rdma_counter *counter);
int vrdma_counter_update_stats(struct rdma_counter *counter);

/* resources.c */
int vrdma_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq);
int vrdma_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp);
bool vrdma_fill_qp_counters(struct sk_buff *msg, struct ib_qp *ibqp);
void vrdma_qp_counters_free(struct vrdma_qp *qp);

/* ucontext.c */
void vrdma_ucontext_describe(struct vrdma_ucontext *ucontext,
			     struct vrdma_uverbs_alloc_ucontext_resp *resp);
int vrdma_alloc_ucontext(struct ib_ucontext *ibucontext, struct ib_udata *udata);
void vrdma_dealloc_ucontext(struct ib_ucontext *ibucontext);
void vrdma_disassociate_ucontext(struct ib_ucontext *ibucontext);
struct rdma_user_mmap_entry *vrdma_mmap_dm(struct ib_ucontext *ibucontext,
					   struct vrdma_dm_pages *pages);
int vrdma_mmap(struct ib_ucontext *ibucontext, struct vm_area_struct *vma);
void vrdma_mmap_free(struct rdma_user_mmap_entry *entry);

/* import.c */
extern const struct uapi_definition vrdma_uapi_definitions[];
int vrdma_query_ucontext(struct ib_ucontext *ibucontext, struct uverbs_attr_bundle *attrs);

/* pd.c */
int vrdma_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int vrdma_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);

/* ah.c */
int vrdma_av_from_ah_attr(struct vrdma_av *av, const struct rdma_ah_attr *attr);
void vrdma_av_to_ah_attr(const struct vrdma_av *av, struct rdma_ah_attr *attr);
int vrdma_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata);
int vrdma_destroy_ah(struct ib_ah *ibah, u32 flags);

/* odp.c */
int vrdma_odp_init(struct vrdma_dev *dev);
void vrdma_odp_cleanup(struct vrdma_dev *dev);
void vrdma_odp_caps(struct ib_device_attr *props);
void vrdma_odp_event(struct vrdma_dev *dev, u32 key, u64 detail);
struct ib_mr *vrdma_odp_reg_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova,
			       int access_flags);
int vrdma_odp_forget_mr(struct vrdma_dev *dev, struct vrdma_mr *mr);
void vrdma_odp_cleanup_mr(struct vrdma_dev *dev, struct vrdma_mr *mr);
int vrdma_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		    struct ib_sge *list, u32 count, struct uverbs_attr_bundle *attrs);

/* mr.c */
#define VRDMA_MR_ACCESS                                                           \
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
	 IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_MW_BIND | IB_ZERO_BASED | IB_ACCESS_HUGETLB)

struct ib_mr *vrdma_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 virt_addr,
				int access_flags, struct ib_udata *udata);
/* Registers memory that belongs to no process: nothing of it is pinned here. */
struct ib_mr *vrdma_reg_bus_mr(struct vrdma_dev *dev, const struct vrdma_cmd_reg_mr *arg);
struct ib_mr *vrdma_get_dma_mr(struct ib_pd *ibpd, int access_flags);
struct ib_mr *vrdma_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length,
				  u64 virt_addr, int access_flags, struct ib_pd *ibpd,
				  struct ib_udata *udata);
int vrdma_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);

/* mr_fast.c */
struct ib_mr *vrdma_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max_num_sg);
int vrdma_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		    unsigned int *sg_offset);
void vrdma_fast_fill(const struct vrdma_mr *mr, int access_flags, struct vrdma_sq_reg *reg);
void vrdma_fast_list_free(struct vrdma_dev *dev, struct vrdma_mr *mr);

/* mw.c */
int vrdma_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int vrdma_dealloc_mw(struct ib_mw *ibmw);

/* dm.c */
extern const struct uapi_definition vrdma_dm_methods[];
struct ib_dm *vrdma_alloc_dm(struct ib_device *ibdev, struct ib_ucontext *ibucontext,
			     struct ib_dm_alloc_attr *attr, struct uverbs_attr_bundle *attrs);
int vrdma_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs);
struct ib_mr *vrdma_reg_dm_mr(struct ib_pd *ibpd, struct ib_dm *ibdm, struct ib_dm_mr_attr *attr,
			      struct uverbs_attr_bundle *attrs);
void vrdma_dm_pages_free(struct vrdma_dm_pages *pages);

/* cq.c */
int vrdma_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr, struct ib_udata *udata);
int vrdma_resize_cq(struct ib_cq *ibcq, int cqe, struct ib_udata *udata);
int vrdma_modify_cq(struct ib_cq *ibcq, u16 count, u16 period);
int vrdma_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);

/* xrcd.c */
int vrdma_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);
int vrdma_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);
int vrdma_create_any_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata);

/* srq.c */
int vrdma_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init, struct ib_udata *udata);
int vrdma_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		     struct ib_udata *udata);
int vrdma_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int vrdma_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);

/* qp.c */
/* Checks one ring as the provider laid it out: it holds max_wr entries of entry_size bytes. */
bool vrdma_ring_fits(u32 depth, u8 stride_shift, u8 min_shift, u32 max_wr, size_t entry_size);
int vrdma_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata);
int vrdma_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);
int vrdma_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_qp_init_attr *init_attr);
int vrdma_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
int vrdma_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
int vrdma_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);

#endif /* VRDMA_IB_H */
