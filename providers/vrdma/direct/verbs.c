/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The control verbs as admin commands. libibverbs' handles are those of the device. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <vrdma/qp_attr.h>

#include "device.h"

#define MR_ACCESS                                                                                  \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |                   \
	 IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE)
#define WRITE_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

/* The program may be older than the structure's last members. */
#define HAS_ATTR(size, member)                                                                     \
	((size) >= offsetof(struct ibv_device_attr_ex, member) +                                   \
			   sizeof(((struct ibv_device_attr_ex *)0)->member))

static struct vrdma_dev *dev_of(struct ibv_context *context)
{
	return to_vrdma_context(context)->dev;
}

static int destroy(struct ibv_context *context, enum vrdma_admin_opcode opcode, uint32_t handle)
{
	return -vrdma_cmd_destroy(dev_of(context), opcode, handle);
}

/* Fills the members that ibv_query_device() does not have. */
static void query_extended(struct ibv_device_attr_ex *attr, size_t attr_size)
{
	if (HAS_ATTR(attr_size, hca_core_clock)) {
		attr->completion_timestamp_mask = UINT64_MAX;
		attr->hca_core_clock = VRDMA_CLOCK_KHZ;
	}
	if (HAS_ATTR(attr_size, cq_mod_caps)) {
		attr->cq_mod_caps.max_cq_count = VRDMA_MAX_CQ_MODERATION;
		attr->cq_mod_caps.max_cq_period = VRDMA_MAX_CQ_MODERATION;
	}
	if (HAS_ATTR(attr_size, odp_caps))
		attr->odp_caps = (struct ibv_odp_caps){
			.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
			.per_transport_caps.rc_odp_caps = VRDMA_ODP_RC,
			.per_transport_caps.uc_odp_caps = VRDMA_ODP_UC,
			.per_transport_caps.ud_odp_caps = VRDMA_ODP_UD,
		};
	if (HAS_ATTR(attr_size, xrc_odp_caps))
		attr->xrc_odp_caps = VRDMA_ODP_RC;
	if (HAS_ATTR(attr_size, max_dm_size))
		attr->max_dm_size = VRDMA_MAX_DM_SIZE;
	if (HAS_ATTR(attr_size, phys_port_cnt_ex))
		attr->phys_port_cnt_ex = 1;
	if (attr_size >= offsetof(struct ibv_device_attr_ex, device_cap_flags_ex) +
				 sizeof(attr->device_cap_flags_ex))
		attr->device_cap_flags_ex = attr->orig_attr.device_cap_flags;
}

static int query_device(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct vrdma_dev *dev = dev_of(context);
	const struct vrdma_cpl_query_device *caps = &dev->caps;
	struct ibv_device_attr *props = &attr->orig_attr;

	if ((input && input->comp_mask) || attr_size < sizeof(*props))
		return EINVAL;
	memset(attr, 0, attr_size);
	vrdma_print_version(props, le64toh(caps->firmware_version));
	memcpy(&props->node_guid, caps->node_guid, sizeof(props->node_guid));
	props->sys_image_guid = props->node_guid;
	props->max_mr_size = le64toh(caps->max_mr_size);
	props->page_size_cap = le64toh(caps->page_size_cap);
	props->vendor_id = VRDMA_PCI_VENDOR_ID;
	props->vendor_part_id = VRDMA_PCI_DEVICE_ID;
	props->hw_ver = VRDMA_PCI_REVISION;
	props->max_qp = (int)le32toh(caps->max_qp);
	props->max_qp_wr = (int)le32toh(caps->max_qp_wr);
	props->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
				  IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
				  IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW |
				  IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS;
	props->max_sge = le16toh(caps->max_send_sge) < le16toh(caps->max_recv_sge)
				 ? le16toh(caps->max_send_sge)
				 : le16toh(caps->max_recv_sge);
	props->max_sge_rd = le16toh(caps->max_send_sge);
	props->max_cq = (int)le32toh(caps->max_cq);
	props->max_cqe = (int)le32toh(caps->max_cqe);
	props->max_mr = (int)le32toh(caps->max_mr);
	props->max_mw = props->max_mr;
	props->max_pd = (int)le32toh(caps->max_pd);
	props->max_ah = (int)le32toh(caps->max_ah);
	props->max_srq = (int)le32toh(caps->max_srq);
	props->max_srq_wr = (int)le32toh(caps->max_srq_wr);
	props->max_srq_sge = le16toh(caps->max_srq_sge);
	props->max_mcast_grp = (int)le32toh(caps->max_mcast_grp);
	props->max_mcast_qp_attach = (int)le32toh(caps->max_mcast_qp_attach);
	props->max_total_mcast_qp_attach = (int)le32toh(caps->max_total_mcast_qp_attach);
	props->max_qp_rd_atom = caps->max_qp_rd_atomic;
	props->max_qp_init_rd_atom = caps->max_qp_init_rd_atomic;
	props->max_res_rd_atom = props->max_qp_rd_atom * props->max_qp;
	props->atomic_cap = IBV_ATOMIC_HCA;
	props->local_ca_ack_delay = VRDMA_ACK_DELAY;
	props->max_pkeys = dev->pkeys.count;
	props->phys_port_cnt = 1;
	query_extended(attr, attr_size);
	return 0;
}

