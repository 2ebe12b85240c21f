/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The private interface between libibverbs and its providers, of rdma-core 44 to 65. No other file
 * declares any of it.
 *
 * VRDMA_RDMA_CORE_MAJOR is the version that this is built for. With VRDMA_RDMA_CORE_TREE there is a
 * tree of that version, and the interface is its infiniband/driver.h. Distributions do not install
 * that header. Without a tree this file declares the parts that this provider uses.
 * check_libibverbs.cmake has a table of the versions that share these declarations. They are
 * checked three times: their sizes below, against libibverbs.a at build time, and against the
 * library's version when it loads the provider (load_guard.c).
 */
#ifndef VRDMA_RDMA_CORE_H
#define VRDMA_RDMA_CORE_H

#ifdef VRDMA_RDMA_CORE_TREE

#include <infiniband/driver.h>

static inline struct verbs_qp *vrdma_qp_end(struct verbs_qp *qp)
{
	return qp;
}

#else

#include <assert.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

enum { VERBS_MATCH_SENTINEL = 0, VERBS_MATCH_PCI = 1 };

struct verbs_match_ent {
	void *driver_data;
	const char *modalias;
	uint16_t vendor;
	uint16_t device;
	uint8_t kind;
};
static_assert(sizeof(struct verbs_match_ent) == 24, "verbs_match_ent");

enum { VSYSFS_READ_NODE_GUID = 1 << 1 };

/* A device's data that libibverbs reads from sysfs, or gets from code that replaces sysfs. */
struct verbs_sysfs_dev {
	void *list_entry[2];
	void *provider_data;
	const struct verbs_match_ent *match;
	unsigned int flags;
	char sysfs_name[IBV_SYSFS_NAME_MAX];
	dev_t sysfs_cdev;
	char ibdev_name[IBV_SYSFS_NAME_MAX];
	char ibdev_path[IBV_SYSFS_PATH_MAX];
	char modalias[512];
	uint64_t node_guid;
	uint32_t driver_id;
	enum ibv_node_type node_type;
	int ibdev_idx;
	uint32_t num_ports;
	uint32_t abi_ver;
	struct timespec time_created;
};
static_assert(sizeof(struct verbs_sysfs_dev) == 992, "verbs_sysfs_dev");

struct verbs_device;

struct verbs_device_ops {
	const char *name;
	uint32_t match_min_abi_version;
	uint32_t match_max_abi_version;
	const struct verbs_match_ent *match_table;
	const struct verbs_device_ops **static_providers;
	int (*match_device)(struct verbs_sysfs_dev *sysfs_dev);
	struct verbs_context *(*alloc_context)(struct ibv_device *device, int cmd_fd,
					       void *private_data);
	struct verbs_context *(*import_context)(struct ibv_device *device, int cmd_fd);
	struct verbs_device *(*alloc_device)(struct verbs_sysfs_dev *sysfs_dev);
	void (*uninit_device)(struct verbs_device *device);
};
static_assert(sizeof(struct verbs_device_ops) == 72, "verbs_device_ops");

struct verbs_device {
	struct ibv_device device;
	const struct verbs_device_ops *ops;
	int refcount;
	void *list_entry[2];
	struct verbs_sysfs_dev *sysfs;
	uint64_t core_support;
};
static_assert(sizeof(struct verbs_device) == 712, "verbs_device");

/* Public. A library of the same private ABI has no longer one. */
#if VRDMA_RDMA_CORE_MAJOR < 57
static_assert(sizeof(struct verbs_context) == 648, "verbs_context");
static_assert(offsetof(struct verbs_context, priv) == 208, "verbs_context.priv");
static_assert(offsetof(struct verbs_context, context) == 320, "verbs_context.context");
#endif

enum ibv_mr_type { IBV_MR_TYPE_MR, IBV_MR_TYPE_NULL_MR, IBV_MR_TYPE_IMPORTED_MR };

