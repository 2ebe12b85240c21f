/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The control verbs as admin commands. A handle of libibverbs' is the device's. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <vrdma/qp_attr.h>

#include "device.h"

#define MR_ACCESS                                                                                  \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define WRITE_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

static struct vrdma_dev *dev_of(struct ibv_context *context)
{
	return to_vrdma_context(context)->dev;
}

static int destroy(struct ibv_context *context, enum vrdma_admin_opcode opcode, uint32_t handle)
{
	return -vrdma_cmd_destroy(dev_of(context), opcode, handle);
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
				  IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN;
	props->max_sge = le16toh(caps->max_send_sge) < le16toh(caps->max_recv_sge)
				 ? le16toh(caps->max_send_sge)
				 : le16toh(caps->max_recv_sge);
	props->max_sge_rd = le16toh(caps->max_send_sge);
	props->max_cq = (int)le32toh(caps->max_cq);
	props->max_cqe = (int)le32toh(caps->max_cqe);
	props->max_mr = (int)le32toh(caps->max_mr);
	props->max_pd = (int)le32toh(caps->max_pd);
	props->max_ah = (int)le32toh(caps->max_ah);
	props->max_srq = (int)le32toh(caps->max_srq);
	props->max_srq_wr = (int)le32toh(caps->max_srq_wr);
	props->max_srq_sge = le16toh(caps->max_srq_sge);
	props->max_qp_rd_atom = caps->max_qp_rd_atomic;
	props->max_qp_init_rd_atom = caps->max_qp_init_rd_atomic;
	props->max_res_rd_atom = props->max_qp_rd_atom * props->max_qp;
	props->atomic_cap = IBV_ATOMIC_HCA;
	props->max_pkeys = le16toh(caps->pkey_table_len);
	props->phys_port_cnt = 1;
	if (attr_size >=
	    offsetof(struct ibv_device_attr_ex, phys_port_cnt_ex) + sizeof(attr->phys_port_cnt_ex))
		attr->phys_port_cnt_ex = 1;
	return 0;
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
	attr->gid_tbl_len = (int)dev->gids.count;
	attr->pkey_tbl_len = 1;
	attr->max_vl_num = 1;
	attr->port_cap_flags = IBV_PORT_IP_BASED_GIDS;
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

static int alloc_pd(struct ibv_context *context, struct ibv_pd *pd)
{
	pd->context = context;
	return -vrdma_cmd_alloc_pd(dev_of(context), to_vrdma_context(context)->ucontext,
				   &pd->handle);
}

static int dealloc_pd(struct ibv_pd *pd)
{
	return destroy(pd->context, VRDMA_ADMIN_DEALLOC_PD, pd->handle);
}

static int reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access,
		  struct vrdma_mr *mr)
{
	struct vrdma_dev *dev = dev_of(pd->context);
	struct vrdma_cmd_reg_mr arg = {
		.start = htole64(iova),
		.length = htole64(length),
		.pd = htole32(pd->handle),
		.access_flags = htole32((uint32_t)access),
	};
	uint32_t first_offset;
	uint32_t key = 0;
	int ret;

	if (access & ~MR_ACCESS)
		return EOPNOTSUPP;
	if (!length || length > le64toh(dev->caps.max_mr_size))
		return EINVAL;
	ret = vrdma_region_map(&dev->memory, &mr->region, addr, length, access & WRITE_ACCESS);
	if (ret)
		return ret;
	arg.pages = vrdma_region_pages(&mr->region, &first_offset);
	arg.first_offset = htole32(first_offset);
	ret = -vrdma_cmd_reg_mr(dev, &arg, &key);
	if (ret) {
		vrdma_region_unmap(&dev->memory, &mr->region);
		return ret;
	}
	mr->base.ibv_mr.context = pd->context;
	mr->base.ibv_mr.handle = key;
	mr->base.ibv_mr.lkey = key;
	mr->base.ibv_mr.rkey = key;
	mr->base.access = access;
	return 0;
}

static int dereg_mr(struct vrdma_mr *mr)
{
	struct ibv_mr *base = &mr->base.ibv_mr;
	int ret = destroy(base->context, VRDMA_ADMIN_DEREG_MR, base->handle);

	if (!ret)
		vrdma_region_unmap(&dev_of(base->context)->memory, &mr->region);
	return ret;
}

/* Nothing resolves MACs here. That of a link-local address is in it; nobody needs another's. */
static void set_dmac(struct vrdma_av *av)
{
	static const uint8_t prefix[8] = {0xfe, 0x80};
	const uint8_t *id = av->dgid + sizeof(prefix);

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

static int create_cq(struct ibv_context *context, struct ibv_comp_channel *channel, int comp_vector,
		     struct vrdma_cq *cq)
{
	struct vrdma_dev *dev = dev_of(context);
	struct vrdma_cmd_create_cq arg = {
		.pages = vrdma_contiguous_pages(cq->buffer.address,
						vrdma_cq_buffer_size(cq->queue.depth)),
		.depth = htole32(cq->queue.depth),
		.ucontext = htole32(to_vrdma_context(context)->ucontext),
	};
	int ret;

	if (comp_vector < 0 || comp_vector >= context->num_comp_vectors)
		return EINVAL;
	arg.eq = htole32(dev->events.eqs[1 + comp_vector].handle);
	ret = -vrdma_cmd_create_cq(dev, &arg, &cq->base.handle);
	if (ret)
		return ret;
	cq->base.context = context;
	cq->base.channel = channel;
	cq->base.cqe = (int)cq->queue.depth;
	vrdma_events_add_cq(dev, cq, channel);
	return 0;
}

/* Until the program has acknowledged all events that it has read, as ibv_destroy_cq(3) promises. */
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
	struct ibv_cq *base = &cq->base;
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

static int create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr, struct vrdma_srq *srq)
{
	struct vrdma_dev *dev = dev_of(pd->context);
	const struct vrdma_shared_receive_queue *queue = &srq->queue;
	struct vrdma_cmd_create_srq arg = {
		.pages = vrdma_contiguous_pages(
			srq->buffer.address,
			vrdma_srq_buffer_size(queue->depth, queue->stride_shift)),
		.ucontext = htole32(to_vrdma_context(pd->context)->ucontext),
		.pd = htole32(pd->handle),
		.depth = htole32(queue->depth),
		.stride_shift = (__u8)queue->stride_shift,
		.max_sge = htole16((uint16_t)queue->max_sge),
	};
	struct ibv_srq *base = &srq->base.srq;
	int ret = -vrdma_cmd_create_srq(dev, &arg, &base->handle);

	if (ret)
		return ret;
	base->context = pd->context;
	base->srq_context = attr->srq_context;
	base->pd = pd;
	pthread_mutex_init(&base->mutex, NULL);
	pthread_cond_init(&base->cond, NULL);
	vrdma_events_add_srq(dev, srq);
	return 0;
}

