/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Protection domains and parent domains. A parent domain is a protection domain with a thread
 * domain and an allocator for queues. The device sees only its protection domain.
 */
#include <stdlib.h>

#include "vrdma.h"

#define DOMAIN_ATTRS                                                                               \
	(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)

struct ibv_pd *vrdma_alloc_pd(struct ibv_context *context)
{
	struct vrdma_pd *pd = calloc(1, sizeof(*pd));
	int ret;

	if (!pd)
		return NULL;
	ret = to_vrdma_context(context)->control->alloc_pd(context, pd);
	if (ret) {
		free(pd);
		errno = ret;
		return NULL;
	}
	return &pd->base;
}

int vrdma_dealloc_pd(struct ibv_pd *base)
{
	struct vrdma_pd *pd = to_vrdma_pd(base);
	int ret;

	if (vrdma_held(&pd->users))
		return EBUSY;
	if (!pd->protection) {
		ret = to_vrdma_context(base->context)->control->dealloc_pd(pd);
		if (ret)
			return ret;
	} else {
		vrdma_drop(&pd->protection->users);
		if (pd->td)
			vrdma_drop(&pd->td->users);
	}
	free(pd);
	return 0;
}

static int check_domain(const struct ibv_context *context,
			const struct ibv_parent_domain_init_attr *attr)
{
	if (attr->comp_mask & ~(uint32_t)DOMAIN_ATTRS)
		return EOPNOTSUPP;
	if (!attr->pd || attr->pd->context != context || vrdma_is_parent_domain(attr->pd))
		return EINVAL;
	if (attr->td && attr->td->context != context)
		return EINVAL;
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS &&
	    (!attr->alloc || !attr->free))
		return EINVAL;
	return 0;
}

struct ibv_pd *vrdma_alloc_parent_domain(struct ibv_context *context,
					 struct ibv_parent_domain_init_attr *attr)
{
	int ret = check_domain(context, attr);
	struct vrdma_pd *domain;

	if (ret) {
		errno = ret;
		return NULL;
	}
	domain = calloc(1, sizeof(*domain));
	if (!domain)
		return NULL;
	domain->base = *attr->pd;
	domain->protection = to_vrdma_pd(attr->pd);
	vrdma_hold(&domain->protection->users);
	if (attr->td) {
		domain->td = to_vrdma_td(attr->td);
		vrdma_hold(&domain->td->users);
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		domain->alloc = attr->alloc;
		domain->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		domain->pd_context = attr->pd_context;
	return &domain->base;
}

struct ibv_td *vrdma_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct vrdma_td *td;

	if (attr->comp_mask) {
		errno = EINVAL;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td)
		return NULL;
	td->base.context = context;
	return &td->base;
}

int vrdma_dealloc_td(struct ibv_td *base)
{
	struct vrdma_td *td = to_vrdma_td(base);

	if (vrdma_held(&td->users))
		return EBUSY;
	free(td);
	return 0;
}
