// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counters of sets of QPs. ib_core binds QPs to a counter: one by one ("rdma statistic qp bind"),
 * or all of a type or a process ("rdma statistic qp set link ... auto"). Each counter is a counter
 * set of the device. The port's own counters exclude those of the sets (vrdma_get_hw_stats),
 * because ib_core adds them.
 */
#include "vrdma_ib.h"

struct rdma_hw_stats *vrdma_counter_alloc_stats(struct rdma_counter *counter)
{
	return vrdma_alloc_hw_port_stats(counter->device, counter->port);
}

/*
 * The counter's first QP creates its set. The set's number is the counter's id for users from then
 * on.
 */
int vrdma_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibqp->device);
	bool first = !counter->id;
	int err;

	if (first) {
		err = vrdma_cmd_alloc_counter_set(dev, &counter->id);
		if (err)
			return err;
	}
	err = vrdma_cmd_bind_counter_set(dev, ibqp->qp_num, counter->id);
	if (!err) {
		ibqp->counter = counter;
		return 0;
	}
	if (first) {
		vrdma_counter_dealloc(counter);
		counter->id = 0;
	}
	return err;
}

/*
 * A failed device has forgotten the set. When the counter goes, ib_core reads its last values, so
 * the next read must ask the device.
 */
int vrdma_counter_unbind_qp(struct ib_qp *ibqp)
{
	struct vrdma_dev *dev = to_vrdma_dev(ibqp->device);
	int err;

	err = vrdma_cmd_bind_counter_set(dev, ibqp->qp_num, 0);
	if (err && !vrdma_dev_failed(dev))
		return err;
	ibqp->counter->stats->timestamp = 0;
	ibqp->counter = NULL;
	return 0;
}

int vrdma_counter_dealloc(struct rdma_counter *counter)
{
	if (!counter->id)
		return 0;
	return vrdma_cmd_destroy(to_vrdma_dev(counter->device), VRDMA_ADMIN_DEALLOC_COUNTER_SET,
				 counter->id);
}

/*
 * Under the counter's lock. Any user may ask, so the device is asked only when the values expire.
 */
int vrdma_counter_update_stats(struct rdma_counter *counter)
{
	struct rdma_hw_stats *stats = counter->stats;
	struct vrdma_counters counters;
	int err, i;

	if (stats->timestamp && time_before(jiffies, stats->timestamp + stats->lifespan))
		return 0;
	err = vrdma_cmd_query_counters(to_vrdma_dev(counter->device), 0, counter->id, &counters);
	if (err)
		return err;
	for (i = 0; i < VRDMA_NUM_COUNTERS; i++)
		stats->value[i] = le64_to_cpu(counters.value[i]);
	stats->timestamp = jiffies;
	return 0;
}