static int query_clock(struct ibv_context *context, uint64_t *clock)
{
	__u64 now = 0;
	int ret = -vrdma_cmd_query_clock(dev_of(context), &now);

	*clock = now;
	return ret;
}

static int query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr)
{
	struct vrdma_dev *dev = dev_of(context);
	struct vrdma_cpl_query_port cpl = {};
	int ret;

	if (port_num != VRDMA_PORT)
		return EINVAL;
	ret = -vrdma_cmd_query_port(dev, &cpl);
	if (ret)
		return ret;
	attr->state = cpl.state;
	attr->phys_state = cpl.state == IBV_PORT_ACTIVE ? 5 : 3; /* LinkUp, Disabled */
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = cpl.active_mtu;
	attr->active_speed = cpl.active_speed;
	attr->active_width = cpl.active_width;
	attr->max_msg_sz = le32toh(cpl.max_message_size);
	attr->gid_tbl_len = VRDMA_MAX_GIDS;
	attr->pkey_tbl_len = dev->pkeys.count;
	attr->max_vl_num = 1;
	attr->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

static int alloc_buffer(struct vrdma_context *context, struct vrdma_buffer *buffer, uint64_t size)
{
	return vrdma_memory_alloc(&context->dev->memory, buffer, size);
}

static void free_buffer(struct vrdma_context *context, struct vrdma_buffer *buffer)
{
	vrdma_memory_free(&context->dev->memory, buffer);
}

/* Shares the buffer like memory that a program registers. */
static int share_buffer(struct vrdma_context *context, struct vrdma_buffer *buffer)
{
	int ret;

	buffer->region = calloc(1, sizeof(*buffer->region));
	if (!buffer->region)
		return ENOMEM;
	ret = vrdma_region_map(&context->dev->memory, buffer->region, buffer->data, buffer->size,
			       true);
	if (ret)
		free(buffer->region);
	else
		buffer->address = buffer->region->iova;
	return ret;
}

static void unshare_buffer(struct vrdma_context *context, struct vrdma_buffer *buffer)
{
	vrdma_region_unmap(&context->dev->memory, buffer->region);
	free(buffer->region);
}

static int alloc_pd(struct ibv_context *context, struct vrdma_pd *pd)
{
	struct vrdma_dev *dev = dev_of(context);
	int ret = -vrdma_cmd_alloc_pd(dev, to_vrdma_context(context)->ucontext, &pd->base.handle);

	if (ret)
		return ret;
	pd->base.context = context;
	vrdma_list_add(dev, &dev->events.pds, &pd->listed);
	return 0;
}

static int dealloc_pd(struct vrdma_pd *pd)
{
	int ret = destroy(pd->base.context, VRDMA_ADMIN_DEALLOC_PD, pd->base.handle);

	if (!ret)
		vrdma_list_remove(dev_of(pd->base.context), &pd->listed);
	return ret;
}

/* A region of no bytes has no pages. */
static int map_region(struct vrdma_dev *dev, struct vrdma_mr *mr, void *addr, size_t length,
		      struct vrdma_cmd_reg_mr *arg)
{
	uint32_t first_offset;
	int ret;

	if (!length)
		return 0;
	ret = vrdma_region_map(&dev->memory, &mr->region, addr, length, mr->writable);
	if (ret)
		return ret;
	arg->pages = vrdma_region_pages(&mr->region, &first_offset);
	arg->first_offset = htole32(first_offset);
	return 0;
}

static void unmap_region(struct vrdma_dev *dev, struct vrdma_mr *mr)
{
	if (mr->region.length)
		vrdma_region_unmap(&dev->memory, &mr->region);
}

static int check_region(const struct vrdma_dev *dev, size_t length, int access)
{
	if (access & ~MR_ACCESS)
		return EINVAL;
	return length <= le64toh(dev->caps.max_mr_size) ? 0 : EINVAL;
}

/* The device's address of the region's first byte. */
static uint64_t region_start(uint64_t iova, int access)
{
	return access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
}

static void complete_mr(struct vrdma_mr *mr, struct ibv_context *context, size_t length,
			uint32_t key, int access)
{
	struct vrdma_dev *dev = dev_of(context);

	mr->base.ibv_mr.context = context;
	mr->base.ibv_mr.handle = key;
	mr->base.ibv_mr.lkey = key;
	mr->base.ibv_mr.rkey = key;
	mr->base.ibv_mr.length = length;
	mr->base.access = access;
	vrdma_list_add(dev, &dev->events.mrs, &mr->listed);
}

static int register_region(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access,
			   struct vrdma_mr *mr)
{
	struct vrdma_dev *dev = dev_of(pd->context);
	struct vrdma_cmd_reg_mr arg = {
		.start = htole64(region_start(iova, access)),
		.length = htole64(length),
		.pd = htole32(pd->handle),
		.access_flags = htole32((uint32_t)access),
	};
	uint32_t key = 0;
	int ret;

	ret = check_region(dev, length, access);
	if (ret)
		return ret;
	mr->iova = iova;
	mr->writable = access & WRITE_ACCESS;
	ret = map_region(dev, mr, addr, length, &arg);
	if (ret)
		return ret;
	ret = -vrdma_cmd_reg_mr(dev, &arg, &key);
	if (ret) {
		unmap_region(dev, mr);
		return ret;
	}
	complete_mr(mr, pd->context, length, key, access);
	return 0;
}

/* As in the kernel, a region without bounds covers the program's whole address space. */
static int reg_on_demand(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access,
			 struct vrdma_mr *mr)
{
	struct vrdma_dev *dev = dev_of(pd->context);
	const bool whole = !addr && length == SIZE_MAX;
	int ret;

	if (access & ~MR_ACCESS)
		return EINVAL;
	iova = region_start(iova, access);
	if (whole ? iova : length > le64toh(dev->caps.max_mr_size) || length > UINT64_MAX - iova)
		return EINVAL;
	ret = vrdma_on_demand_register(dev, pd->handle, addr, length, iova, (uint32_t)access,
				       &mr->on_demand);
	if (!ret)
		complete_mr(mr, pd->context, length, vrdma_on_demand_key(mr->on_demand), access);
	return ret;
}

static int reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access,
		  struct vrdma_mr *mr)
{
	if (!length)
		return EINVAL;
	if (access & IBV_ACCESS_ON_DEMAND)
		return reg_on_demand(pd, addr, length, iova, access, mr);
	return register_region(pd, addr, length, iova, access, mr);
}

