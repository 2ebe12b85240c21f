// SPDX-License-Identifier: GPL-2.0-only
/*
 * One function an admin command.
 *
 * When a command fails because the device failed, the device is made quiet before the error is
 * returned. So whatever a command gave the device to use is free again when the command fails, and
 * when the object is destroyed.
 */
#include "vrdma_ib.h"

static int vrdma_exec(struct vrdma_dev *dev, enum vrdma_admin_opcode opcode,
		      struct vrdma_admin_cmd *cmd, struct vrdma_admin_cpl *cpl)
{
	int err = vrdma_admin_exec(dev, opcode, cmd, cpl);

	if (err && vrdma_dev_failed(dev))
		vrdma_dev_quiesce(dev);
	return err;
}

/* For commands that make something and answer with its handle. */
static int vrdma_exec_create(struct vrdma_dev *dev, enum vrdma_admin_opcode opcode,
			     struct vrdma_admin_cmd *cmd, u32 *handle)
{
	struct vrdma_admin_cpl cpl;
	int err;

	err = vrdma_exec(dev, opcode, cmd, &cpl);
	if (err)
		return err;
	*handle = le32_to_cpu(cpl.handle.handle);
	return 0;
}

int vrdma_cmd_query_device(struct vrdma_dev *dev, struct vrdma_cpl_query_device *caps)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;
	int err;

	err = vrdma_exec(dev, VRDMA_ADMIN_QUERY_DEVICE, &cmd, &cpl);
	if (err)
		return err;
	*caps = cpl.query_device;
	return 0;
}

int vrdma_cmd_query_port(struct vrdma_dev *dev, struct vrdma_cpl_query_port *port)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;
	int err;

	err = vrdma_exec(dev, VRDMA_ADMIN_QUERY_PORT, &cmd, &cpl);
	if (err)
		return err;
	*port = cpl.query_port;
	return 0;
}

int vrdma_cmd_create_eq(struct vrdma_dev *dev, const struct vrdma_cmd_create_eq *arg, u32 *handle)
{
	struct vrdma_admin_cmd cmd = { .create_eq = *arg };

	return vrdma_exec_create(dev, VRDMA_ADMIN_CREATE_EQ, &cmd, handle);
}

int vrdma_cmd_alloc_ucontext(struct vrdma_dev *dev, u32 *handle, u32 *doorbell_page)
{
	struct vrdma_admin_cmd cmd = {};
	struct vrdma_admin_cpl cpl;
	int err;

	err = vrdma_exec(dev, VRDMA_ADMIN_ALLOC_UCONTEXT, &cmd, &cpl);
	if (err)
		return err;
	*handle = le32_to_cpu(cpl.alloc_ucontext.handle);
	*doorbell_page = le32_to_cpu(cpl.alloc_ucontext.doorbell_page);
	return 0;
}

int vrdma_cmd_alloc_pd(struct vrdma_dev *dev, u32 ucontext, u32 *handle)
{
	struct vrdma_admin_cmd cmd = { .alloc_pd.ucontext = cpu_to_le32(ucontext) };

	return vrdma_exec_create(dev, VRDMA_ADMIN_ALLOC_PD, &cmd, handle);
}

int vrdma_cmd_reg_mr(struct vrdma_dev *dev, const struct vrdma_cmd_reg_mr *arg, u32 *key)
{
	struct vrdma_admin_cmd cmd = { .reg_mr = *arg };

	return vrdma_exec_create(dev, VRDMA_ADMIN_REG_MR, &cmd, key);
}

int vrdma_cmd_create_cq(struct vrdma_dev *dev, const struct vrdma_cmd_create_cq *arg, u32 *cqn)
{
	struct vrdma_admin_cmd cmd = { .create_cq = *arg };

	return vrdma_exec_create(dev, VRDMA_ADMIN_CREATE_CQ, &cmd, cqn);
}

int vrdma_cmd_create_qp(struct vrdma_dev *dev, const struct vrdma_cmd_create_qp *arg, u32 *qpn,
			u32 *doorbell_slot)
{
	struct vrdma_admin_cmd cmd = { .create_qp = *arg };
	struct vrdma_admin_cpl cpl;
	int err;

	err = vrdma_exec(dev, VRDMA_ADMIN_CREATE_QP, &cmd, &cpl);
	if (err)
		return err;
	*qpn = le32_to_cpu(cpl.create_qp.qpn);
	*doorbell_slot = le32_to_cpu(cpl.create_qp.doorbell_slot);
	return 0;
}

int vrdma_cmd_modify_qp(struct vrdma_dev *dev, u32 qpn, const struct vrdma_qp_attr *attr)
{
	struct vrdma_admin_cmd cmd = {
		.modify_qp = { .qpn = cpu_to_le32(qpn), .attr = *attr },
	};
	struct vrdma_admin_cpl cpl;

	return vrdma_exec(dev, VRDMA_ADMIN_MODIFY_QP, &cmd, &cpl);
}

int vrdma_cmd_query_qp(struct vrdma_dev *dev, u32 qpn, struct vrdma_qp_attr *attr)
{
	struct vrdma_admin_cmd cmd = { .handle.handle = cpu_to_le32(qpn) };
	struct vrdma_admin_cpl cpl;
	int err;

	err = vrdma_exec(dev, VRDMA_ADMIN_QUERY_QP, &cmd, &cpl);
	if (err)
		return err;
	*attr = cpl.query_qp;
	return 0;
}

int vrdma_cmd_create_ah(struct vrdma_dev *dev, u32 pd, const struct vrdma_av *av, u32 *handle)
{
	struct vrdma_admin_cmd cmd = {
		.create_ah = { .pd = cpu_to_le32(pd), .av = *av },
	};

	return vrdma_exec_create(dev, VRDMA_ADMIN_CREATE_AH, &cmd, handle);
}

int vrdma_cmd_set_gid(struct vrdma_dev *dev, const struct vrdma_cmd_set_gid *arg)
{
	struct vrdma_admin_cmd cmd = { .set_gid = *arg };
	struct vrdma_admin_cpl cpl;

	return vrdma_exec(dev, VRDMA_ADMIN_SET_GID, &cmd, &cpl);
}

/* A failed device has forgotten all objects, so destroying one works. */
int vrdma_cmd_destroy(struct vrdma_dev *dev, enum vrdma_admin_opcode opcode, u32 handle)
{
	struct vrdma_admin_cmd cmd = { .handle.handle = cpu_to_le32(handle) };
	struct vrdma_admin_cpl cpl;
	int err;

	err = vrdma_exec(dev, opcode, &cmd, &cpl);
	return err && vrdma_dev_failed(dev) ? 0 : err;
}
