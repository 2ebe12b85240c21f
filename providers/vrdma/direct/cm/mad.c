/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <string.h>

#include "cm.h"

void vrdma_mad_init(struct vrdma_mad *mad, enum vrdma_cm_attribute attribute, uint64_t tid)
{
	memset(mad, 0, sizeof(*mad));
	mad->header = (struct vrdma_mad_header){
		.base_version = VRDMA_MAD_BASE_VERSION,
		.mgmt_class = VRDMA_MAD_CLASS_CM,
		.class_version = VRDMA_MAD_CM_VERSION,
		.method = VRDMA_MAD_SEND,
		.tid = htobe64(tid),
		.attribute = htobe16(attribute),
	};
}
