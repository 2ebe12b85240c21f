/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Matches the device, and creates the user context, which maps the device's shared pages. */
#include "vrdma.h"

#include <rdma/ib_user_ioctl_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

struct get_context_answer {
	struct ib_uverbs_get_context_resp core;
	struct vrdma_uverbs_alloc_ucontext_resp ours;
};
static_assert(offsetof(struct get_context_answer, ours) ==
		      sizeof(struct ib_uverbs_get_context_resp),
	      "no gap");

/* _verbs_init_and_alloc_context() gets the offset of libibverbs' structure in ours. */
static_assert(offsetof(struct vrdma_context, base) == 0, "vrdma_context.base");

static void *map_page(int fd, int protection, uint64_t offset)
{
	void *page = mmap(NULL, VRDMA_PAGE_SIZE, protection, MAP_SHARED, fd, (off_t)offset);

	return page == MAP_FAILED ? NULL : page;
}

void vrdma_unmap_pages(struct vrdma_context *context)
{
	void *pages[] = {context->doorbell_page, context->kick_page, (void *)context->status_page};

	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
		if (pages[i])
			munmap(pages[i], VRDMA_PAGE_SIZE);
}

int vrdma_take_ucontext(struct vrdma_context *context, int fd,
			const struct vrdma_uverbs_alloc_ucontext_resp *ucontext)
{
	int ret;

	context->max_inline = ucontext->max_inline;
	context->max_send_sge = ucontext->max_send_sge;
	context->max_recv_sge = ucontext->max_recv_sge;
	context->max_qp_wr = ucontext->max_qp_wr;
	context->max_cqe = ucontext->max_cqe;
	context->max_srq_wr = ucontext->max_srq_wr;
	context->max_srq_sge = ucontext->max_srq_sge;

	context->doorbell_page = map_page(fd, PROT_WRITE, ucontext->doorbell_mmap_offset);
	context->kick_page = map_page(fd, PROT_WRITE, ucontext->kick_mmap_offset);
	context->status_page = map_page(fd, PROT_READ, ucontext->status_mmap_offset);
	if (context->doorbell_page && context->kick_page && context->status_page)
		return 0;
	ret = errno;
	vrdma_unmap_pages(context);
	return ret;
}

static int open_context(struct vrdma_context *context, int fd)
{
	struct ibv_get_context command = {};
	struct get_context_answer answer = {};
	int ret = vrdma_cmd_get_context(&context->base, &command, sizeof(command), &answer.core,
					sizeof(answer));

	return ret ? ret : vrdma_take_ucontext(context, fd, &answer.ours);
}

struct verbs_context *vrdma_new_context(struct ibv_device *device, int fd,
					int (*open)(struct vrdma_context *context, int fd))
{
	struct vrdma_context *context = _verbs_init_and_alloc_context(device, fd, sizeof(*context),
								      NULL, RDMA_DRIVER_UNKNOWN);
	int ret;

	if (!context)
		return NULL;
	ret = open(context, fd);
	if (ret) {
		verbs_uninit_context(&context->base);
		free(context);
		errno = ret;
		return NULL;
	}
	context->control = &vrdma_uverbs_control;
	verbs_set_ops(&context->base, &vrdma_context_ops);
	return &context->base;
}

static struct verbs_context *alloc_context(struct ibv_device *device, int fd, void *private_data)
{
	(void)private_data;
	return vrdma_new_context(device, fd, open_context);
}

static void free_context(struct ibv_context *base)
{
	struct vrdma_context *context = to_vrdma_context(base);

	context->control->close(context);
	verbs_uninit_context(&context->base);
	free(context);
}

/* IB_UVERBS_DEVICE_ATOMIC_WRITE of later headers: libraries detect IBV_WR_ATOMIC_WRITE by it. */
#define DEVICE_ATOMIC_WRITE (1ULL << 40)

void vrdma_print_version(struct ibv_device_attr *attr, uint64_t version)
{
	snprintf(attr->fw_ver, sizeof(attr->fw_ver), "%u.%u.%u", (unsigned int)(version >> 32),
		 (unsigned int)(version >> 16 & 0xffff), (unsigned int)(version & 0xffff));
}

int vrdma_query_device(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t attr_size)
{
	int ret = to_vrdma_context(context)->control->query_device(context, input, attr, attr_size);

	/* Linux 6.1 cannot report this capability. */
	if (!ret && attr_size >= offsetof(struct ibv_device_attr_ex, device_cap_flags_ex) +
					 sizeof(attr->device_cap_flags_ex))
		attr->device_cap_flags_ex |= DEVICE_ATOMIC_WRITE;
	return ret;
}

