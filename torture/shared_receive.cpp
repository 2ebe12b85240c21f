// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "torture/shared_receive.h"

#include <fcntl.h>

namespace vrdma::torture {

Srq made_srq(ibv_pd* pd) {
    ibv_srq_init_attr attr{};
    attr.attr = {.max_wr = Arena::receives, .max_sge = srq_sges, .srq_limit = 0};
    return Srq{made(::ibv_create_srq(pd, &attr), "ibv_create_srq")};
}

Xrcd made_xrcd(const Device& device) {
    ibv_xrcd_init_attr attr{};
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = -1;
    attr.oflags = O_CREAT;
    return Xrcd{made(ibv_open_xrcd(device.context(), &attr), "ibv_open_xrcd")};
}

Srq made_xrc_srq(const Device& device, ibv_pd* pd, ibv_xrcd* xrcd, ibv_cq* cq) {
    ibv_srq_init_attr_ex attr{};
    attr.attr = {.max_wr = Arena::receives, .max_sge = srq_sges, .srq_limit = 0};
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ;
    attr.srq_type = IBV_SRQT_XRC;
    attr.pd = pd;
    attr.xrcd = xrcd;
    attr.cq = cq;
    return Srq{made(ibv_create_srq_ex(device.context(), &attr), "ibv_create_srq_ex")};
}

} // namespace vrdma::torture
