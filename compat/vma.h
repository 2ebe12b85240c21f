/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions for mappings that older kernels lack.
 */
#ifndef VRDMA_COMPAT_VMA_H
#define VRDMA_COMPAT_VMA_H

#include <linux/mm.h>

#include "probed.h"

#if !VRDMA_HAVE_VM_FLAGS_SET
static inline void vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags |= flags;
}

static inline void vm_flags_clear(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags &= ~flags;
}
#endif

#endif /* VRDMA_COMPAT_VMA_H */
