/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The device, its port and its clock. */
#include <errno.h>
#include <string.h>
#include <vrdma/device_attr.h>

#include "verbs.h"

/* The program may be older than the structure's last members. */
#define HAS_ATTR(size, member)                                                                     \
	((size) >= offsetof(struct ibv_device_attr_ex, member) +                                   \
			   sizeof(((struct ibv_device_attr_ex *)0)->member))

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

int vrdma_direct_query_device(struct ibv_context *context,
			      const struct ibv_query_device_ex_input *input,
			      struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct vrdma_dev *dev = vrdma_dev_of(context);
	const struct vrdma_cpl_query_device *caps = &dev->caps;
	struct ibv_device_attr *props = &attr->orig_attr;

	if ((input && input->comp_mask) || attr_size < sizeof(*props))
		return EINVAL;
	memset(attr, 0, attr_size);
	vrdma_print_version(props, le64toh(caps->firmware_version));
	memcpy(&props->node_guid, caps->node_guid, sizeof(props->node_guid));
	props->sys_image_guid = props->node_guid;
	VRDMA_DEVICE_ATTR_FROM_CAPS(props, caps);
	props->vendor_id = VRDMA_PCI_VENDOR_ID;
	props->vendor_part_id = VRDMA_PCI_DEVICE_ID;
	props->hw_ver = VRDMA_PCI_REVISION;
	props->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
				  IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
				  IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW |
				  IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS;
	props->max_sge = le16toh(caps->max_send_sge) < le16toh(caps->max_recv_sge)
				 ? le16toh(caps->max_send_sge)
				 : le16toh(caps->max_recv_sge);
	props->atomic_cap = IBV_ATOMIC_HCA;
	props->max_pkeys = dev->pkeys.count;
	props->phys_port_cnt = 1;
	query_extended(attr, attr_size);
	return 0;
}

int vrdma_direct_query_clock(struct ibv_context *context, uint64_t *clock)
{
	__u64 now = 0;
	int ret = -vrdma_cmd_query_clock(vrdma_dev_of(context), &now);

	*clock = now;
	return ret;
}

int vrdma_direct_query_port(struct ibv_context *context, uint8_t port_num,
			    struct ibv_port_attr *attr)
{
	struct vrdma_dev *dev = vrdma_dev_of(context);
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