struct verbs_mr {
	struct ibv_mr ibv_mr;
	int mr_type;
	int access;
};
static_assert(sizeof(struct verbs_mr) == 56, "verbs_mr");

struct verbs_xrcd {
	struct ibv_xrcd xrcd;
	uint32_t comp_mask;
	uint32_t handle;
};
static_assert(sizeof(struct verbs_xrcd) == 16, "verbs_xrcd");

struct verbs_dm {
	struct ibv_dm dm;
	uint32_t handle;
};
static_assert(sizeof(struct verbs_dm) == 40, "verbs_dm");

struct verbs_srq {
	struct ibv_srq srq;
	enum ibv_srq_type srq_type;
	struct verbs_xrcd *xrcd;
	struct ibv_cq *cq;
	uint32_t srq_num;
};
static_assert(sizeof(struct verbs_srq) == 160, "verbs_srq");

struct verbs_cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex cq_ex;
	};
};
static_assert(sizeof(struct verbs_cq) == 288, "verbs_cq");

enum { VERBS_QP_XRCD = 1 << 0, VERBS_QP_EX = 1 << 1 };

/* After ibv_qp_ex. */
struct vrdma_verbs_qp_end {
	uint32_t comp_mask;
	struct verbs_xrcd *xrcd;
};

#define VRDMA_QP_EX_SIZE_44 352 /* later versions have one operation more, wr_flush */
#define VRDMA_QP_EX_SIZE 360

/* Its end follows an ibv_qp_ex of libibverbs' size: see vrdma_qp_end(). */
struct verbs_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex qp_ex;
		unsigned char with_end[VRDMA_QP_EX_SIZE + sizeof(struct vrdma_verbs_qp_end)];
	};
};
static_assert(sizeof(struct verbs_qp) == 376, "verbs_qp");
static_assert(sizeof(struct ibv_qp_ex) == VRDMA_QP_EX_SIZE ||
		      (sizeof(struct ibv_qp_ex) == VRDMA_QP_EX_SIZE_44 &&
		       VRDMA_RDMA_CORE_MAJOR == 44),
	      "ibv_qp_ex");
static_assert(offsetof(struct ibv_qp_ex, qp_base) == 0, "ibv_qp_ex.qp_base");

/* load_guard.c: in the library that loaded the provider. */
extern size_t vrdma_qp_ex_size;

static inline struct vrdma_verbs_qp_end *vrdma_qp_end(struct verbs_qp *qp)
{
	return (struct vrdma_verbs_qp_end *)&qp->with_end[vrdma_qp_ex_size];
}

/*
 * One pointer for each verb, sorted by name. The unused pointers only keep the layout: libibverbs
 * returns EOPNOTSUPP for these verbs. Some do not exist before a version.
 */
typedef void (*vrdma_unused_op)(void);
#define VRDMA_UNUSED_OP(op) vrdma_unused_op op;
#define VRDMA_NO_OP(op)
#if VRDMA_RDMA_CORE_MAJOR >= 59
#define VRDMA_OP_SINCE_59 VRDMA_UNUSED_OP
#else
#define VRDMA_OP_SINCE_59 VRDMA_NO_OP
#endif
#if VRDMA_RDMA_CORE_MAJOR >= 62
#define VRDMA_OP_SINCE_62 VRDMA_UNUSED_OP
#else
#define VRDMA_OP_SINCE_62 VRDMA_NO_OP
#endif
#if VRDMA_RDMA_CORE_MAJOR >= 64
#define VRDMA_OP_SINCE_64 VRDMA_UNUSED_OP
#else
#define VRDMA_OP_SINCE_64 VRDMA_NO_OP
#endif
#if VRDMA_RDMA_CORE_MAJOR >= 65
#define VRDMA_OP_SINCE_65 VRDMA_UNUSED_OP
#else
#define VRDMA_OP_SINCE_65 VRDMA_NO_OP
#endif

