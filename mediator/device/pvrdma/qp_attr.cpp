// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/pvrdma/qp_attr.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <iterator>

namespace vrdma::pvrdma {
namespace {

std::uint8_t narrow(std::uint32_t value) noexcept {
    return static_cast<std::uint8_t>(std::min<std::uint32_t>(value, UINT8_MAX));
}

vrdma_av path_from_guest(const pvrdma_path& path) noexcept {
    vrdma_av av{};
    std::ranges::copy(path.dgid, std::begin(av.dgid));
    std::ranges::copy(path.dmac, std::begin(av.dmac));
    av.flow_label = path.flow_label & VRDMA_AV_FLOW_LABEL;
    av.sgid_index = path.sgid_index;
    av.hop_limit = path.hop_limit;
    av.traffic_class = path.traffic_class;
    av.sl = path.sl;
    av.port_num = path.port;
    return av;
}

pvrdma_path path_to_guest(const vrdma_av& av) noexcept {
    constexpr std::uint8_t has_grh = 1;
    pvrdma_path path{};
    std::ranges::copy(av.dgid, std::begin(path.dgid));
    std::ranges::copy(av.dmac, std::begin(path.dmac));
    path.flow_label = av.flow_label;
    path.sgid_index = av.sgid_index;
    path.hop_limit = av.hop_limit;
    path.traffic_class = av.traffic_class;
    path.vlan = PVRDMA_NO_VLAN;
    path.sl = av.sl;
    path.flags = has_grh;
    path.port = av.port_num;
    return path;
}

} // namespace

vrdma_qp_attr from_guest(const pvrdma_qp_attr& attr, std::uint32_t attr_mask) noexcept {
    vrdma_qp_attr to{};
    to.attr_mask = attr_mask;
    to.state = narrow(attr.state);
    to.cur_state = narrow(attr.cur_state);
    to.path_mtu = narrow(attr.path_mtu);
    to.port_num = attr.port;
    to.qkey = attr.qkey;
    to.rq_psn = attr.rq_psn;
    to.sq_psn = attr.sq_psn;
    to.dest_qpn = attr.dest_qpn;
    to.access_flags = attr.access_flags;
    to.timeout = attr.timeout;
    to.retry_cnt = attr.retry_cnt;
    to.rnr_retry = attr.rnr_retry;
    to.min_rnr_timer = attr.min_rnr_timer;
    to.max_rd_atomic = attr.max_rd_atomic;
    to.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    to.sq_drained_notify = attr.sq_drained_notify;
    to.pkey_index = attr.pkey_index;
    if ((attr_mask & IBV_QP_AV) != 0) {
        to.av = path_from_guest(attr.path);
    }
    return to;
}

pvrdma_qp_attr to_guest(const vrdma_qp_attr& attr) noexcept {
    pvrdma_qp_attr to{};
    to.state = to.cur_state = attr.state;
    to.path_mtu = attr.path_mtu;
    to.qkey = attr.qkey;
    to.rq_psn = attr.rq_psn;
    to.sq_psn = attr.sq_psn;
    to.dest_qpn = attr.dest_qpn;
    to.access_flags = attr.access_flags;
    to.pkey_index = attr.pkey_index;
    to.sq_drained_notify = attr.sq_drained_notify;
    to.sq_draining = attr.sq_draining;
    to.max_rd_atomic = attr.max_rd_atomic;
    to.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    to.min_rnr_timer = attr.min_rnr_timer;
    to.port = attr.port_num;
    to.timeout = attr.timeout;
    to.retry_cnt = attr.retry_cnt;
    to.rnr_retry = attr.rnr_retry;
    to.path = path_to_guest(attr.av);
    return to;
}

} // namespace vrdma::pvrdma