/* Always prefetches before it returns, also without IBV_ADVISE_MR_FLAG_FLUSH. */
static int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		     struct ibv_sge *list, uint32_t count)
{
	(void)flags;
	return vrdma_on_demand_advise(dev_of(pd->context), pd->handle, advice, list, count);
}

/* What the region is to become: like mr, except for what the flags of rereg_mr() change. */
struct new_region {
	void *addr;
	size_t length;
	uint64_t iova;
	int access;
	bool moves;
	bool writable;
};

static struct new_region describe_region(const struct vrdma_mr *mr, int flags, void *addr,
					 size_t length, int access)
{
	struct new_region next = {
		.addr = mr->base.ibv_mr.addr,
		.length = mr->base.ibv_mr.length,
		.iova = mr->iova,
		.access = flags & IBV_REREG_MR_CHANGE_ACCESS ? access : mr->base.access,
	};

	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		next.addr = addr;
		next.length = length;
		next.iova = (uintptr_t)addr;
	}
	next.writable = next.access & WRITE_ACCESS;
	/* Memory that was shared for reading only is shared again, for writing. */
	next.moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION || (next.writable && !mr->writable);
	return next;
}

static int change_region(struct vrdma_dev *dev, struct vrdma_mr *mr, const struct new_region *next,
			 struct vrdma_cmd_rereg_mr *arg)
{
	struct vrdma_region region;
	uint32_t first_offset;
	int ret;

	if (!next->moves)
		return -vrdma_cmd_rereg_mr(dev, arg);
	ret = vrdma_region_map(&dev->memory, &region, next->addr, next->length, next->writable);
	if (ret)
		return ret;
	arg->flags |= htole32(VRDMA_REREG_TRANSLATION);
	arg->start = htole64(region_start(next->iova, next->access));
	arg->length = htole64(next->length);
	arg->pages = vrdma_region_pages(&region, &first_offset);
	arg->first_offset = htole32(first_offset);
	ret = -vrdma_cmd_rereg_mr(dev, arg);
	vrdma_region_unmap(&dev->memory, ret ? &region : &mr->region);
	if (ret)
		return ret;
	mr->region = region;
	mr->iova = next->iova;
	mr->writable = next->writable;
	return 0;
}