struct verbs_context_ops {
	int (*advise_mr)(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			 struct ibv_sge *sg_list, uint32_t num_sges);
	VRDMA_OP_SINCE_64(alloc_buf)
	struct ibv_dm *(*alloc_dm)(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
	VRDMA_OP_SINCE_59(alloc_dmah)
	struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd, enum ibv_mw_type type);
	struct ibv_mr *(*alloc_null_mr)(struct ibv_pd *pd);
	struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *context,
					      struct ibv_parent_domain_init_attr *attr);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	struct ibv_td *(*alloc_td)(struct ibv_context *context, struct ibv_td_init_attr *init_attr);
	void (*async_event)(struct ibv_context *context, struct ibv_async_event *event);
	vrdma_unused_op attach_counters_point_flow;
	int (*attach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
	int (*bind_mw)(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind);
	int (*close_xrcd)(struct ibv_xrcd *xrcd);
	void (*cq_event)(struct ibv_cq *cq);
	struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
	VRDMA_OP_SINCE_65(create_comp_cntr)
	vrdma_unused_op create_counters;
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe,
				    struct ibv_comp_channel *channel, int comp_vector);
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *context,
					  struct ibv_cq_init_attr_ex *init_attr);
	vrdma_unused_op create_flow;
	vrdma_unused_op create_flow_action_esp;
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *context,
				       struct ibv_qp_init_attr_ex *qp_init_attr_ex);
	vrdma_unused_op create_rwq_ind_table;
	struct ibv_srq *(*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr);
	struct ibv_srq *(*create_srq_ex)(struct ibv_context *context,
					 struct ibv_srq_init_attr_ex *srq_init_attr_ex);
	vrdma_unused_op create_wq;
	VRDMA_OP_SINCE_59(dealloc_dmah)
	int (*dealloc_mw)(struct ibv_mw *mw);
	int (*dealloc_pd)(struct ibv_pd *pd);
	int (*dealloc_td)(struct ibv_td *td);
	int (*dereg_mr)(struct verbs_mr *mr);
	int (*destroy_ah)(struct ibv_ah *ah);
	VRDMA_OP_SINCE_65(destroy_comp_cntr)
	vrdma_unused_op destroy_counters;
	int (*destroy_cq)(struct ibv_cq *cq);
	vrdma_unused_op destroy_flow;
	vrdma_unused_op destroy_flow_action;
	int (*destroy_qp)(struct ibv_qp *qp);
	vrdma_unused_op destroy_rwq_ind_table;
	int (*destroy_srq)(struct ibv_srq *srq);
	vrdma_unused_op destroy_wq;
	int (*detach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
	VRDMA_OP_SINCE_62(dm_export_dmabuf_fd)
	VRDMA_OP_SINCE_64(free_buf)
	void (*free_context)(struct ibv_context *context);
	int (*free_dm)(struct ibv_dm *dm);
	int (*get_srq_num)(struct ibv_srq *srq, uint32_t *srq_num);
	struct ibv_dm *(*import_dm)(struct ibv_context *context, uint32_t dm_handle);
	struct ibv_mr *(*import_mr)(struct ibv_pd *pd, uint32_t mr_handle);
	struct ibv_pd *(*import_pd)(struct ibv_context *context, uint32_t pd_handle);
	VRDMA_OP_SINCE_65(inc_comp_cntr)
	VRDMA_OP_SINCE_65(inc_err_comp_cntr)
	int (*modify_cq)(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
	vrdma_unused_op modify_flow_action_esp;
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
	vrdma_unused_op modify_qp_rate_limit;
	int (*modify_srq)(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask);
	vrdma_unused_op modify_wq;
	struct ibv_qp *(*open_qp)(struct ibv_context *context, struct ibv_qp_open_attr *attr);
	struct ibv_xrcd *(*open_xrcd)(struct ibv_context *context,
				      struct ibv_xrcd_init_attr *xrcd_init_attr);
	int (*poll_cq)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
	vrdma_unused_op post_srq_ops;
	int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr,
			     struct ibv_recv_wr **bad_recv_wr);
	VRDMA_OP_SINCE_65(qp_attach_comp_cntr)
	VRDMA_OP_SINCE_65(query_comp_cntr_caps)
	int (*query_device_ex)(struct ibv_context *context,
			       const struct ibv_query_device_ex_input *input,
			       struct ibv_device_attr_ex *attr, size_t attr_size);
	int (*query_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
	int (*query_port)(struct ibv_context *context, uint8_t port_num,
			  struct ibv_port_attr *port_attr);
	VRDMA_OP_SINCE_62(query_port_speed)
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			struct ibv_qp_init_attr *init_attr);
	int (*query_qp_data_in_order)(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
	int (*query_rt_values)(struct ibv_context *context, struct ibv_values_ex *values);
	int (*query_srq)(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr);
	VRDMA_OP_SINCE_65(read_comp_cntr)
	vrdma_unused_op read_counters;
	VRDMA_OP_SINCE_65(read_err_comp_cntr)
	struct ibv_mr *(*reg_dm_mr)(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
				    size_t length, unsigned int access);
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t length,
					uint64_t iova, int fd, int access);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va,
				 int access);
	VRDMA_OP_SINCE_59(reg_mr_ex)
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	int (*rereg_mr)(struct verbs_mr *mr, int flags, struct ibv_pd *pd, void *addr,
			size_t length, int access);
	int (*resize_cq)(struct ibv_cq *cq, int cqe);
	VRDMA_OP_SINCE_65(set_comp_cntr)
	int (*set_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
	VRDMA_OP_SINCE_65(set_err_comp_cntr)
	void (*unimport_dm)(struct ibv_dm *dm);
	void (*unimport_mr)(struct ibv_mr *mr);
	void (*unimport_pd)(struct ibv_pd *pd);
};
static_assert(sizeof(struct verbs_context_ops) == VRDMA_CONTEXT_OPS_SIZE, "verbs_context_ops");

