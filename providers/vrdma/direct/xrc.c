/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * XRC without a kernel. This file does for the contexts of one process what ib_core does for
 * processes that share a domain. Contexts that open the same file get the same domain. A QP that
 * receives for the domain may be opened again by its number. It is destroyed when its last handle
 * is closed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "verbs.h"

/* A domain of the device. */
struct vrdma_xrc_domain {
	struct vrdma_xrc_domain *next;
	unsigned int refs; /* handles */
	uint32_t handle;
	bool shared; /* by the file below */
	dev_t device;
	ino_t inode;
	struct vrdma_xrc_target *targets;
};

/* A QP of the device. Its domain outlives it: the device does not free a domain that is in use. */
struct vrdma_xrc_target {
	struct vrdma_xrc_target *next;
	unsigned int refs; /* handles */
	uint32_t qpn;
	struct vrdma_xrc_domain *domain;
};

static struct vrdma_xrc_domain *find_domain(struct vrdma_dev *dev, const struct stat *file)
{
	struct vrdma_xrc_domain *domain = dev->xrc_domains;

	while (domain &&
	       !(domain->shared && domain->device == file->st_dev && domain->inode == file->st_ino))
		domain = domain->next;
	return domain;
}

static int new_domain(struct vrdma_dev *dev, const struct stat *file,
		      struct vrdma_xrc_domain **made)
{
	struct vrdma_xrc_domain *domain = calloc(1, sizeof(*domain));
	int ret;

	if (!domain)
		return ENOMEM;
	ret = -vrdma_cmd_alloc_xrcd(dev, &domain->handle);
	if (ret) {
		free(domain);
		return ret;
	}
	if (file) {
		domain->shared = true;
		domain->device = file->st_dev;
		domain->inode = file->st_ino;
	}
	domain->next = dev->xrc_domains;
	dev->xrc_domains = domain;
	*made = domain;
	return 0;
}

/* As ib_uverbs does it: EAGAIN without O_CREAT, EINVAL with O_EXCL. */
static int get_domain(struct vrdma_dev *dev, const struct ibv_xrcd_init_attr *attr,
		      struct vrdma_xrc_domain **domain)
{
	struct stat file;

	if (attr->fd == -1)
		return new_domain(dev, NULL, domain);
	if (fstat(attr->fd, &file))
		return errno;
	*domain = find_domain(dev, &file);
	if (*domain)
		return attr->oflags & O_EXCL ? EINVAL : 0;
	return attr->oflags & O_CREAT ? new_domain(dev, &file, domain) : EAGAIN;
}

int vrdma_direct_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr,
			   struct vrdma_xrcd *xrcd)
{
	struct vrdma_dev *dev = vrdma_dev_of(context);
	int ret;

	pthread_mutex_lock(&dev->xrc_lock);
	ret = get_domain(dev, attr, &xrcd->domain);
	if (!ret)
		xrcd->domain->refs++;
	pthread_mutex_unlock(&dev->xrc_lock);
	if (ret)
		return ret;
	xrcd->base.xrcd.context = context;
	xrcd->base.handle = xrcd->domain->handle;
	return 0;
}

static void forget_domain(struct vrdma_dev *dev, struct vrdma_xrc_domain *domain)
{
	struct vrdma_xrc_domain **at = &dev->xrc_domains;

	while (*at != domain)
		at = &(*at)->next;
	*at = domain->next;
	free(domain);
}

int vrdma_direct_close_xrcd(struct vrdma_xrcd *xrcd)
{
	struct vrdma_dev *dev = vrdma_dev_of(xrcd->base.xrcd.context);
	struct vrdma_xrc_domain *domain = xrcd->domain;
	int ret = 0;

	pthread_mutex_lock(&dev->xrc_lock);
	if (domain->refs == 1)
		ret = -vrdma_cmd_destroy(dev, VRDMA_ADMIN_DEALLOC_XRCD, domain->handle);
	if (!ret && --domain->refs == 0)
		forget_domain(dev, domain);
	pthread_mutex_unlock(&dev->xrc_lock);
	return ret;
}

