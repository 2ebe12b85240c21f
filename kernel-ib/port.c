// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device's one port: its state, and its GID and P_Key tables.
 */
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>

#include <linux/etherdevice.h>
#include <linux/if_vlan.h>

#include "vrdma_ib.h"

int vrdma_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *props)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibdev);
	struct vrdma_cpl_query_port cpl;
	bool netdev_up = READ_ONCE(dev->netdev_up);
	int err;

	err = vrdma_cmd_query_port(dev, &cpl);
	if (err)
		return err;

	props->state = netdev_up ? cpl.state : IB_PORT_DOWN;
	props->phys_state = props->state == IB_PORT_ACTIVE ? IB_PORT_PHYS_STATE_LINK_UP :
							     IB_PORT_PHYS_STATE_DISABLED;
	props->max_mtu = IB_MTU_4096;
	props->active_mtu = cpl.active_mtu;
	if (netdev_up)
		props->active_mtu = min_t(enum ib_mtu, props->active_mtu,
					  iboe_get_mtu(READ_ONCE(dev->netdev_mtu)));
	props->active_speed = cpl.active_speed;
	props->active_width = cpl.active_width;
	props->max_msg_sz = le32_to_cpu(cpl.max_message_size);
	props->gid_tbl_len = le16_to_cpu(dev->caps.gid_table_len);
	props->pkey_tbl_len = dev->pkeys.count;
	props->max_vl_num = 1;
	props->port_cap_flags = IB_PORT_CM_SUP;
	props->ip_gids = true;
	return 0;
}

int vrdma_get_port_immutable(struct ib_device *ibdev, u32 port, struct ib_port_immutable *props)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibdev);

	props->core_cap_flags = RDMA_CORE_PORT_IBA_ROCE | RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	props->max_mad_size = IB_MGMT_MAD_SIZE;
	props->gid_tbl_len = le16_to_cpu(dev->caps.gid_table_len);
	props->pkey_tbl_len = dev->pkeys.count;
	return 0;
}

enum rdma_link_layer vrdma_get_link_layer(struct ib_device *ibdev, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

int vrdma_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	const struct vrdma_pkeys *pkeys = &to_vrdma_dev(ibdev)->pkeys;

	if (index >= pkeys->count)
		return -EINVAL;
	*pkey = pkeys->key[index];
	return 0;
}

/*
 * Accepts a VLAN directly on the paired netdev, with one 802.1Q tag and the function's MAC: the
 * device sends the same frames for it as the netdev would.
 */
static bool vrdma_serves_vlan(struct vrdma_dev *dev, const struct ib_gid_attr *attr)
{
	const struct net_device *ndev;
	bool serves;

	rcu_read_lock();
	ndev = rcu_dereference(attr->ndev);
	serves = ndev && is_vlan_dev(ndev) && vlan_dev_vlan_proto(ndev) == htons(ETH_P_8021Q) &&
		 vlan_dev_priv(ndev)->real_dev == READ_ONCE(dev->netdev) &&
		 ether_addr_equal_unaligned(ndev->dev_addr, dev->fn->id.mac);
	rcu_read_unlock();
	return serves;
}

/* The device decides whether this guest may use the GID. */
int vrdma_add_gid(const struct ib_gid_attr *attr, void **context)
{
	struct vrdma_cmd_set_gid arg = {
		.index = cpu_to_le32(attr->index),
		.type = attr->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP ? VRDMA_GID_ROCE_V2 :
								       VRDMA_GID_ROCE_V1,
		.valid = 1,
	};
	u16 vlan;
	int err;

	err = rdma_read_gid_l2_fields(attr, &vlan, NULL);
	if (err)
		return err;
	if (vlan < VLAN_N_VID) {
		/* VLAN 0 means a priority without a VLAN. */
		if (!vlan || !vrdma_serves_vlan(to_vrdma_dev(attr->device), attr))
			return -EOPNOTSUPP;
		arg.vlan = cpu_to_le16(vlan);
	}

	memcpy(arg.gid, attr->gid.raw, sizeof(arg.gid));
	return vrdma_cmd_set_gid(to_vrdma_dev(attr->device), &arg);
}

int vrdma_del_gid(const struct ib_gid_attr *attr, void **context)
{
	struct vrdma_cmd_set_gid arg = { .index = cpu_to_le32(attr->index) };

	return vrdma_cmd_set_gid(to_vrdma_dev(attr->device), &arg);
}