/* Checks the index of some pointers in the table. */
#if VRDMA_RDMA_CORE_MAJOR < 59
#define VRDMA_CHECK_OP(op, index)                                                                  \
	static_assert(offsetof(struct verbs_context_ops, op) == (index) * sizeof(void *), #op)
VRDMA_CHECK_OP(alloc_parent_domain, 4);
VRDMA_CHECK_OP(create_cq_ex, 16);
VRDMA_CHECK_OP(create_srq, 22);
VRDMA_CHECK_OP(dealloc_pd, 26);
VRDMA_CHECK_OP(destroy_srq, 36);
VRDMA_CHECK_OP(free_context, 39);
VRDMA_CHECK_OP(import_mr, 43);
VRDMA_CHECK_OP(modify_srq, 49);
VRDMA_CHECK_OP(open_qp, 51);
VRDMA_CHECK_OP(post_srq_recv, 57);
VRDMA_CHECK_OP(query_port, 60);
VRDMA_CHECK_OP(query_srq, 64);
VRDMA_CHECK_OP(req_notify_cq, 69);
VRDMA_CHECK_OP(unimport_pd, 75);
#endif

/*
 * The commands of the uverbs ABI as the library takes them: a header, the kernel's structure, and
 * then the provider's additions. Answers are the kernel's structure alone.
 */
#define VRDMA_DECLARE_COMMAND(name, payload)                                                       \
	struct name {                                                                              \
		struct ib_uverbs_cmd_hdr hdr;                                                      \
		struct payload core_payload;                                                       \
	}
#define VRDMA_DECLARE_EXTENDED_COMMAND(name, payload)                                              \
	struct name {                                                                              \
		struct ib_uverbs_cmd_hdr hdr;                                                      \
		struct ib_uverbs_ex_cmd_hdr ex_hdr;                                                \
		struct payload core_payload;                                                       \
	}
VRDMA_DECLARE_COMMAND(ibv_get_context, ib_uverbs_get_context);
VRDMA_DECLARE_COMMAND(ibv_query_port, ib_uverbs_query_port);
VRDMA_DECLARE_COMMAND(ibv_alloc_pd, ib_uverbs_alloc_pd);
VRDMA_DECLARE_COMMAND(ibv_reg_mr, ib_uverbs_reg_mr);
VRDMA_DECLARE_COMMAND(ibv_rereg_mr, ib_uverbs_rereg_mr);
VRDMA_DECLARE_COMMAND(ibv_alloc_mw, ib_uverbs_alloc_mw);
VRDMA_DECLARE_EXTENDED_COMMAND(ibv_create_cq_ex, ib_uverbs_ex_create_cq);
VRDMA_DECLARE_COMMAND(ibv_resize_cq, ib_uverbs_resize_cq);
VRDMA_DECLARE_EXTENDED_COMMAND(ibv_modify_cq, ib_uverbs_ex_modify_cq);
VRDMA_DECLARE_COMMAND(ibv_create_srq, ib_uverbs_create_srq);
VRDMA_DECLARE_COMMAND(ibv_create_xsrq, ib_uverbs_create_xsrq);
VRDMA_DECLARE_COMMAND(ibv_open_xrcd, ib_uverbs_open_xrcd);
VRDMA_DECLARE_COMMAND(ibv_open_qp, ib_uverbs_open_qp);
VRDMA_DECLARE_COMMAND(ibv_query_srq, ib_uverbs_query_srq);
VRDMA_DECLARE_COMMAND(ibv_modify_srq, ib_uverbs_modify_srq);
VRDMA_DECLARE_COMMAND(ibv_create_qp, ib_uverbs_create_qp);
VRDMA_DECLARE_COMMAND(ibv_query_qp, ib_uverbs_query_qp);
VRDMA_DECLARE_COMMAND(ibv_modify_qp, ib_uverbs_modify_qp);
static_assert(sizeof(struct ibv_get_context) == 16, "ibv_get_context");
static_assert(sizeof(struct ibv_query_port) == 24, "ibv_query_port");
static_assert(sizeof(struct ibv_alloc_pd) == 16, "ibv_alloc_pd");
static_assert(sizeof(struct ibv_reg_mr) == 48, "ibv_reg_mr");
static_assert(sizeof(struct ibv_rereg_mr) == 56, "ibv_rereg_mr");
static_assert(sizeof(struct ibv_alloc_mw) == 24, "ibv_alloc_mw");
static_assert(sizeof(struct ibv_create_cq_ex) == 56, "ibv_create_cq_ex");
static_assert(sizeof(struct ibv_resize_cq) == 24, "ibv_resize_cq");
static_assert(sizeof(struct ibv_modify_cq) == 40, "ibv_modify_cq");
static_assert(sizeof(struct ibv_create_srq) == 40, "ibv_create_srq");
static_assert(sizeof(struct ibv_create_xsrq) == 56, "ibv_create_xsrq");
static_assert(sizeof(struct ibv_open_xrcd) == 24, "ibv_open_xrcd");
static_assert(sizeof(struct ibv_open_qp) == 40, "ibv_open_qp");
static_assert(sizeof(struct ibv_query_srq) == 24, "ibv_query_srq");
static_assert(sizeof(struct ibv_modify_srq) == 24, "ibv_modify_srq");
static_assert(sizeof(struct ibv_create_qp) == 64, "ibv_create_qp");
static_assert(sizeof(struct ibv_query_qp) == 24, "ibv_query_qp");
static_assert(sizeof(struct ibv_modify_qp) == 120, "ibv_modify_qp");

void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd, size_t alloc_size,
				    struct verbs_context *context_offset, uint32_t driver_id);