static int rereg_mr(struct vrdma_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		    int access)
{
	struct vrdma_dev *dev = dev_of(mr->base.ibv_mr.context);
	struct new_region next = describe_region(mr, flags, addr, length, access);
	struct vrdma_cmd_rereg_mr arg = {
		.key = htole32(mr->base.ibv_mr.handle),
		.flags = htole32((uint32_t)flags & (VRDMA_REREG_PD | VRDMA_REREG_ACCESS)),
	};
	int ret = check_region(dev, next.length, next.access);

	if (ret)
		return ret;
	if (mr->on_demand || next.access & IBV_ACCESS_ON_DEMAND)
		return EOPNOTSUPP;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		arg.pd = htole32(pd->handle);
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		arg.access_flags = htole32((uint32_t)access);
	ret = change_region(dev, mr, &next, &arg);
	if (!ret)
		mr->base.access = next.access;
	return ret;
}

static int dereg_mr(struct vrdma_mr *mr)
{
	struct ibv_mr *base = &mr->base.ibv_mr;
	struct vrdma_dev *dev = dev_of(base->context);
	int ret = destroy(base->context, VRDMA_ADMIN_DEREG_MR, base->handle);

	if (ret)
		return ret;
	vrdma_list_remove(dev, &mr->listed);
	if (mr->on_demand)
		vrdma_on_demand_deregister(dev, mr->on_demand);
	/* The memory of an imported region belongs to the region that it was imported from. */
	if (mr->base.mr_type != IBV_MR_TYPE_IMPORTED_MR)
		unmap_region(dev, mr);
	vrdma_direct_use_dm(dev, mr->dm, -1);
	return 0;
}

static int reg_dm_mr(struct ibv_pd *pd, struct vrdma_dm *dm, uint64_t offset, size_t length,
		     unsigned int access, struct vrdma_mr *mr)
{
	int ret = register_region(pd, dm->data + offset, length, 0,
				  (int)(access & ~IBV_ACCESS_ZERO_BASED), mr);

	if (ret)
		return ret;
	mr->dm = dm->base.handle;
	vrdma_direct_use_dm(dev_of(pd->context), mr->dm, 1);
	return 0;
}

static int alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type, struct ibv_mw *mw)
{
	int ret = -vrdma_cmd_alloc_mw(dev_of(pd->context), pd->handle, type, &mw->handle);

	mw->context = pd->context;
	mw->pd = pd;
	mw->type = type;
	mw->rkey = mw->handle;
	return ret;
}

static int dealloc_mw(struct ibv_mw *mw)
{
	return destroy(mw->context, VRDMA_ADMIN_DEALLOC_MW, mw->handle);
}

/* The MAC of a multicast group follows from its address (RFC 1112, RFC 2464). */
static bool set_multicast_dmac(struct vrdma_av *av)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	static const uint8_t ipv4[3] = {0x01, 0x00, 0x5e};

	if (av->dgid[0] == 0xff) {
		av->dmac[0] = av->dmac[1] = 0x33;
		memcpy(av->dmac + 2, av->dgid + 12, 4);
		return true;
	}
	if (memcmp(av->dgid, mapped, sizeof(mapped)) != 0 || (av->dgid[12] & 0xf0) != 0xe0)
		return false;
	memcpy(av->dmac, ipv4, sizeof(ipv4));
	memcpy(av->dmac + 3, av->dgid + 13, 3);
	av->dmac[3] &= 0x7f;
	return true;
}

/* Nothing resolves MACs here. A link-local address contains its MAC. No other MACs are needed. */
static void set_dmac(struct vrdma_av *av)
{
	static const uint8_t prefix[8] = {0xfe, 0x80};
	const uint8_t *id = av->dgid + sizeof(prefix);

	if (set_multicast_dmac(av))
		return;
	if (memcmp(av->dgid, prefix, sizeof(prefix)) != 0 || id[3] != 0xff || id[4] != 0xfe)
		return;
	memcpy(av->dmac, id, 3);
	memcpy(av->dmac + 3, id + 5, 3);
	av->dmac[0] ^= 2;
}

static int av_from_ah_attr(struct vrdma_av *av, const struct ibv_ah_attr *attr)
{
	if (!attr->is_global)
		return EINVAL;
	memcpy(av->dgid, attr->grh.dgid.raw, sizeof(av->dgid));
	av->flow_label = htole32(attr->grh.flow_label & VRDMA_AV_FLOW_LABEL);
	av->sgid_index = attr->grh.sgid_index;
	av->hop_limit = attr->grh.hop_limit;
	av->traffic_class = attr->grh.traffic_class;
	av->sl = attr->sl;
	av->port_num = attr->port_num;
	set_dmac(av);
	return 0;
}

