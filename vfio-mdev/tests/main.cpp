// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * vfio_mdev_test [FILTER]: drives vrdma_mdev.ko from both sides, as mediator and as VM. Needs root,
 * the loaded module, and vfio_iommu_type1. Does not touch other HCAs.
 */
#include "harness.h"
#include "mediator.h"

int main(int argc, char** argv) {
    return harness::run(argc > 1 ? argv[1] : "", remove_test_devices) == 0 ? EXIT_SUCCESS
                                                                           : EXIT_FAILURE;
}
