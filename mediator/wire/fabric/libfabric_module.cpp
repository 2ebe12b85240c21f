// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/libfabric.h"

extern "C" {
extern const vrdma::wire::fabric::Libfabric vrdma_libfabric;
const vrdma::wire::fabric::Libfabric vrdma_libfabric{
    .dupinfo = ::fi_dupinfo,
    .freeinfo = ::fi_freeinfo,
    .getinfo = ::fi_getinfo,
    .fabric = ::fi_fabric,
};
}