void verbs_uninit_context(struct verbs_context *context);
void verbs_set_ops(struct verbs_context *context, const struct verbs_context_ops *ops);

struct ibv_fd_arr;
int ibv_cmd_get_context(struct verbs_context *context, struct ibv_get_context *cmd, size_t cmd_size,
#if VRDMA_RDMA_CORE_MAJOR >= 57
			struct ibv_fd_arr *fd_arr,
#endif
			struct ib_uverbs_get_context_resp *resp, size_t resp_size);
int ibv_cmd_query_device_any(struct ibv_context *context,
			     const struct ibv_query_device_ex_input *input,
			     struct ibv_device_attr_ex *attr, size_t attr_size,
			     struct ib_uverbs_ex_query_device_resp *resp, size_t *resp_size);
int ibv_cmd_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
		       struct ibv_query_port *cmd, size_t cmd_size);
int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, struct ibv_alloc_pd *cmd,
		     size_t cmd_size, struct ib_uverbs_alloc_pd_resp *resp, size_t resp_size);
int ibv_cmd_dealloc_pd(struct ibv_pd *pd);
int ibv_cmd_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access,
		   struct verbs_mr *mr, struct ibv_reg_mr *cmd, size_t cmd_size,
		   struct ib_uverbs_reg_mr_resp *resp, size_t resp_size);