/* Returns only the values that the device has (ibv_query_rt_values_ex(3)). */
int vrdma_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	uint64_t clock;
	int ret;

	values->comp_mask &= IBV_VALUES_MASK_RAW_CLOCK;
	if (!values->comp_mask)
		return 0;
	ret = to_vrdma_context(context)->control->query_clock(context, &clock);
	if (ret)
		return ret;
	/* In the unit of completion timestamps, not split into seconds and nanoseconds. */
	values->raw_clock = (struct timespec){.tv_nsec = (long)clock};
	return 0;
}

int vrdma_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr)
{
	return to_vrdma_context(context)->control->query_port(context, port_num, attr);
}

static struct verbs_device *alloc_device(struct verbs_sysfs_dev *sysfs_dev)
{
	struct vrdma_device *device = calloc(1, sizeof(*device));

	(void)sysfs_dev;
	return device ? &device->base : NULL;
}

static void uninit_device(struct verbs_device *device)
{
	free((struct vrdma_device *)device);
}

const struct verbs_context_ops vrdma_context_ops = {
	.advise_mr = vrdma_advise_mr,
	.alloc_dm = vrdma_alloc_dm,
	.alloc_mw = vrdma_alloc_mw,
	.alloc_null_mr = vrdma_alloc_null_mr,
	.alloc_parent_domain = vrdma_alloc_parent_domain,
	.alloc_pd = vrdma_alloc_pd,
	.alloc_td = vrdma_alloc_td,
	.attach_mcast = vrdma_attach_mcast,
	.bind_mw = vrdma_bind_mw,
	.close_xrcd = vrdma_close_xrcd,
	.create_ah = vrdma_create_ah,
	.create_cq = vrdma_create_cq,
	.create_cq_ex = vrdma_create_cq_ex,
	.create_qp = vrdma_create_qp,
	.create_qp_ex = vrdma_create_qp_ex,
	.create_srq = vrdma_create_srq,
	.create_srq_ex = vrdma_create_srq_ex,
	.dealloc_mw = vrdma_dealloc_mw,
	.dealloc_pd = vrdma_dealloc_pd,
	.dealloc_td = vrdma_dealloc_td,
	.dereg_mr = vrdma_dereg_mr,
	.destroy_ah = vrdma_destroy_ah,
	.destroy_cq = vrdma_destroy_cq,
	.destroy_qp = vrdma_destroy_qp,
	.destroy_srq = vrdma_destroy_srq,
	.detach_mcast = vrdma_detach_mcast,
	.free_context = free_context,
	.free_dm = vrdma_free_dm,
	.import_dm = vrdma_import_dm,
	.get_srq_num = vrdma_get_srq_num,
	.import_mr = vrdma_import_mr,
	.import_pd = vrdma_import_pd,
	.modify_cq = vrdma_modify_cq,
	.modify_qp = vrdma_modify_qp,
	.modify_srq = vrdma_modify_srq,
	.open_qp = vrdma_open_qp,
	.open_xrcd = vrdma_open_xrcd,
	.poll_cq = vrdma_poll_cq,
	.post_recv = vrdma_post_recv,
	.post_send = vrdma_post_send,
	.post_srq_recv = vrdma_post_srq_recv,
	.query_device_ex = vrdma_query_device,
	.query_ece = vrdma_query_ece,
	.query_port = vrdma_query_port,
	.query_qp = vrdma_query_qp,
	.query_rt_values = vrdma_query_rt_values,
	.query_srq = vrdma_query_srq,
	.reg_dm_mr = vrdma_reg_dm_mr,
	.reg_mr = vrdma_reg_mr,
	.req_notify_cq = vrdma_req_notify_cq,
	.rereg_mr = vrdma_rereg_mr,
	.set_ece = vrdma_set_ece,
	.unimport_dm = vrdma_unimport_dm,
	.resize_cq = vrdma_resize_cq,
	.unimport_mr = vrdma_unimport_mr,
	.unimport_pd = vrdma_unimport_pd,
};

/* Matches by PCI id: a driver outside of Linux has no driver id of its own. */
static const struct verbs_match_ent match_table[] = {
	{.kind = VERBS_MATCH_PCI, .vendor = VRDMA_PCI_VENDOR_ID, .device = VRDMA_PCI_DEVICE_ID},
	{.kind = VERBS_MATCH_SENTINEL},
};

static const struct verbs_device_ops device_ops = {
	.name = "vrdma",
	.match_min_abi_version = VRDMA_UVERBS_ABI_VERSION,
	.match_max_abi_version = VRDMA_UVERBS_ABI_VERSION,
	.match_table = match_table,
	.alloc_context = alloc_context,
	.import_context = vrdma_import_context,
	.alloc_device = alloc_device,
	.uninit_device = uninit_device,
};
PROVIDER_DRIVER(vrdma, device_ops);
