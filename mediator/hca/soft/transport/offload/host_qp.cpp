// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/offload/host_qp.h"

#include <algorithm>

namespace vrdma::hca::soft::offload {
namespace {

constexpr unsigned region_access = IBV_ACCESS_LOCAL_WRITE;
constexpr std::uint32_t datagram_room = VRDMA_UD_GRH_SIZE + hca::max_mtu;

Result<ibv_qp_type> type_of(QpType type) {
    switch (type) {
        case QpType::rc:
            return IBV_QPT_RC;
        case QpType::uc:
            return IBV_QPT_UC;
        case QpType::ud:
            return IBV_QPT_UD;
        default:
            return fail(std::errc::operation_not_supported);
    }
}

// A QP without a queue gets one of one entry, as HCAs want it.
std::uint32_t posted_of(std::uint32_t depth, int most) {
    return std::clamp(std::min<std::uint32_t>(depth, static_cast<std::uint32_t>(most)), 1u,
                      HostQp::most_posted);
}

// Datagrams are copied, and have one piece. Other messages have the guest's pieces.
ibv_qp_cap caps_of(const HostQp& host, const QpSpec& spec) {
    const bool copied = spec.type == QpType::ud;
    return {.max_send_wr = host.sends,
            .max_recv_wr = host.receives,
            .max_send_sge = copied ? 1 : std::max<std::uint32_t>(spec.max_send_sge, 1),
            .max_recv_sge = copied ? 1 : std::max<std::uint32_t>(spec.max_recv_sge, 1),
            .max_inline_data = host.max_inline};
}

Result<host::OwnedQp> create_one(const HostQp& host, const QpSpec& spec, ibv_qp_type type) {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = host.completions.cq();
    attr.qp_type = type;
    attr.sq_sig_all = 1; // each completion gives back the place of its WQE
    attr.cap = caps_of(host, spec);
    return host::create_qp(*host.pd, attr);
}

// An HCA may have less room for inline data than guests.
Result<> create_queues(HostQp& host, const QpSpec& spec, ibv_qp_type type) {
    host.max_inline = spec.type == QpType::ud ? 0 : spec.max_inline;
    auto qp = create_one(host, spec, type);
    if (!qp && host.max_inline != 0) {
        host.max_inline = 0;
        qp = create_one(host, spec, type);
    }
    if (!qp) {
        return fail(qp.error());
    }
    host.qp = std::move(*qp);
    return {};
}

std::size_t buffer_size(const HostQp& host, const QpSpec& spec) {
    if (spec.type == QpType::ud) {
        return std::size_t{host.sends} * hca::max_mtu + std::size_t{host.receives} * datagram_room;
    }
    return host.max_inline < spec.max_inline ? std::size_t{host.sends} * spec.max_inline : 0;
}

} // namespace

Result<Buffer> Buffer::make(const host::Pd& pd, std::size_t bytes) {
    Buffer buffer{std::make_unique<std::byte[]>(bytes), {}};
    auto mr =
        host::register_memory(pd, buffer.bytes.get(), bytes,
                              reinterpret_cast<std::uintptr_t>(buffer.bytes.get()), region_access);
    if (!mr) {
        return fail(mr.error());
    }
    buffer.mr = std::move(*mr);
    return buffer;
} // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the buffer owns its bytes

Result<HostQp> HostQp::create(const host::SharedDevice& device, SharedPd pd,
                              Completions& completions, const QpSpec& spec) {
    const auto type = type_of(spec.type);
    if (!type || spec.srq != Srqn{}) {
        return fail(std::errc::operation_not_supported);
    }
    const std::uint32_t limit = spec.type == QpType::ud ? most_datagrams : most_posted;
    HostQp host{.pd = std::move(pd)};
    host.sends = std::min(posted_of(spec.sq_depth, device->attr().max_qp_wr), limit);
    host.receives = std::min(posted_of(spec.rq_depth, device->attr().max_qp_wr), limit);
    auto share = completions.take(host.sends + host.receives);
    if (!share) {
        return fail(share.error());
    }
    host.completions = std::move(*share);
    if (const auto made = create_queues(host, spec, *type); !made) {
        return fail(made.error());
    }
    if (const std::size_t bytes = buffer_size(host, spec); bytes != 0) {
        auto buffer = Buffer::make(*host.pd, bytes);
        if (!buffer) {
            return fail(buffer.error());
        }
        host.buffer = std::move(*buffer);
    }
    return host;
}

Result<> HostQp::reset() const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RESET;
    return modify(attr, IBV_QP_STATE);
}

ibv_ah_attr host_path_of(const SliceCore& slice, const vrdma_av& av, std::uint8_t path) {
    constexpr unsigned dscp_shift = 2;
    ibv_ah_attr to{};
    std::ranges::copy(av.dgid, to.grh.dgid.raw);
    to.grh.flow_label = av.flow_label;
    to.grh.sgid_index = path;
    to.grh.hop_limit = av.hop_limit;
    to.grh.traffic_class =
        static_cast<std::uint8_t>(slice.allowed_dscp(av.traffic_class) << dscp_shift);
    to.sl = slice.allowed_service_level(av.sl);
    to.is_global = 1;
    to.port_num = host::port_number;
    return to;
}

HostAttr host_attr_of(const SliceCore& slice, const vrdma_qp_attr& attr, std::uint8_t path) {
    constexpr std::uint32_t remote_access =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    constexpr std::uint32_t known = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
                                    IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_AV | IBV_QP_PATH_MTU |
                                    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                    IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER |
                                    IBV_QP_SQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_DEST_QPN;
    HostAttr host;
    host.mask = static_cast<int>(attr.attr_mask & known);
    ibv_qp_attr& to = host.attr;
    to.qp_state = static_cast<ibv_qp_state>(attr.state);
    to.qp_access_flags = attr.access_flags & remote_access;
    to.pkey_index = 0; // the only one of RoCE
    to.port_num = host::port_number;
    to.qkey = attr.qkey;
    to.path_mtu = static_cast<ibv_mtu>(attr.path_mtu);
    to.timeout = attr.timeout;
    to.retry_cnt = attr.retry_cnt;
    to.rnr_retry = attr.rnr_retry;
    to.min_rnr_timer = attr.min_rnr_timer;
    to.rq_psn = attr.rq_psn;
    to.sq_psn = attr.sq_psn;
    to.max_rd_atomic = attr.max_rd_atomic;
    to.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    to.dest_qp_num = attr.dest_qpn;
    if ((host.mask & IBV_QP_AV) != 0) {
        to.ah_attr = host_path_of(slice, attr.av, path);
    }
    return host;
}

Result<std::uint8_t> find_source(const host::Device& device, const SliceCore& slice,
                                 std::uint8_t index) {
    const GidKey* const key = slice.gid(index);
    if (key == nullptr || key->vlan != 0) { // the host's table does not tell the VLAN of a GID
        return fail(std::errc::no_such_device);
    }
    return device.find_gid(
        key->gid, key->type == VRDMA_GID_ROCE_V1 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2);
}

} // namespace vrdma::hca::soft::offload