static void av_to_ah_attr(const struct vrdma_av *av, struct ibv_ah_attr *attr)
{
	memcpy(attr->grh.dgid.raw, av->dgid, sizeof(attr->grh.dgid.raw));
	attr->grh.flow_label = le32toh(av->flow_label);
	attr->grh.sgid_index = av->sgid_index;
	attr->grh.hop_limit = av->hop_limit;
	attr->grh.traffic_class = av->traffic_class;
	attr->sl = av->sl;
	attr->port_num = av->port_num;
	attr->is_global = 1;
}

static int create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr, struct vrdma_ah *ah)
{
	struct vrdma_av av = {};
	int ret = av_from_ah_attr(&av, attr);

	if (!ret)
		ret = -vrdma_cmd_create_ah(dev_of(pd->context), pd->handle, &av, &ah->id);
	ah->base.context = pd->context;
	ah->base.handle = ah->id;
	return ret;
}

static int destroy_ah(struct vrdma_ah *ah)
{
	return destroy(ah->base.context, VRDMA_ADMIN_DESTROY_AH, ah->id);
}

static uint32_t cq_flags(const struct ibv_cq_init_attr_ex *attr)
{
	uint32_t flags = 0;

	if (attr->wc_flags &
	    (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK))
		flags |= VRDMA_CQ_TIMESTAMP;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
	    attr->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)
		flags |= VRDMA_CQ_IGNORE_OVERRUN;
	return flags;
}

static int create_cq(struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr,
		     struct vrdma_cq *cq)
{
	struct vrdma_dev *dev = dev_of(context);
	struct vrdma_cmd_create_cq arg = {
		.pages = vrdma_contiguous_pages(cq->buffer.address,
						vrdma_cq_buffer_size(cq->queue.depth)),
		.depth = htole32(cq->queue.depth),
		.ucontext = htole32(to_vrdma_context(context)->ucontext),
		.flags = htole32(cq_flags(attr)),
	};
	int ret;

	if (attr->comp_vector >= (uint32_t)context->num_comp_vectors)
		return EINVAL;
	if (attr->channel && attr->channel->context != context)
		return EBADF; /* as the kernel does for a file of another context */
	arg.eq = htole32(dev->events.eqs[1 + attr->comp_vector].handle);
	ret = -vrdma_cmd_create_cq(dev, &arg, &cq->base.cq.handle);
	if (ret)
		return ret;
	cq->base.cq.context = context;
	cq->base.cq.channel = attr->channel;
	cq->base.cq.cqe = (int)cq->queue.depth;
	vrdma_events_add_cq(dev, cq, attr->channel);
	return 0;
}

static int resize_cq(struct vrdma_cq *cq, const struct vrdma_buffer *buffer, uint32_t depth)
{
	const struct vrdma_cmd_resize_cq arg = {
		.pages = vrdma_contiguous_pages(buffer->address, vrdma_cq_buffer_size(depth)),
		.depth = htole32(depth),
		.cqn = htole32(cq->base.cq.handle),
	};
	int ret = -vrdma_cmd_resize_cq(dev_of(cq->base.cq.context), &arg);

	if (!ret)
		cq->base.cq.cqe = (int)depth;
	return ret;
}

static int modify_cq(struct vrdma_cq *cq, struct ibv_modify_cq_attr *attr)
{
	return -vrdma_cmd_modify_cq(dev_of(cq->base.cq.context), cq->base.cq.handle,
				    attr->moderate.cq_count, attr->moderate.cq_period);
}

/* Waits for the program to acknowledge all events that it has read, as ibv_destroy_cq(3) says. */
static void wait_for_acks(pthread_mutex_t *mutex, pthread_cond_t *changed, const uint32_t *acked,
			  uint32_t events)
{
	pthread_mutex_lock(mutex);
	while (*acked != events)
		pthread_cond_wait(changed, mutex);
	pthread_mutex_unlock(mutex);
}

static int destroy_cq(struct vrdma_cq *cq)
{
	struct ibv_cq *base = &cq->base.cq;
	uint32_t completions, async;
	int ret = destroy(base->context, VRDMA_ADMIN_DESTROY_CQ, base->handle);

	if (ret)
		return ret;
	vrdma_events_remove_cq(dev_of(base->context), cq, &completions, &async);
	if (dev_of(base->context)->forked)
		return 0; /* they are the parent's to acknowledge */
	wait_for_acks(&base->mutex, &base->cond, &base->comp_events_completed, completions);
	wait_for_acks(&base->mutex, &base->cond, &base->async_events_completed, async);
	return 0;
}

