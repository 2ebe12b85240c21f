// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device's counters, which it reports in three ways: under its own names (hw_counters, "rdma
 * statistic"); as the counters that InfiniBand's performance management has for a port (counters),
 * which ib_core queries by a MAD that never leaves the machine; and per QP among its details ("rdma
 * resource show qp -dd").
 */
#include <rdma/ib_mad.h>
#include <rdma/ib_pma.h>
#include <rdma/restrack.h>

#include "vrdma_ib.h"

/* clang-format off */
#define VRDMA_STAT_DESC(counter, text, meaning) \
	[counter].name = text,
/* clang-format on */

static const struct rdma_stat_desc vrdma_counter_descs[] = { VRDMA_COUNTER_LIST(VRDMA_STAT_DESC) };

static_assert(ARRAY_SIZE(vrdma_counter_descs) == VRDMA_NUM_COUNTERS);

struct rdma_hw_stats *vrdma_alloc_hw_port_stats(struct ib_device *ibdev, u32 port)
{
	return rdma_alloc_hw_stats_struct(vrdma_counter_descs, VRDMA_NUM_COUNTERS,
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

/*
 * Returns the counts outside all counter sets, because ib_core adds the sets'. The sets are read
 * first, so that the total includes all that they have counted.
 */
int vrdma_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibdev);
	struct vrdma_counters sets, all;
	int err, i;

	if (!port)
		return -EINVAL;
	err = vrdma_cmd_query_counters(dev, 0, VRDMA_ALL_COUNTER_SETS, &sets);
	if (!err)
		err = vrdma_cmd_query_counters(dev, 0, 0, &all);
	if (err)
		return err;
	for (i = 0; i < VRDMA_NUM_COUNTERS; i++)
		stats->value[i] = le64_to_cpu(all.value[i]) - le64_to_cpu(sets.value[i]);
	return VRDMA_NUM_COUNTERS;
}

/*
 * Any user may ask for any QP's counters at any rate, and reading them takes several commands. So
 * they are read for one QP at a time, and at most once per this time for each QP.
 */
#define VRDMA_QP_COUNTERS_LIFESPAN msecs_to_jiffies(100)

/* Under counters_lock. NULL if there are none. */
static const struct vrdma_counters *vrdma_qp_counters(struct vrdma_dev *dev, struct vrdma_qp *qp)
{
	if (qp->counters && time_before(jiffies, qp->counters_until))
		return qp->counters;
	if (!qp->counters)
		qp->counters = kzalloc(sizeof(*qp->counters), GFP_KERNEL);
	if (!qp->counters)
		return NULL;
	qp->counters_until = jiffies + VRDMA_QP_COUNTERS_LIFESPAN;
	if (vrdma_cmd_query_counters(dev, qp->ibqp.qp_num, 0, qp->counters)) {
		vrdma_qp_counters_free(qp);
		return NULL;
	}
	return qp->counters;
}

void vrdma_qp_counters_free(struct vrdma_qp *qp)
{
	kfree(qp->counters);
	qp->counters = NULL;
}

static bool vrdma_put_counters(struct sk_buff *msg, const struct vrdma_counters *counters)
{
	int i;

	for (i = 0; i < VRDMA_NUM_COUNTERS; i++) {
		u64 value = le64_to_cpu(counters->value[i]);

		if (value && rdma_nl_put_driver_u64(msg, vrdma_counter_descs[i].name, value))
			return false;
	}
	return true;
}

/* Adds the QP's counters that are not zero; returns false if there is no room. */
bool vrdma_fill_qp_counters(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibqp->device);
	const struct vrdma_counters *counters;
	bool fit = true;

	mutex_lock(&dev->counters_lock);
	counters = vrdma_qp_counters(dev, to_vrdma_qp(ibqp));
	if (counters)
		fit = vrdma_put_counters(msg, counters);
	mutex_unlock(&dev->counters_lock);
	return fit;
}

