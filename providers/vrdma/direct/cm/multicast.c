/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Multicast groups of datagram services. A group is only an address: joining it needs no message,
 * and the program attaches its QP by itself.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"

/* Each group has at most one event, and a handle that no other current group has. */
static struct vrdma_cm_group *find_handle(uint32_t wanted, const struct vrdma_cm_channel *channel)
{
	struct vrdma_cm_id *id;
	uint32_t handle = 0;

	while ((id = vrdma_cm_id_next(&handle)))
		for (struct vrdma_cm_group *group = id->groups; group; group = group->next)
			if (group->handle == wanted && (!channel || id->channel == channel))
				return group;
	return NULL;
}

static uint32_t new_handle(void)
{
	static uint32_t last;

	do
		last++;
	while (find_handle(last, NULL));
	return last;
}

static unsigned int count_groups(const struct vrdma_cm_id *id)
{
	unsigned int count = 0;

	for (const struct vrdma_cm_group *group = id->groups; group; group = group->next)
		count++;
	return count;
}

static struct vrdma_cm_group *add_group(struct vrdma_cm_id *id, uint64_t uid)
{
	struct vrdma_cm_group *group = calloc(1, sizeof(*group));

	if (!group)
		return NULL;
	group->id = id;
	group->uid = uid;
	group->handle = new_handle();
	group->next = id->groups;
	id->groups = group;
	return group;
}

static void post_joined(struct vrdma_cm_group *group, const union vrdma_cm_address *address)
{
	const struct vrdma_cm_id *id = group->id;
	struct vrdma_cm_event *event = vrdma_cm_event_add(group->id, VRDMA_CM_MULTICAST_JOIN, 0);
	struct rdma_ucm_ud_param *param;
	union ibv_gid gid;

	if (!event)
		return;
	event->group = group;
	event->resp.uid = group->uid;
	event->resp.id = group->handle;
	param = &event->resp.param.ud;
	param->qp_num = VRDMA_MULTICAST_QPN;
	param->qkey = VRDMA_CM_QKEY;
	vrdma_cm_ah_attr(id, &param->ah_attr);
	vrdma_cm_to_gid(address, &gid);
	memcpy(param->ah_attr.grh.dgid, &gid, sizeof(gid));
	param->ah_attr.grh.sgid_index = (uint8_t)vrdma_cm_source_index(id);
	param->ah_attr.grh.hop_limit = VRDMA_CM_HOP_LIMIT;
}

int vrdma_cm_join(struct vrdma_cm_id *id, const union vrdma_cm_address *address, uint64_t uid,
		  uint32_t *handle)
{
	struct vrdma_cm_group *group;

	if (!vrdma_cm_is_ip(address))
		return EAFNOSUPPORT;
	if (!id->port || !vrdma_cm_is_datagram(id) || vrdma_cm_is_any(address) ||
	    vrdma_cm_source_index(id) < 0)
		return EINVAL;
	if (count_groups(id) == VRDMA_CM_MAX_GROUPS)
		return ENOMEM;
	group = add_group(id, uid);
	if (!group)
		return ENOMEM;
	*handle = group->handle;
	post_joined(group, address);
	return 0;
}

static uint32_t remove_at(struct vrdma_cm_group **at)
{
	struct vrdma_cm_group *group = *at;
	uint32_t reported = group->events_reported;
	struct vrdma_cm_event *event;

	*at = group->next;
	while ((event = vrdma_cm_event_strike_out(group->id, group)))
		free(event);
	free(group);
	return reported;
}

int vrdma_cm_leave(const struct vrdma_cm_channel *channel, uint32_t handle, uint32_t *reported)
{
	struct vrdma_cm_group *group = find_handle(handle, channel);
	struct vrdma_cm_group **at;

	if (!group)
		return ENOENT;
	at = &group->id->groups;
	while (*at != group)
		at = &(*at)->next;
	*reported = remove_at(at);
	return 0;
}

void vrdma_cm_leave_all(struct vrdma_cm_id *id)
{
	while (id->groups)
		remove_at(&id->groups);
}
