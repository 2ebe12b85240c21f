/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * One function per admin command. Both drivers of the PCI function use them: the guest's kernel
 * driver and the user-space driver. Each driver has a struct vrdma_dev and the two functions that
 * are declared first.
 *
 * Functions return 0 or a negative errno.
 */
#ifndef VRDMA_COMMANDS_H
#define VRDMA_COMMANDS_H

#ifdef __KERNEL__
#include <linux/string.h>
#else
#include <stdbool.h>
#include <string.h>
#endif
#include <asm/byteorder.h>

#include "device.h"

struct vrdma_dev;

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Executes a command and waits for its answer. If it fails because the device failed, the device is
 * quiet before this returns: the caller may reuse the memory that the command named.
 */
int vrdma_admin_exec(struct vrdma_dev *dev, __u32 opcode, struct vrdma_admin_cmd *cmd,
		     struct vrdma_admin_cpl *cpl);

/* Whether the device failed, so that no command succeeds any more. */
bool vrdma_dev_failed(struct vrdma_dev *dev);

#ifdef __cplusplus
}
#endif

/* The page list of a buffer with contiguous bus addresses. start is a multiple of a page. */
static inline struct vrdma_page_list vrdma_contiguous_pages(__u64 start, __u64 size)
{
	struct vrdma_page_list list;

	memset(&list, 0, sizeof(list));
	list.root = __cpu_to_le64(start);
	list.count = __cpu_to_le32((__u32)((size + VRDMA_PAGE_SIZE - 1) >> VRDMA_PAGE_SHIFT));
	list.page_shift = VRDMA_PAGE_SHIFT;
	return list;
}

/* Executes a command that creates an object, and returns the object's handle. */
static inline int vrdma_cmd_create(struct vrdma_dev *dev, __u32 opcode, struct vrdma_admin_cmd *cmd,
				   __u32 *handle)
{
	struct vrdma_admin_cpl cpl;
	int err;

	err = vrdma_admin_exec(dev, opcode, cmd, &cpl);
	if (err)
		return err;
	*handle = __le32_to_cpu(cpl.handle.handle);
	return 0;
}

static inline int vrdma_cmd_query_device(struct vrdma_dev *dev, struct vrdma_cpl_query_device *caps)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;
	int err;

	err = vrdma_admin_exec(dev, VRDMA_ADMIN_QUERY_DEVICE, &cmd, &cpl);
	if (err)
		return err;
	*caps = cpl.query_device;
	return 0;
}

static inline int vrdma_cmd_query_port(struct vrdma_dev *dev, struct vrdma_cpl_query_port *port)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;
	int err;

	err = vrdma_admin_exec(dev, VRDMA_ADMIN_QUERY_PORT, &cmd, &cpl);
	if (err)
		return err;
	*port = cpl.query_port;
	return 0;
}

/* The port's P_Keys. Managers of connections are in the default partition (IBA 10.9.1.2). */
struct vrdma_pkeys {
	__u16 count;
	__u16 of_managers; /* index of the default partition's key; 0 if there is none */
	__u16 key[VRDMA_MAX_PKEYS];
};

static inline int vrdma_cmd_query_pkeys(struct vrdma_dev *dev,
					const struct vrdma_cpl_query_device *caps,
					struct vrdma_pkeys *pkeys)
{
	__u16 length = __le16_to_cpu(caps->pkey_table_len);
	struct vrdma_cpl_query_port port;
	__u16 i;
	int err;

	err = vrdma_cmd_query_port(dev, &port);
	if (err)
		return err;
	pkeys->count = length < VRDMA_MAX_PKEYS ? length : VRDMA_MAX_PKEYS;
	pkeys->of_managers = 0;
	for (i = pkeys->count; i--;) {
		pkeys->key[i] = __le16_to_cpu(port.pkeys[i]);
		if ((pkeys->key[i] & VRDMA_PARTITION) == VRDMA_PARTITION)
			pkeys->of_managers = i;
	}
	return 0;
}

