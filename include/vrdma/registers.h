/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The registers from the driver's side, for both drivers of the PCI function: the function's
 * identity, and the values that a driver writes before it enables the function. Each driver has a
 * struct vrdma_function and the two functions that are declared first. A function that is gone
 * reads as ones.
 */
#ifndef VRDMA_REGISTERS_H
#define VRDMA_REGISTERS_H

#include <linux/errno.h>

#include "device.h"

struct vrdma_function;

#ifdef __cplusplus
extern "C" {
#endif

__u32 vrdma_read(struct vrdma_function *fn, enum vrdma_register reg);
void vrdma_write(struct vrdma_function *fn, enum vrdma_register reg, __u32 value);

#ifdef __cplusplus
}
#endif

/* The identity changes at a reset only. */
struct vrdma_identity {
	__u32 version;
	__u32 num_doorbell_pages;
	__u32 num_vectors;
	__u8 mac[6];
};

/* 0, or -ENODEV if this is no vrdma function, or one of another major version. */
static inline int vrdma_read_identity(struct vrdma_function *fn, struct vrdma_identity *id)
{
	__u32 mac_low, mac_high;
	int i;

	if (vrdma_read(fn, VRDMA_REG_MAGIC) != VRDMA_MAGIC)
		return -ENODEV;
	id->version = vrdma_read(fn, VRDMA_REG_VERSION);
	if (VRDMA_GET(VRDMA_VERSION_MAJOR, id->version) !=
	    VRDMA_GET(VRDMA_VERSION_MAJOR, VRDMA_VERSION))
		return -ENODEV;

	id->num_doorbell_pages = vrdma_read(fn, VRDMA_REG_DOORBELL_PAGES);
	id->num_vectors = vrdma_read(fn, VRDMA_REG_VECTORS);
	mac_low = vrdma_read(fn, VRDMA_REG_MAC_LOW);
	mac_high = vrdma_read(fn, VRDMA_REG_MAC_HIGH);
	for (i = 0; i < 4; i++)
		id->mac[i] = (__u8)(mac_low >> 8 * i);
	for (i = 0; i < 2; i++)
		id->mac[4 + i] = (__u8)(mac_high >> 8 * i);
	return 0;
}

/*
 * MSI-X vector 0 is for async events and STATUS. The next one is for the admin queue, so that the
 * driver need not read STATUS for an answer to a command. The rest are for completions. With fewer
 * vectors, the last one is shared.
 */
#define VRDMA_FIRST_COMP_VECTOR 2

static inline __u32 vrdma_admin_vector(__u32 num_vectors)
{
	return num_vectors > 1 ? 1 : 0;
}

static inline __u32 vrdma_comp_vector(__u32 num_vectors, __u32 i)
{
	__u32 vector = VRDMA_FIRST_COMP_VECTOR + i;

	return vector < num_vectors ? vector : num_vectors - 1;
}

static inline __u32 vrdma_num_comp_vectors(__u32 num_vectors)
{
	return num_vectors > VRDMA_FIRST_COMP_VECTOR ? num_vectors - VRDMA_FIRST_COMP_VECTOR : 1;
}

static inline void vrdma_write_address(struct vrdma_function *fn, enum vrdma_register low,
				       enum vrdma_register high, __u64 address)
{
	vrdma_write(fn, low, (__u32)address);
	vrdma_write(fn, high, (__u32)(address >> 32));
}

/* The function's queues; addresses are bus addresses. */
struct vrdma_function_queues {
	__u64 asq;
	__u64 acq;
	__u64 status_page;
	__u32 depth;
	__u32 vector;
};

/* The caller must wait until STATUS shows the result. */
static inline void vrdma_write_enable(struct vrdma_function *fn,
				      const struct vrdma_function_queues *queues)
{
	vrdma_write_address(fn, VRDMA_REG_ASQ_LOW, VRDMA_REG_ASQ_HIGH, queues->asq);
	vrdma_write_address(fn, VRDMA_REG_ACQ_LOW, VRDMA_REG_ACQ_HIGH, queues->acq);
	vrdma_write(fn, VRDMA_REG_AQ_DEPTH, queues->depth);
	vrdma_write(fn, VRDMA_REG_AQ_VECTOR, queues->vector);
	vrdma_write_address(fn, VRDMA_REG_STATUS_PAGE_LOW, VRDMA_REG_STATUS_PAGE_HIGH,
			    queues->status_page);
	vrdma_write(fn, VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE);
}

#endif /* VRDMA_REGISTERS_H */