int ibv_cmd_rereg_mr(struct verbs_mr *mr, uint32_t flags, void *addr, size_t length,
		     uint64_t hca_va, int access, struct ibv_pd *pd, struct ibv_rereg_mr *cmd,
		     size_t cmd_size, struct ib_uverbs_rereg_mr_resp *resp, size_t resp_size);
int ibv_cmd_dereg_mr(struct verbs_mr *mr);
int ibv_cmd_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type, struct ibv_mw *mw,
		     struct ibv_alloc_mw *cmd, size_t cmd_size,
		     struct ib_uverbs_alloc_mw_resp *resp, size_t resp_size);
int ibv_cmd_dealloc_mw(struct ibv_mw *mw);
int ibv_cmd_query_mr(struct ibv_pd *pd, struct verbs_mr *mr, uint32_t mr_handle);
struct verbs_create_cq_prov_attr;
int ibv_cmd_create_cq_ex(struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr,
#if VRDMA_RDMA_CORE_MAJOR >= 59
			 struct verbs_create_cq_prov_attr *prov_attr,
#endif
			 struct verbs_cq *cq, struct ibv_create_cq_ex *cmd, size_t cmd_size,
			 struct ib_uverbs_ex_create_cq_resp *resp, size_t resp_size,
			 uint32_t cmd_flags);
int ibv_cmd_resize_cq(struct ibv_cq *cq, int cqe, struct ibv_resize_cq *cmd, size_t cmd_size,
		      struct ib_uverbs_resize_cq_resp *resp, size_t resp_size);
int ibv_cmd_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr, struct ibv_modify_cq *cmd,
		      size_t cmd_size);
int ibv_cmd_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		      struct ibv_sge *sg_list, uint32_t num_sge);
struct ibv_command_buffer;
int ibv_cmd_alloc_dm(struct ibv_context *context, const struct ibv_alloc_dm_attr *attr,
		     struct verbs_dm *dm, struct ibv_command_buffer *link);
int ibv_cmd_free_dm(struct verbs_dm *dm);
int ibv_cmd_reg_dm_mr(struct ibv_pd *pd, struct verbs_dm *dm, uint64_t offset, size_t length,
		      unsigned int access, struct verbs_mr *mr, struct ibv_command_buffer *link);
int ibv_cmd_destroy_cq(struct ibv_cq *cq);
int ibv_cmd_create_srq(struct ibv_pd *pd, struct ibv_srq *srq, struct ibv_srq_init_attr *attr,
		       struct ibv_create_srq *cmd, size_t cmd_size,
		       struct ib_uverbs_create_srq_resp *resp, size_t resp_size);
int ibv_cmd_create_srq_ex(struct ibv_context *context, struct verbs_srq *srq,
			  struct ibv_srq_init_attr_ex *attr, struct ibv_create_xsrq *cmd,
			  size_t cmd_size, struct ib_uverbs_create_srq_resp *resp,
			  size_t resp_size);
int ibv_cmd_open_xrcd(struct ibv_context *context, struct verbs_xrcd *xrcd, int xrcd_size,
		      struct ibv_xrcd_init_attr *attr, struct ibv_open_xrcd *cmd, size_t cmd_size,
		      struct ib_uverbs_open_xrcd_resp *resp, size_t resp_size);
