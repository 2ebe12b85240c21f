// SPDX-License-Identifier: GPL-2.0-only
/* Address handles, and address vectors, which QPs have too. */
#include "vrdma_ib.h"

/* ib_core has resolved the destination's MAC. */
int vrdma_av_from_ah_attr(struct vrdma_av *av, const struct rdma_ah_attr *attr)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(attr);

	if (attr->type != RDMA_AH_ATTR_TYPE_ROCE || !(rdma_ah_get_ah_flags(attr) & IB_AH_GRH))
		return -EINVAL;

	memcpy(av->dgid, grh->dgid.raw, sizeof(av->dgid));
	av->flow_label = cpu_to_le32(grh->flow_label & VRDMA_AV_FLOW_LABEL);
	av->sgid_index = grh->sgid_index;
	av->hop_limit = grh->hop_limit;
	av->traffic_class = grh->traffic_class;
	av->sl = rdma_ah_get_sl(attr);
	memcpy(av->dmac, attr->roce.dmac, sizeof(av->dmac));
	av->port_num = rdma_ah_get_port_num(attr);
	return 0;
}

void vrdma_av_to_ah_attr(const struct vrdma_av *av, struct rdma_ah_attr *attr)
{
	union ib_gid dgid;

	memcpy(dgid.raw, av->dgid, sizeof(dgid.raw));
	attr->type = RDMA_AH_ATTR_TYPE_ROCE;
	rdma_ah_set_grh(attr, &dgid, le32_to_cpu(av->flow_label), av->sgid_index, av->hop_limit,
			av->traffic_class);
	rdma_ah_set_sl(attr, av->sl);
	memcpy(attr->roce.dmac, av->dmac, sizeof(attr->roce.dmac));
	rdma_ah_set_port_num(attr, av->port_num);
}

int vrdma_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibah->device);
	struct vrdma_uverbs_create_ah_resp resp = {};
	struct vrdma_ah *ah = to_vrdma_ah(ibah);
	struct vrdma_av av = {};
	int err;

	err = vrdma_udata_none(udata);
	if (err)
		return err;

	err = vrdma_av_from_ah_attr(&av, init->ah_attr);
	if (err)
		return err;

	/* The kernel creates AHs where it must not sleep: each WQE carries the vector instead. */
	if (!udata) {
		ah->av = av;
		return 0;
	}

	err = vrdma_cmd_create_ah(dev, to_vrdma_pd(ibah->pd)->handle, &av, &ah->handle);
	if (err)
		return err;

	resp.ah = ah->handle;
	err = vrdma_udata_out(udata, &resp, sizeof(resp));
	if (err)
		vrdma_cmd_destroy(dev, VRDMA_ADMIN_DESTROY_AH, ah->handle);
	return err;
}

int vrdma_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	u32 handle = to_vrdma_ah(ibah)->handle;

	if (!handle)
		return 0;
	return vrdma_cmd_destroy(to_vrdma_dev(ibah->device), VRDMA_ADMIN_DESTROY_AH, handle);
}
