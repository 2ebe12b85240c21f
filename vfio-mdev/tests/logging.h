/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A VM that asks which of its memory the device has written: VFIO's DMA logging.
 */
#ifndef VRDMA_VFIO_MDEV_TESTS_LOGGING_H
#define VRDMA_VFIO_MDEV_TESTS_LOGGING_H

#include <cstdint>
#include <vector>

#include "vm.h"

/* Ends the case if the device has no log: the kernel decides (compat.h). */
void need_log(const Vm& vm);
/* Each returns 0, or the errno. */
int start_log(const Vm& vm, uint64_t iova, uint64_t size);
int stop_log(const Vm& vm);
/* Sets the bits of the pages that were written since the last report. */
int report_log(const Vm& vm, uint64_t iova, uint64_t size, std::vector<uint64_t>& pages);

/* The same, for at most 64 pages. */
uint64_t logged_pages(const Vm& vm, uint64_t iova, uint64_t size);

#endif /* VRDMA_VFIO_MDEV_TESTS_LOGGING_H */
