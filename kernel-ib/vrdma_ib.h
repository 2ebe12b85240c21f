/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guest's driver of the vrdma PCI function.
 *
 * Layers, each of which knows only those below it:
 *
 *	device, port, netdev, ucontext, pd, ah, mr, cq, srq, qp	the verbs
 *	vrdma/commands.h					one function an admin command
 *	eq, pages						events; page lists
 *	admin							the admin queue
 *	regs							registers, reset
 *
 * pci owns the function and the one device that lives on it at a time.
 */
#ifndef VRDMA_IB_H
#define VRDMA_IB_H

#include <linux/completion.h>
#include <linux/if_ether.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/refcount.h>
#include <linux/semaphore.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

#include <vrdma/commands.h>
#include <vrdma/device.h>
#include <vrdma/qp_attr.h>
#include <vrdma/queue.h>
#include <vrdma/registers.h>
#include <vrdma/ring.h>
#include <vrdma/uverbs.h>

#define VRDMA_PORT 1
#define VRDMA_ADMIN_DEPTH 64 /* commands in flight; a power of two */

/* A doorbell page belongs to one process: a guest page must not hold two. */
static_assert(PAGE_SIZE == VRDMA_DOORBELL_PAGE_SIZE);

/* The PCI function. It outlives the devices that are made on it, one after each failure. */
struct vrdma_function {
	struct pci_dev *pdev;
	void __iomem *regs;
	struct vrdma_identity id;

	/* Makes and replaces dev; as a work item it never runs twice at a time. */
	struct delayed_work restart;
	struct vrdma_dev *dev; /* or NULL, until the function can be enabled */
	int start_error;       /* why there is no device, as last logged */
	bool removing;
};

struct vrdma_admin_slot {
	struct completion done;
	struct vrdma_admin_cpl *cpl; /* the caller's, filled before done; NULL: not in flight */
};

/* An admin queue whose command may be answered in any order. Slots are named by command ids. */
struct vrdma_admin {
	struct vrdma_admin_cmd *asq;
	struct vrdma_admin_cpl *acq;
	dma_addr_t asq_dma;
	dma_addr_t acq_dma;
	int irq;
	char irq_name[32];

	struct semaphore free_slots;
	spinlock_t lock; /* all below; taken in interrupts */
	struct vrdma_admin_slot *slots;
	unsigned long *used_ids;
	u32 producer; /* free-running */
	u32 consumer; /* free-running */
	bool dead;    /* nothing is sent nor answered any more */
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

/* What an event names. Events hold it while they are delivered, so that it outlives them. */
struct vrdma_event_target {
	refcount_t refs;
	struct completion idle;
};

struct vrdma_dev {
	struct ib_device ibdev;
	struct vrdma_function *fn;
	struct vrdma_admin admin;
	struct vrdma_cpl_query_device caps;
	int status_irq;
	char status_irq_name[32];

	struct page *status_page; /* struct vrdma_status_page */
	dma_addr_t status_page_dma;

	struct vrdma_eq async_eq;
	struct vrdma_eq *comp_eqs; /* ibdev.num_comp_vectors of them */
	struct xarray cqs;	   /* cqn to struct vrdma_event_target */
	struct xarray srqs;
	struct xarray qps;

	struct mutex quiesce_lock; /* quiesced, and the reset before it is set */
	bool quiesced;		   /* was reset; touches no guest memory any more */

	spinlock_t event_lock; /* events_open, and each event while it is given to ib_core */
	bool events_open;      /* the device is registered */

