/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Address handles, and address vectors. */
#include <errno.h>
#include <string.h>

#include "verbs.h"

/* The MAC of a multicast group follows from its address (RFC 1112, RFC 2464). */
static bool set_multicast_dmac(struct vrdma_av *av)
{
	static const uint8_t ipv4[3] = {0x01, 0x00, 0x5e};

	if (av->dgid[0] == 0xff) {
		av->dmac[0] = av->dmac[1] = 0x33;
		memcpy(av->dmac + 2, av->dgid + 12, 4);
		return true;
	}
	if (!vrdma_is_mapped_ipv4(av->dgid) || (av->dgid[12] & 0xf0) != 0xe0)
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

int vrdma_av_from_ah_attr(struct vrdma_av *av, const struct ibv_ah_attr *attr)
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

void vrdma_av_to_ah_attr(const struct vrdma_av *av, struct ibv_ah_attr *attr)
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

int vrdma_direct_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr, struct vrdma_ah *ah)
{
	struct vrdma_av av = {};
	int ret = vrdma_av_from_ah_attr(&av, attr);

	if (!ret)
		ret = -vrdma_cmd_create_ah(vrdma_dev_of(pd->context), pd->handle, &av, &ah->id);
	ah->base.context = pd->context;
	ah->base.handle = ah->id;
	return ret;
}

int vrdma_direct_destroy_ah(struct vrdma_ah *ah)
{
	return vrdma_destroy_object(ah->base.context, VRDMA_ADMIN_DESTROY_AH, ah->id);
}