int ibv_cmd_close_xrcd(struct verbs_xrcd *xrcd);
int ibv_cmd_open_qp(struct ibv_context *context, struct verbs_qp *qp, int qp_size,
		    struct ibv_qp_open_attr *attr, struct ibv_open_qp *cmd, size_t cmd_size,
		    struct ib_uverbs_create_qp_resp *resp, size_t resp_size);
int ibv_cmd_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int attr_mask,
		       struct ibv_modify_srq *cmd, size_t cmd_size);
int ibv_cmd_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, struct ibv_query_srq *cmd,
		      size_t cmd_size);
int ibv_cmd_destroy_srq(struct ibv_srq *srq);
int ibv_cmd_create_qp_ex(struct ibv_context *context, struct verbs_qp *qp,
			 struct ibv_qp_init_attr_ex *attr, struct ibv_create_qp *cmd,
			 size_t cmd_size, struct ib_uverbs_create_qp_resp *resp, size_t resp_size);
int ibv_cmd_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		     struct ibv_qp_init_attr *init_attr, struct ibv_query_qp *cmd, size_t cmd_size);
int ibv_cmd_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		      struct ibv_modify_qp *cmd, size_t cmd_size);
int ibv_cmd_destroy_qp(struct ibv_qp *qp);
int ibv_cmd_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int ibv_cmd_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int ibv_cmd_create_ah(struct ibv_pd *pd, struct ibv_ah *ah, struct ibv_ah_attr *attr,
		      struct ib_uverbs_create_ah_resp *resp, size_t resp_size);
int ibv_cmd_destroy_ah(struct ibv_ah *ah);
struct ibv_context *verbs_open_device(struct ibv_device *device, void *private_data);
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

#endif /* VRDMA_RDMA_CORE_TREE */

#ifndef container_of
#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))
#endif

/*
 * load_guard.c: registers the provider only in a libibverbs that this header describes. rdma-core's
 * own providers, which are always of its version, do without.
 */
#ifdef VRDMA_PRIVATE_ABI
bool vrdma_libibverbs_fits(void);
void vrdma_register_guarded(const struct verbs_device_ops *ops);

#undef PROVIDER_DRIVER
#define PROVIDER_DRIVER(provider_name, ops)                                                        \
	__attribute__((constructor)) static void provider_name##_register(void)                    \
	{                                                                                          \
		vrdma_register_guarded(&(ops));                                                    \
	}                                                                                          \
	static_assert(1, "a semicolon follows")
#endif

/* Parameters that a version added are absent or NULL: inherited files, the provider's CQ buffer. */
#if VRDMA_RDMA_CORE_MAJOR >= 57
#define VRDMA_NO_FILES NULL,
#else
#define VRDMA_NO_FILES
#endif
#if VRDMA_RDMA_CORE_MAJOR >= 59
#define VRDMA_NO_PROV_ATTR NULL,
#else
#define VRDMA_NO_PROV_ATTR
#endif

static inline int vrdma_cmd_get_context(struct verbs_context *context, struct ibv_get_context *cmd,
					size_t cmd_size, struct ib_uverbs_get_context_resp *resp,
					size_t resp_size)
{
	return ibv_cmd_get_context(context, cmd, cmd_size, VRDMA_NO_FILES resp, resp_size);
}

static inline int vrdma_cmd_create_cq_ex(struct ibv_context *context,
					 const struct ibv_cq_init_attr_ex *attr,
					 struct verbs_cq *cq, struct ibv_create_cq_ex *cmd,
					 size_t cmd_size, struct ib_uverbs_ex_create_cq_resp *resp,
					 size_t resp_size)
{
	return ibv_cmd_create_cq_ex(context, attr, VRDMA_NO_PROV_ATTR cq, cmd, cmd_size, resp,
				    resp_size, 0);
}

#endif /* VRDMA_RDMA_CORE_H */