static void init_base_srq(struct verbs_srq *srq, struct ibv_context *context,
			  const struct ibv_srq_init_attr_ex *attr)
{
	srq->srq.context = context;
	srq->srq.srq_context = attr->srq_context;
	srq->srq.pd = attr->pd;
	pthread_mutex_init(&srq->srq.mutex, NULL);
	pthread_cond_init(&srq->srq.cond, NULL);
	if (attr->srq_type == IBV_SRQT_XRC) {
		srq->srq_num = srq->srq.handle;
		srq->xrcd = &to_vrdma_xrcd(attr->xrcd)->base;
		srq->cq = attr->cq;
	}
}

static int create_srq(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr,
		      struct vrdma_srq *srq)
{
	struct vrdma_dev *dev = dev_of(context);
	const struct vrdma_shared_receive_queue *queue = &srq->queue;
	struct vrdma_cmd_create_srq arg = {
		.pages = vrdma_contiguous_pages(
			srq->buffer.address,
			vrdma_srq_buffer_size(queue->depth, queue->stride_shift)),
		.ucontext = htole32(to_vrdma_context(context)->ucontext),
		.pd = htole32(attr->pd->handle),
		.depth = htole32(queue->depth),
		.stride_shift = (__u8)queue->stride_shift,
		.max_sge = htole16((uint16_t)queue->max_sge),
	};
	int ret;

	if (attr->srq_type == IBV_SRQT_XRC) {
		arg.xrcd = htole32(to_vrdma_xrcd(attr->xrcd)->base.handle);
		arg.cq = htole32(attr->cq->handle);
	}
	ret = -vrdma_cmd_create_srq(dev, &arg, &srq->base.srq.handle);
	if (ret)
		return ret;
	init_base_srq(&srq->base, context, attr);
	vrdma_events_add_srq(dev, srq);
	return 0;
}

static int modify_srq(struct vrdma_srq *srq, struct ibv_srq_attr *attr, int attr_mask)
{
	const struct ibv_srq *base = &srq->base.srq;

	(void)attr_mask; /* only the limit can be modified */
	return -vrdma_cmd_modify_srq(dev_of(base->context), base->handle, attr->srq_limit);
}

static int resize_srq(struct vrdma_srq *srq, const struct vrdma_buffer *buffer,
		      const struct ibv_srq_attr *attr, int attr_mask)
{
	struct vrdma_cmd_resize_srq arg = {
		.pages = vrdma_contiguous_pages(
			buffer->address,
			vrdma_srq_buffer_size(attr->max_wr, srq->queue.stride_shift)),
		.depth = htole32(attr->max_wr),
		.srqn = htole32(srq->base.srq.handle),
	};

	if (attr_mask & IBV_SRQ_LIMIT) {
		arg.flags = htole32(VRDMA_RESIZE_SRQ_LIMIT);
		arg.limit = htole32(attr->srq_limit);
	}
	return -vrdma_cmd_resize_srq(dev_of(srq->base.srq.context), &arg);
}

static int query_srq(struct vrdma_srq *srq, struct ibv_srq_attr *attr)
{
	const struct ibv_srq *base = &srq->base.srq;

	attr->max_wr = vrdma_shared_receive_queue_depth(&srq->queue);
	attr->max_sge = srq->queue.max_sge;
	return -vrdma_cmd_query_srq(dev_of(base->context), base->handle, &attr->srq_limit);
}

static int destroy_srq(struct vrdma_srq *srq)
{
	struct ibv_srq *base = &srq->base.srq;
	uint32_t async;
	int ret = destroy(base->context, VRDMA_ADMIN_DESTROY_SRQ, base->handle);

	if (ret)
		return ret;
	vrdma_events_remove_srq(dev_of(base->context), srq, &async);
	if (dev_of(base->context)->forked)
		return 0; /* they are the parent's to acknowledge */
	wait_for_acks(&base->mutex, &base->cond, &base->events_completed, async);
	return 0;
}

static void init_base_qp(struct ibv_qp *base, struct ibv_context *context,
			 const struct ibv_qp_init_attr_ex *attr)
{
	base->context = context;
	base->qp_context = attr->qp_context;
	base->pd = attr->pd;
	base->send_cq = attr->send_cq;
	base->recv_cq = attr->recv_cq;
	base->srq = attr->srq;
	base->handle = base->qp_num;
	base->state = IBV_QPS_RESET;
	base->qp_type = attr->qp_type;
	pthread_mutex_init(&base->mutex, NULL);
	pthread_cond_init(&base->cond, NULL);
}

