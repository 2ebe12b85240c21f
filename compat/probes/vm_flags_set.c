// SPDX-License-Identifier: GPL-2.0-only
/* Functions change the flags of a mapping, which are otherwise constant. */
#include <linux/mm.h>

static inline void probe(struct vm_area_struct *vma)
{
#ifdef VRDMA_NEW
	vm_flags_set(vma, VM_IO);
	vm_flags_clear(vma, VM_MAYWRITE);
#else
	vma->vm_flags |= VM_IO;
	vma->vm_flags &= ~VM_MAYWRITE;
#endif
}