	/* What the paired netdev was last seen to be; written under the RTNL lock. */
	struct notifier_block netdev_notifier;
	struct net_device *netdev;
	unsigned int netdev_mtu;
	bool link_up;
};

struct vrdma_ucontext {
	struct ib_ucontext ibucontext;
	u32 handle;
	struct rdma_user_mmap_entry *doorbell;
	struct rdma_user_mmap_entry *kick;
	struct rdma_user_mmap_entry *status;
};

struct vrdma_pd {
	struct ib_pd ibpd;
	u32 handle;
};

struct vrdma_ah {
	struct ib_ah ibah;
	u32 handle;
};

struct vrdma_mr {
	struct ib_mr ibmr;
	struct ib_umem *umem;
};

struct vrdma_cq {
	struct ib_cq ibcq;
	struct vrdma_event_target target;
	struct ib_umem *umem;
	u32 cqn;
};

struct vrdma_srq {
	struct ib_srq ibsrq;
	struct vrdma_event_target target;
	struct ib_umem *umem;
	u32 srqn;
	u32 max_wr;
	u32 max_sge;
};

struct vrdma_qp {
	struct ib_qp ibqp;
	struct vrdma_event_target target;
	struct ib_umem *umem;
	struct ib_qp_cap cap;
	enum ib_sig_type sq_sig_type;
};

/* A page list that the device can read (see device.h), for the time of a command. */
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

static inline struct vrdma_cq *to_vrdma_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct vrdma_cq, ibcq);
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
void vrdma_event_target_remove(struct xarray *table, u32 id, struct vrdma_event_target *target);

/* device.c */
struct vrdma_dev *vrdma_dev_create(struct vrdma_function *fn);
void vrdma_dev_destroy(struct vrdma_dev *dev);
void vrdma_dev_check(struct vrdma_dev *dev);
void vrdma_dev_fail(struct vrdma_dev *dev, const char *why);
void vrdma_dev_quiesce(struct vrdma_dev *dev);
void vrdma_dev_event(struct vrdma_dev *dev, enum ib_event_type type);

/* netdev.c */
int vrdma_netdev_pair(struct vrdma_dev *dev);
void vrdma_netdev_unpair(struct vrdma_dev *dev);

/* udata.c */
int vrdma_udata_none(struct ib_udata *udata);
int vrdma_udata_in(struct ib_udata *udata, void *req, size_t size);
int vrdma_udata_out(struct ib_udata *udata, void *resp, size_t size);

/* pages.c */
int vrdma_pages_init(struct vrdma_dev *dev, struct vrdma_pages *pages, struct ib_umem *umem,
		     u64 start);
void vrdma_pages_cleanup(struct vrdma_dev *dev, struct vrdma_pages *pages);
struct ib_umem *vrdma_pin_queue(struct vrdma_dev *dev, struct vrdma_pages *pages, u64 address,
				u64 size);

/* port.c */
int vrdma_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *props);
int vrdma_get_port_immutable(struct ib_device *ibdev, u32 port, struct ib_port_immutable *props);
enum rdma_link_layer vrdma_get_link_layer(struct ib_device *ibdev, u32 port);
int vrdma_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey);
int vrdma_add_gid(const struct ib_gid_attr *attr, void **context);
int vrdma_del_gid(const struct ib_gid_attr *attr, void **context);

/* ucontext.c */
int vrdma_alloc_ucontext(struct ib_ucontext *ibucontext, struct ib_udata *udata);
void vrdma_dealloc_ucontext(struct ib_ucontext *ibucontext);
void vrdma_disassociate_ucontext(struct ib_ucontext *ibucontext);
int vrdma_mmap(struct ib_ucontext *ibucontext, struct vm_area_struct *vma);
void vrdma_mmap_free(struct rdma_user_mmap_entry *entry);

/* pd.c */
int vrdma_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int vrdma_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);

/* ah.c */
int vrdma_av_from_ah_attr(struct vrdma_av *av, const struct rdma_ah_attr *attr);
void vrdma_av_to_ah_attr(const struct vrdma_av *av, struct rdma_ah_attr *attr);
int vrdma_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata);
int vrdma_destroy_ah(struct ib_ah *ibah, u32 flags);

/* mr.c */
struct ib_mr *vrdma_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 virt_addr,
				int access_flags, struct ib_udata *udata);
int vrdma_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);

/* cq.c */
int vrdma_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr, struct ib_udata *udata);
int vrdma_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);

/* srq.c */
int vrdma_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init, struct ib_udata *udata);
int vrdma_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		     struct ib_udata *udata);
int vrdma_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int vrdma_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);

/* qp.c */
/* One ring as the provider laid it out: it holds max_wr entries of entry_size bytes. */
bool vrdma_ring_fits(u32 depth, u8 stride_shift, u8 min_shift, u32 max_wr, size_t entry_size);
int vrdma_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata);
int vrdma_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);
int vrdma_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_qp_init_attr *init_attr);
int vrdma_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);

#endif /* VRDMA_IB_H */