/* Reads the counters of a QP or of a counter set, or of the function if both are 0. */
static inline int vrdma_cmd_query_counters(struct vrdma_dev *dev, __u32 qpn, __u32 counter_set,
					   struct vrdma_counters *counters)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;
	__u32 first, i;
	int err;

	for (first = 0; first < VRDMA_NUM_COUNTERS; first += VRDMA_COUNTERS_PER_REPLY) {
		cmd.query_counters.first = __cpu_to_le32(first);
		cmd.query_counters.qpn = __cpu_to_le32(qpn);
		cmd.query_counters.counter_set = __cpu_to_le32(counter_set);
		err = vrdma_admin_exec(dev, VRDMA_ADMIN_QUERY_COUNTERS, &cmd, &cpl);
		if (err)
			return err;
		for (i = 0; i < VRDMA_COUNTERS_PER_REPLY && first + i < VRDMA_NUM_COUNTERS; i++)
			counters->value[first + i] = cpl.query_counters.value[i];
	}
	return 0;
}

static inline int vrdma_cmd_alloc_counter_set(struct vrdma_dev *dev, __u32 *handle)
{
	struct vrdma_admin_cmd cmd = {};

	return vrdma_cmd_create(dev, VRDMA_ADMIN_ALLOC_COUNTER_SET, &cmd, handle);
}

/* counter_set 0 unbinds the QP from its set. */
static inline int vrdma_cmd_bind_counter_set(struct vrdma_dev *dev, __u32 qpn, __u32 counter_set)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;

	cmd.bind_counter_set.qpn = __cpu_to_le32(qpn);
	cmd.bind_counter_set.counter_set = __cpu_to_le32(counter_set);
	return vrdma_admin_exec(dev, VRDMA_ADMIN_BIND_COUNTER_SET, &cmd, &cpl);
}

static inline int vrdma_cmd_create_eq(struct vrdma_dev *dev, const struct vrdma_cmd_create_eq *arg,
				      __u32 *handle)
{
	struct vrdma_admin_cmd cmd = {};

	cmd.create_eq = *arg;
	return vrdma_cmd_create(dev, VRDMA_ADMIN_CREATE_EQ, &cmd, handle);
}

static inline int vrdma_cmd_alloc_ucontext(struct vrdma_dev *dev, __u32 *handle,
					   __u32 *doorbell_page)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;
	int err;

	err = vrdma_admin_exec(dev, VRDMA_ADMIN_ALLOC_UCONTEXT, &cmd, &cpl);
	if (err)
		return err;
	*handle = __le32_to_cpu(cpl.alloc_ucontext.handle);
	*doorbell_page = __le32_to_cpu(cpl.alloc_ucontext.doorbell_page);
	return 0;
}

static inline int vrdma_cmd_alloc_pd(struct vrdma_dev *dev, __u32 ucontext, __u32 *handle)
{
	struct vrdma_admin_cmd cmd = {};

	cmd.alloc_pd.ucontext = __cpu_to_le32(ucontext);
	return vrdma_cmd_create(dev, VRDMA_ADMIN_ALLOC_PD, &cmd, handle);
}

static inline int vrdma_cmd_alloc_xrcd(struct vrdma_dev *dev, __u32 *handle)
{
	struct vrdma_admin_cmd cmd = {};

	return vrdma_cmd_create(dev, VRDMA_ADMIN_ALLOC_XRCD, &cmd, handle);
}

static inline int vrdma_cmd_reg_mr(struct vrdma_dev *dev, const struct vrdma_cmd_reg_mr *arg,
				   __u32 *key)
{
	struct vrdma_admin_cmd cmd = {};

	cmd.reg_mr = *arg;
	return vrdma_cmd_create(dev, VRDMA_ADMIN_REG_MR, &cmd, key);
}

static inline int vrdma_cmd_map_pages(struct vrdma_dev *dev, const struct vrdma_cmd_map_pages *arg)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;

	cmd.map_pages = *arg;
	return vrdma_admin_exec(dev, VRDMA_ADMIN_MAP_PAGES, &cmd, &cpl);
}

/* Tells the device that there is no memory there. Messages that wait for these pages fail. */
static inline int vrdma_cmd_refuse_pages(struct vrdma_dev *dev, __u32 key, __u64 first, __u32 count)
{
	struct vrdma_cmd_map_pages arg;

	memset(&arg, 0, sizeof(arg));
	arg.pages.count = __cpu_to_le32(count);
	arg.first = __cpu_to_le64(first);
	arg.key = __cpu_to_le32(key);
	arg.flags = __cpu_to_le32(VRDMA_MAP_REFUSED);
	return vrdma_cmd_map_pages(dev, &arg);
}