static int create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
		     const struct vrdma_qp_layout *layout, struct vrdma_qp *qp,
		     uint32_t *doorbell_slot)
{
	struct vrdma_dev *dev = dev_of(context);
	struct vrdma_cmd_create_qp arg = {
		.pages = vrdma_contiguous_pages(
			qp->buffer.address,
			vrdma_qp_buffer_size(layout->sq_depth, layout->sq_stride_shift,
					     layout->rq_depth, layout->rq_stride_shift)),
		.ucontext = htole32(to_vrdma_context(context)->ucontext),
		.pd = htole32(attr->pd->handle),
		.sq_depth = htole32(layout->sq_depth),
		.rq_depth = htole32(layout->rq_depth),
		.sq_stride_shift = layout->sq_stride_shift,
		.rq_stride_shift = layout->rq_stride_shift,
		.qp_type = (__u8)attr->qp_type,
		.flags = attr->sq_sig_all ? VRDMA_QP_SQ_SIGNAL_ALL : 0,
		.max_inline = htole32(attr->cap.max_inline_data),
		.max_send_sge = htole16((uint16_t)attr->cap.max_send_sge),
		.max_recv_sge = htole16((uint16_t)attr->cap.max_recv_sge),
	};
	int ret;

	arg.send_cq = htole32(attr->send_cq->handle);
	arg.recv_cq = attr->recv_cq ? htole32(attr->recv_cq->handle) : 0;
	arg.srq = attr->srq ? htole32(attr->srq->handle) : 0;
	if (attr->create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB)
		arg.flags |= VRDMA_QP_BLOCK_SELF_MULTICAST;
	ret = -vrdma_cmd_create_qp(dev, &arg, &qp->base.qp.qp_num, doorbell_slot);
	if (ret)
		return ret;
	init_base_qp(&qp->base.qp, context, attr);
	vrdma_events_add_qp(dev, qp);
	return 0;
}

static int qp_attr_to_wire(struct vrdma_qp_attr *wire, const struct ibv_qp_attr *attr, int mask)
{
	wire->state = (__u8)attr->qp_state;
	wire->cur_state = (__u8)attr->cur_qp_state;
	wire->sq_drained_notify = attr->en_sqd_async_notify;
	wire->access_flags = htole32(attr->qp_access_flags);
	wire->pkey_index = htole16(attr->pkey_index);
	wire->port_num = attr->port_num;
	wire->qkey = htole32(attr->qkey);
	wire->path_mtu = (__u8)attr->path_mtu;
	wire->timeout = attr->timeout;
	wire->retry_cnt = attr->retry_cnt;
	wire->rnr_retry = attr->rnr_retry;
	wire->rq_psn = htole32(attr->rq_psn);
	wire->sq_psn = htole32(attr->sq_psn);
	wire->max_rd_atomic = attr->max_rd_atomic;
	wire->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	wire->min_rnr_timer = attr->min_rnr_timer;
	wire->dest_qpn = htole32(attr->dest_qp_num);
	if (!vrdma_qp_attr_select(wire, (__u32)mask))
		return EOPNOTSUPP;
	return mask & IBV_QP_AV ? av_from_ah_attr(&wire->av, &attr->ah_attr) : 0;
}

static void qp_attr_from_wire(struct ibv_qp_attr *attr, const struct vrdma_qp_attr *wire)
{
	attr->qp_state = wire->state;
	attr->cur_qp_state = wire->state;
	attr->en_sqd_async_notify = wire->sq_drained_notify;
	attr->sq_draining = wire->sq_draining;
	attr->qp_access_flags = le32toh(wire->access_flags);
	attr->pkey_index = le16toh(wire->pkey_index);
	attr->port_num = wire->port_num;
	attr->qkey = le32toh(wire->qkey);
	attr->path_mtu = wire->path_mtu;
	attr->timeout = wire->timeout;
	attr->retry_cnt = wire->retry_cnt;
	attr->rnr_retry = wire->rnr_retry;
	attr->rq_psn = le32toh(wire->rq_psn);
	attr->sq_psn = le32toh(wire->sq_psn);
	attr->max_rd_atomic = wire->max_rd_atomic;
	attr->max_dest_rd_atomic = wire->max_dest_rd_atomic;
	attr->min_rnr_timer = wire->min_rnr_timer;
	attr->dest_qp_num = le32toh(wire->dest_qpn);
	av_to_ah_attr(&wire->av, &attr->ah_attr);
}