static int new_target(struct vrdma_dev *dev, struct vrdma_xrc_domain *domain,
		      struct vrdma_xrc_target **made)
{
	struct vrdma_cmd_create_qp arg = {
		.qp_type = IBV_QPT_XRC_RECV,
		.xrcd = htole32(domain->handle),
	};
	struct vrdma_xrc_target *target = calloc(1, sizeof(*target));
	uint32_t slot;
	int ret;

	if (!target)
		return ENOMEM;
	ret = -vrdma_cmd_create_qp(dev, &arg, &target->qpn, &slot);
	if (ret) {
		free(target);
		return ret;
	}
	target->domain = domain;
	target->next = domain->targets;
	domain->targets = target;
	*made = target;
	return 0;
}

static int find_target(struct vrdma_xrc_domain *domain, uint32_t qpn,
		       struct vrdma_xrc_target **found)
{
	struct vrdma_xrc_target *target = domain->targets;

	while (target && target->qpn != qpn)
		target = target->next;
	*found = target;
	return target ? 0 : EINVAL;
}

static void fill_handle(struct ibv_context *context, struct vrdma_qp *qp, struct ibv_xrcd *xrcd,
			void *qp_context)
{
	struct ibv_qp *base = &qp->base.qp;

	base->context = context;
	base->qp_context = qp_context;
	base->qp_num = qp->target_qp->qpn;
	base->handle = base->qp_num;
	base->qp_type = IBV_QPT_XRC_RECV;
	pthread_mutex_init(&base->mutex, NULL);
	pthread_cond_init(&base->cond, NULL);
	vrdma_qp_end(&qp->base)->comp_mask = VERBS_QP_XRCD;
	vrdma_qp_end(&qp->base)->xrcd = &to_vrdma_xrcd(xrcd)->base;
	vrdma_events_add_qp(vrdma_dev_of(context), qp);
}

int vrdma_direct_create_xrc_recv(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				 struct vrdma_qp *qp)
{
	struct vrdma_dev *dev = vrdma_dev_of(context);
	int ret;

	pthread_mutex_lock(&dev->xrc_lock);
	ret = new_target(dev, to_vrdma_xrcd(attr->xrcd)->domain, &qp->target_qp);
	if (!ret)
		qp->target_qp->refs++;
	pthread_mutex_unlock(&dev->xrc_lock);
	if (!ret)
		fill_handle(context, qp, attr->xrcd, attr->qp_context);
	return ret;
}

int vrdma_direct_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr,
			 struct vrdma_qp *qp)
{
	struct vrdma_dev *dev = vrdma_dev_of(context);
	int ret;

	pthread_mutex_lock(&dev->xrc_lock);
	ret = find_target(to_vrdma_xrcd(attr->xrcd)->domain, attr->qp_num, &qp->target_qp);
	if (!ret)
		qp->target_qp->refs++;
	pthread_mutex_unlock(&dev->xrc_lock);
	if (ret)
		return ret;
	fill_handle(context, qp, attr->xrcd,
		    attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL);
	qp->base.qp.state = IBV_QPS_UNKNOWN;
	return 0;
}

static void forget_target(struct vrdma_xrc_target *target)
{
	struct vrdma_xrc_target **at = &target->domain->targets;

	while (*at != target)
		at = &(*at)->next;
	*at = target->next;
	free(target);
}

int vrdma_direct_close_qp(struct vrdma_qp *qp)
{
	struct vrdma_dev *dev = vrdma_dev_of(qp->base.qp.context);
	struct vrdma_xrc_target *target = qp->target_qp;
	int ret = 0;

	pthread_mutex_lock(&dev->xrc_lock);
	if (target->refs == 1)
		ret = -vrdma_cmd_destroy(dev, VRDMA_ADMIN_DESTROY_QP, target->qpn);
	if (!ret && --target->refs == 0)
		forget_target(target);
	pthread_mutex_unlock(&dev->xrc_lock);
	return ret;
}