static inline int vrdma_cmd_unmap_pages(struct vrdma_dev *dev, __u32 key, __u64 first, __u64 count)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;
	int err;

	cmd.unmap_pages.first = __cpu_to_le64(first);
	cmd.unmap_pages.count = __cpu_to_le64(count);
	cmd.unmap_pages.key = __cpu_to_le32(key);
	err = vrdma_admin_exec(dev, VRDMA_ADMIN_UNMAP_PAGES, &cmd, &cpl);
	return err && vrdma_dev_failed(dev) ? 0 : err;
}

static inline int vrdma_cmd_rereg_mr(struct vrdma_dev *dev, const struct vrdma_cmd_rereg_mr *arg)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;

	cmd.rereg_mr = *arg;
	return vrdma_admin_exec(dev, VRDMA_ADMIN_REREG_MR, &cmd, &cpl);
}

static inline int vrdma_cmd_alloc_mw(struct vrdma_dev *dev, __u32 pd, __u32 type, __u32 *key)
{
	struct vrdma_admin_cmd cmd = {};

	cmd.alloc_mw.pd = __cpu_to_le32(pd);
	cmd.alloc_mw.type = __cpu_to_le32(type);
	return vrdma_cmd_create(dev, VRDMA_ADMIN_ALLOC_MW, &cmd, key);
}

static inline int vrdma_cmd_alloc_mr(struct vrdma_dev *dev, __u32 pd, __u32 max_pages, __u32 *key)
{
	struct vrdma_admin_cmd cmd = {};

	cmd.alloc_mr.pd = __cpu_to_le32(pd);
	cmd.alloc_mr.max_pages = __cpu_to_le32(max_pages);
	return vrdma_cmd_create(dev, VRDMA_ADMIN_ALLOC_MR, &cmd, key);
}

static inline int vrdma_cmd_create_cq(struct vrdma_dev *dev, const struct vrdma_cmd_create_cq *arg,
				      __u32 *cqn)
{
	struct vrdma_admin_cmd cmd = {};

	cmd.create_cq = *arg;
	return vrdma_cmd_create(dev, VRDMA_ADMIN_CREATE_CQ, &cmd, cqn);
}

static inline int vrdma_cmd_resize_cq(struct vrdma_dev *dev, const struct vrdma_cmd_resize_cq *arg)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;

	cmd.resize_cq = *arg;
	return vrdma_admin_exec(dev, VRDMA_ADMIN_RESIZE_CQ, &cmd, &cpl);
}

static inline int vrdma_cmd_modify_cq(struct vrdma_dev *dev, __u32 cqn, __u16 count,
				      __u16 period_us)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;

	cmd.modify_cq.cqn = __cpu_to_le32(cqn);
	cmd.modify_cq.count = __cpu_to_le16(count);
	cmd.modify_cq.period_us = __cpu_to_le16(period_us);
	return vrdma_admin_exec(dev, VRDMA_ADMIN_MODIFY_CQ, &cmd, &cpl);
}

static inline int vrdma_cmd_query_clock(struct vrdma_dev *dev, __u64 *clock)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;
	int err;

	err = vrdma_admin_exec(dev, VRDMA_ADMIN_QUERY_CLOCK, &cmd, &cpl);
	if (err)
		return err;
	*clock = __le64_to_cpu(cpl.query_clock.clock);
	return 0;
}

static inline int vrdma_cmd_create_srq(struct vrdma_dev *dev,
				       const struct vrdma_cmd_create_srq *arg, __u32 *srqn)
{
	struct vrdma_admin_cmd cmd = {};

	cmd.create_srq = *arg;
	return vrdma_cmd_create(dev, VRDMA_ADMIN_CREATE_SRQ, &cmd, srqn);
}

static inline int vrdma_cmd_modify_srq(struct vrdma_dev *dev, __u32 srqn, __u32 limit)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;

	cmd.modify_srq.srqn = __cpu_to_le32(srqn);
	cmd.modify_srq.limit = __cpu_to_le32(limit);
	return vrdma_admin_exec(dev, VRDMA_ADMIN_MODIFY_SRQ, &cmd, &cpl);
}