/* Data is counted in words of four bytes (IBA 16.1.4.1). */
static __be64 vrdma_pma_words(const struct vrdma_counters *counters, enum vrdma_counter bytes)
{
	return cpu_to_be64(le64_to_cpu(counters->value[bytes]) / 4);
}

static __be64 vrdma_pma_count(const struct vrdma_counters *counters, enum vrdma_counter which)
{
	return cpu_to_be64(le64_to_cpu(counters->value[which]));
}

static void vrdma_pma_ext(const struct vrdma_counters *counters,
			  struct ib_pma_portcounters_ext *ext)
{
	ext->port_xmit_data = vrdma_pma_words(counters, VRDMA_COUNTER_TX_BYTES);
	ext->port_rcv_data = vrdma_pma_words(counters, VRDMA_COUNTER_RX_BYTES);
	ext->port_xmit_packets = vrdma_pma_count(counters, VRDMA_COUNTER_TX_MESSAGES);
	ext->port_rcv_packets = vrdma_pma_count(counters, VRDMA_COUNTER_RX_MESSAGES);
	ext->port_unicast_xmit_packets = ext->port_xmit_packets;
	ext->port_unicast_rcv_packets = ext->port_rcv_packets;
}

/* The old counters are narrow, and saturate. */
static void vrdma_pma_old(const struct vrdma_counters *counters, struct ib_pma_portcounters *old)
{
	struct ib_pma_portcounters_ext ext = {};
	u64 refused = le64_to_cpu(counters->value[VRDMA_COUNTER_REFUSED_REQUESTS]);

	vrdma_pma_ext(counters, &ext);
	old->port_xmit_data = cpu_to_be32(min_t(u64, U32_MAX, be64_to_cpu(ext.port_xmit_data)));
	old->port_rcv_data = cpu_to_be32(min_t(u64, U32_MAX, be64_to_cpu(ext.port_rcv_data)));
	old->port_xmit_packets =
		cpu_to_be32(min_t(u64, U32_MAX, be64_to_cpu(ext.port_xmit_packets)));
	old->port_rcv_packets = cpu_to_be32(min_t(u64, U32_MAX, be64_to_cpu(ext.port_rcv_packets)));
	old->port_rcv_errors = cpu_to_be16(min_t(u64, U16_MAX, refused));
}

/* Handles performance management only; the MAD layer handles all else. */
int vrdma_process_mad(struct ib_device *ibdev, int flags, u32 port, const struct ib_wc *wc,
		      const struct ib_grh *grh, const struct ib_mad *in, struct ib_mad *out,
		      size_t *out_size, u16 *out_pkey_index)
{
	const struct ib_mad_hdr *hdr = &in->mad_hdr;
	struct ib_class_port_info info = { .capability_mask = IB_PMA_CLASS_CAP_EXT_WIDTH };
	void *answer = (u8 *)out + offsetof(struct ib_pma_mad, data);
	struct vrdma_counters counters;

	if (hdr->mgmt_class != IB_MGMT_CLASS_PERF_MGMT || hdr->method != IB_MGMT_METHOD_GET)
		return IB_MAD_RESULT_SUCCESS;

	if (vrdma_cmd_query_counters(to_vrdma_dev(ibdev), 0, 0, &counters))
		return IB_MAD_RESULT_FAILURE;

	memset(answer, 0, sizeof(*out) - offsetof(struct ib_pma_mad, data));
	switch (hdr->attr_id) {
	case IB_PMA_CLASS_PORT_INFO:
		memcpy(answer, &info, sizeof(info));
		break;
	case IB_PMA_PORT_COUNTERS:
		vrdma_pma_old(&counters, answer);
		break;
	case IB_PMA_PORT_COUNTERS_EXT:
		vrdma_pma_ext(&counters, answer);
		break;
	default:
		return IB_MAD_RESULT_SUCCESS;
	}
	out->mad_hdr = *hdr;
	out->mad_hdr.method = IB_MGMT_METHOD_GET_RESP;
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}