static int modify_srq(struct vrdma_srq *srq, struct ibv_srq_attr *attr, int attr_mask)
{
	const struct ibv_srq *base = &srq->base.srq;

	(void)attr_mask; /* the limit is all that can be modified */
	return -vrdma_cmd_modify_srq(dev_of(base->context), base->handle, attr->srq_limit);
}

static int query_srq(struct vrdma_srq *srq, struct ibv_srq_attr *attr)
{
	const struct ibv_srq *base = &srq->base.srq;

	attr->max_wr = srq->queue.depth;
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

static void init_base_qp(struct ibv_qp *base, struct ibv_pd *pd,
			 const struct ibv_qp_init_attr *attr)
{
	base->context = pd->context;
	base->qp_context = attr->qp_context;
	base->pd = pd;
	base->send_cq = attr->send_cq;
	base->recv_cq = attr->recv_cq;
	base->srq = attr->srq;
	base->handle = base->qp_num;
	base->state = IBV_QPS_RESET;
	base->qp_type = attr->qp_type;
	pthread_mutex_init(&base->mutex, NULL);
	pthread_cond_init(&base->cond, NULL);
}

static int create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
		     const struct vrdma_qp_layout *layout, struct vrdma_qp *qp,
		     uint32_t *doorbell_slot)
{
	struct vrdma_dev *dev = dev_of(pd->context);
	struct vrdma_cmd_create_qp arg = {
		.pages = vrdma_contiguous_pages(
			qp->buffer.address,
			vrdma_qp_buffer_size(layout->sq_depth, layout->sq_stride_shift,
					     layout->rq_depth, layout->rq_stride_shift)),
		.ucontext = htole32(to_vrdma_context(pd->context)->ucontext),
		.pd = htole32(pd->handle),
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

	if (!attr->send_cq || !attr->recv_cq)
		return EOPNOTSUPP;
	arg.send_cq = htole32(attr->send_cq->handle);
	arg.recv_cq = htole32(attr->recv_cq->handle);
	arg.srq = attr->srq ? htole32(attr->srq->handle) : 0;
	ret = -vrdma_cmd_create_qp(dev, &arg, &qp->base.qp_num, doorbell_slot);
	if (ret)
		return ret;
	init_base_qp(&qp->base, pd, attr);
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
	int ret = -vrdma_cmd_query_qp(dev_of(qp->base.context), qp->base.qp_num, &wire);

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
		.qp_context = qp->base.qp_context,
		.send_cq = qp->base.send_cq,
		.recv_cq = qp->base.recv_cq,
		.srq = qp->base.srq,
		.cap = attr->cap,
		.qp_type = qp->base.qp_type,
		.sq_sig_all = queues->sq_ctrl & VRDMA_SQ_SIGNALED ? 1 : 0,
	};
	return 0;
}

static int modify_qp(struct vrdma_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct vrdma_qp_attr wire = {};
	int ret = qp_attr_to_wire(&wire, attr, attr_mask);

	if (ret)
		return ret;
	return -vrdma_cmd_modify_qp(dev_of(qp->base.context), qp->base.qp_num, &wire);
}

static int destroy_qp(struct vrdma_qp *qp)
{
	struct ibv_qp *base = &qp->base;
	uint32_t async;
	int ret = destroy(base->context, VRDMA_ADMIN_DESTROY_QP, base->qp_num);

	if (ret)
		return ret;
	vrdma_events_remove_qp(dev_of(base->context), qp, &async);
	if (dev_of(base->context)->forked)
		return 0; /* they are the parent's to acknowledge */
	wait_for_acks(&base->mutex, &base->cond, &base->events_completed, async);
	return 0;
}

const struct vrdma_control vrdma_direct_control = {
	.close = vrdma_direct_close,
	.query_device = query_device,
	.query_port = query_port,
	.alloc_buffer = alloc_buffer,
	.free_buffer = free_buffer,
	.alloc_pd = alloc_pd,
	.dealloc_pd = dealloc_pd,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
	.create_ah = create_ah,
	.destroy_ah = destroy_ah,
	.create_cq = create_cq,
	.destroy_cq = destroy_cq,
	.create_srq = create_srq,
	.modify_srq = modify_srq,
	.query_srq = query_srq,
	.destroy_srq = destroy_srq,
	.create_qp = create_qp,
	.query_qp = query_qp,
	.modify_qp = modify_qp,
	.destroy_qp = destroy_qp,
};