static inline int vrdma_cmd_resize_srq(struct vrdma_dev *dev,
				       const struct vrdma_cmd_resize_srq *arg)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;

	cmd.resize_srq = *arg;
	return vrdma_admin_exec(dev, VRDMA_ADMIN_RESIZE_SRQ, &cmd, &cpl);
}

static inline int vrdma_cmd_query_srq(struct vrdma_dev *dev, __u32 srqn, __u32 *limit)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;
	int err;

	cmd.handle.handle = __cpu_to_le32(srqn);
	err = vrdma_admin_exec(dev, VRDMA_ADMIN_QUERY_SRQ, &cmd, &cpl);
	if (err)
		return err;
	*limit = __le32_to_cpu(cpl.query_srq.limit);
	return 0;
}

static inline int vrdma_cmd_create_qp(struct vrdma_dev *dev, const struct vrdma_cmd_create_qp *arg,
				      __u32 *qpn, __u32 *doorbell_slot)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;
	int err;

	cmd.create_qp = *arg;
	err = vrdma_admin_exec(dev, VRDMA_ADMIN_CREATE_QP, &cmd, &cpl);
	if (err)
		return err;
	*qpn = __le32_to_cpu(cpl.create_qp.qpn);
	*doorbell_slot = __le32_to_cpu(cpl.create_qp.doorbell_slot);
	return 0;
}

static inline int vrdma_cmd_modify_qp(struct vrdma_dev *dev, __u32 qpn,
				      const struct vrdma_qp_attr *attr)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;

	cmd.modify_qp.qpn = __cpu_to_le32(qpn);
	cmd.modify_qp.attr = *attr;
	return vrdma_admin_exec(dev, VRDMA_ADMIN_MODIFY_QP, &cmd, &cpl);
}

static inline int vrdma_cmd_query_qp(struct vrdma_dev *dev, __u32 qpn, struct vrdma_qp_attr *attr)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;
	int err;

	cmd.handle.handle = __cpu_to_le32(qpn);
	err = vrdma_admin_exec(dev, VRDMA_ADMIN_QUERY_QP, &cmd, &cpl);
	if (err)
		return err;
	*attr = cpl.query_qp;
	return 0;
}

/* ATTACH_MCAST or DETACH_MCAST. */
static inline int vrdma_cmd_multicast(struct vrdma_dev *dev, __u32 opcode, __u32 qpn,
				      const __u8 *gid)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;

	cmd.multicast.qpn = __cpu_to_le32(qpn);
	memcpy(cmd.multicast.gid, gid, sizeof(cmd.multicast.gid));
	return vrdma_admin_exec(dev, opcode, &cmd, &cpl);
}

/* LISTEN or UNLISTEN. */
static inline int vrdma_cmd_listen(struct vrdma_dev *dev, __u32 opcode, __u64 service_id)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;

	cmd.listen.service_id = __cpu_to_le64(service_id);
	return vrdma_admin_exec(dev, opcode, &cmd, &cpl);
}

static inline int vrdma_cmd_create_ah(struct vrdma_dev *dev, __u32 pd, const struct vrdma_av *av,
				      __u32 *handle)
{
	struct vrdma_admin_cmd cmd = {};

	cmd.create_ah.pd = __cpu_to_le32(pd);
	cmd.create_ah.av = *av;
	return vrdma_cmd_create(dev, VRDMA_ADMIN_CREATE_AH, &cmd, handle);
}

static inline int vrdma_cmd_set_gid(struct vrdma_dev *dev, const struct vrdma_cmd_set_gid *arg)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;

	cmd.set_gid = *arg;
	return vrdma_admin_exec(dev, VRDMA_ADMIN_SET_GID, &cmd, &cpl);
}

/* A failed device has forgotten all objects, so destroying one works. */
static inline int vrdma_cmd_destroy(struct vrdma_dev *dev, __u32 opcode, __u32 handle)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;
	int err;

	cmd.handle.handle = __cpu_to_le32(handle);
	err = vrdma_admin_exec(dev, opcode, &cmd, &cpl);
	return err && vrdma_dev_failed(dev) ? 0 : err;
}

#endif /* VRDMA_COMMANDS_H */
