// SPDX-License-Identifier: GPL-2.0-only
/* A device can tell VFIO which memory it wrote. Kernels without IOMMUFD_DRIVER have a stub. */
#include <linux/types.h>
#include <linux/iova_bitmap.h>

#ifdef VRDMA_NEW
void iova_bitmap_set(struct iova_bitmap *bitmap, unsigned long iova, size_t length)
{
}
#else
static inline void iova_bitmap_set(struct iova_bitmap *bitmap, unsigned long iova, size_t length);
#endif