static int query_qp(struct vrdma_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		    struct ibv_qp_init_attr *init_attr)
{
	const struct vrdma_queue_pair *queues = &qp->queues;
	struct vrdma_qp_attr wire = {};
	int ret = -vrdma_cmd_query_qp(dev_of(qp->base.qp.context), qp->base.qp.qp_num, &wire);

	(void)attr_mask;
	if (ret)
		return ret;
	memset(attr, 0, sizeof(*attr));
	qp_attr_from_wire(attr, &wire);
	attr->cap = (struct ibv_qp_cap){
		.max_send_wr = queues->sq.depth,
		.max_recv_wr = queues->rq.depth,
		.max_send_sge = queues->sq.max_sge,
		.max_recv_sge = queues->rq.max_sge,
		.max_inline_data = queues->max_inline,
	};
	*init_attr = (struct ibv_qp_init_attr){
		.qp_context = qp->base.qp.qp_context,
		.send_cq = qp->base.qp.send_cq,
		.recv_cq = qp->base.qp.recv_cq,
		.srq = qp->base.qp.srq,
		.cap = attr->cap,
		.qp_type = qp->base.qp.qp_type,
		.sq_sig_all = queues->sq_ctrl & VRDMA_SQ_SIGNALED ? 1 : 0,
	};
	return 0;
}

/* Ignores attributes that one side of an XRC connection does not use, as ib_uverbs does. */
static int used_attrs(enum ibv_qp_type type, int mask)
{
	switch (type) {
	case IBV_QPT_XRC_SEND:
		return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	case IBV_QPT_XRC_RECV:
		return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	default:
		return mask;
	}
}

static int modify_qp(struct vrdma_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct vrdma_qp_attr wire = {};
	int ret = qp_attr_to_wire(&wire, attr, used_attrs(qp->base.qp.qp_type, attr_mask));

	if (ret)
		return ret;
	return -vrdma_cmd_modify_qp(dev_of(qp->base.qp.context), qp->base.qp.qp_num, &wire);
}

static int destroy_qp(struct vrdma_qp *qp)
{
	struct ibv_qp *base = &qp->base.qp;
	uint32_t async;
	int ret = base->qp_type == IBV_QPT_XRC_RECV
			  ? vrdma_direct_close_qp(qp)
			  : destroy(base->context, VRDMA_ADMIN_DESTROY_QP, base->qp_num);

	if (ret)
		return ret;
	vrdma_events_remove_qp(dev_of(base->context), qp, &async);
	if (dev_of(base->context)->forked)
		return 0; /* they are the parent's to acknowledge */
	wait_for_acks(&base->mutex, &base->cond, &base->events_completed, async);
	return 0;
}

static int attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)lid;
	return -vrdma_cmd_multicast(dev_of(qp->context), VRDMA_ADMIN_ATTACH_MCAST, qp->qp_num,
				    gid->raw);
}

static int detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)lid;
	return -vrdma_cmd_multicast(dev_of(qp->context), VRDMA_ADMIN_DETACH_MCAST, qp->qp_num,
				    gid->raw);
}

const struct vrdma_control vrdma_direct_control = {
	.close = vrdma_direct_close,
	.query_device = query_device,
	.query_clock = query_clock,
	.query_port = query_port,
	.alloc_buffer = alloc_buffer,
	.free_buffer = free_buffer,
	.share_buffer = share_buffer,
	.unshare_buffer = unshare_buffer,
	.alloc_pd = alloc_pd,
	.dealloc_pd = dealloc_pd,
	.import_pd = vrdma_direct_import_pd,
	.import_mr = vrdma_direct_import_mr,
	.reg_mr = reg_mr,
	.rereg_mr = rereg_mr,
	.dereg_mr = dereg_mr,
	.advise_mr = advise_mr,
	.alloc_dm = vrdma_direct_alloc_dm,
	.free_dm = vrdma_direct_free_dm,
	.import_dm = vrdma_direct_import_dm,
	.unimport_dm = vrdma_direct_unimport_dm,
	.reg_dm_mr = reg_dm_mr,
	.alloc_mw = alloc_mw,
	.dealloc_mw = dealloc_mw,
	.create_ah = create_ah,
	.destroy_ah = destroy_ah,
	.create_cq = create_cq,
	.resize_cq = resize_cq,
	.modify_cq = modify_cq,
	.destroy_cq = destroy_cq,
	.create_srq = create_srq,
	.modify_srq = modify_srq,
	.resize_srq = resize_srq,
	.query_srq = query_srq,
	.destroy_srq = destroy_srq,
	.create_qp = create_qp,
	.query_qp = query_qp,
	.modify_qp = modify_qp,
	.destroy_qp = destroy_qp,
	.attach_mcast = attach_mcast,
	.detach_mcast = detach_mcast,
	.open_xrcd = vrdma_direct_open_xrcd,
	.close_xrcd = vrdma_direct_close_xrcd,
	.create_xrc_recv = vrdma_direct_create_xrc_recv,
	.open_qp = vrdma_direct_open_qp,
};
