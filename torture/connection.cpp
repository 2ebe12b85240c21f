// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "torture/connection.h"

#include <array>

#include "torture/extended.h"

namespace vrdma::torture {
namespace {

constexpr std::uint32_t qkey = 0x1ee7;
constexpr std::uint32_t datagram_size = 1024;
constexpr ibv_mtu mtu = IBV_MTU_1024;
constexpr std::uint8_t retries = 7;
constexpr std::uint32_t psn_mask = 0xffffff;

void modify(ibv_qp* qp, ibv_qp_attr attr, int mask, const char* what) {
    check(::ibv_modify_qp(qp, &attr, mask), what);
}

ibv_qp* create_receiver(ibv_context* context, ibv_xrcd* xrcd) {
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_XRC_RECV;
    attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    attr.xrcd = xrcd;
    return ibv_create_qp_ex(context, &attr);
}

} // namespace

Shape Shape::drawn(Random& script) {
    static constexpr std::array types{IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_RC,      IBV_QPT_UC,
                                      IBV_QPT_UD, IBV_QPT_UD, IBV_QPT_XRC_SEND};
    Shape shape;
    shape.type = script.pick(types);
    shape.shared =
        shape.type == IBV_QPT_XRC_SEND || (shape.type != IBV_QPT_UC && script.chance(40));
    shape.signal_all = script.chance(20);
    shape.extended = script.chance(40);
    if (script.chance(30)) {
        shape.rnr_retries = static_cast<std::uint8_t>(script.below(2));
    }
    shape.send_depth = script.between(2, 40);
    shape.receive_depth = script.between(2, 40);
    shape.send_sges = script.between(1, 8);
    shape.receive_sges = script.between(1, 8);
    shape.inline_size = script.length(128);
    shape.rd_atomic = static_cast<std::uint8_t>(script.between(1, 8));
    shape.rnr_timer = static_cast<std::uint8_t>(script.between(1, 10));
    return shape;
}

Shape Shape::on_lossy_network() const {
    Shape shape = *this;
    shape.type = reliable() ? type : IBV_QPT_RC;
    shape.rnr_retries = 7;
    shape.timeout = 18; // a second
    return shape;
}

std::uint32_t Shape::longest() const {
    return type == IBV_QPT_UD ? datagram_size : longest_message;
}

Connection::Connection(const Shape& shape, const Device& device, const Parts& parts)
    : shape_{shape}, device_{device}, parts_{parts} {
    const bool xrc = shape.type == IBV_QPT_XRC_SEND;
    ibv_qp_init_attr attr{};
    attr.send_cq = parts.completions.send_cq();
    attr.recv_cq = xrc ? nullptr : parts.completions.receive_cq();
    attr.srq = shape.shared && !xrc ? parts.srq : nullptr;
    attr.cap = {.max_send_wr = shape.send_depth,
                .max_recv_wr = shape.shared ? 0 : shape.receive_depth,
                .max_send_sge = shape.send_sges,
                .max_recv_sge = shape.shared ? 0 : shape.receive_sges,
                .max_inline_data = shape.inline_size};
    attr.qp_type = shape.type;
    attr.sq_sig_all = shape.signal_all ? 1 : 0;
    qp_.reset(shape.extended ? made(create_extended(parts.pd, attr), "ibv_create_qp_ex")
                             : made(::ibv_create_qp(parts.pd, &attr), "ibv_create_qp"));
    if (xrc) {
        receiver_.reset(made(create_receiver(device.context(), parts.xrcd), "ibv_create_qp_ex"));
    }
}

bool Connection::has(std::uint32_t qpn) const {
    return qpn == qp()->qp_num || qpn == receiver()->qp_num;
}

void Connection::address(ibv_send_wr& wr) const {
    if (shape_.type == IBV_QPT_UD) {
        wr.wr.ud = {.ah = ah_.get(), .remote_qpn = peer_.qpn, .remote_qkey = qkey};
    } else if (shape_.type == IBV_QPT_XRC_SEND) {
        wr.qp_type.xrc.remote_srqn = peer_.srqn;
    }
}

Connection::Names Connection::names(Random& own) const {
    std::uint32_t srqn = 0;
    if (receiver_) {
        check(ibv_get_srq_num(parts_.xrc_srq, &srqn), "ibv_get_srq_num");
    }
    return {qp()->qp_num, receiver()->qp_num, srqn,
            static_cast<std::uint32_t>(own.next()) & psn_mask, device_.gid()};
}

void Connection::initialize(ibv_qp* qp) const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.pkey_index = device_.pkey_index();
    attr.port_num = port;
    attr.qkey = qkey;
    attr.qp_access_flags = all_access;
    const int kind = shape_.type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    modify(qp, attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | kind, "modify to INIT");
}

void Connection::ready_to_receive(ibv_qp* qp, std::uint32_t from, ibv_ah_attr path) const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = mtu;
    attr.dest_qp_num = from;
    attr.rq_psn = peer_.psn;
    attr.ah_attr = path;
    attr.max_dest_rd_atomic = shape_.rd_atomic;
    attr.min_rnr_timer = shape_.rnr_timer;
    int mask = IBV_QP_STATE;
    if (shape_.type != IBV_QPT_UD) {
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    }
    if (shape_.reliable() && qp == receiver()) {
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    }
    modify(qp, attr, mask, "modify to RTR");
}

void Connection::ready_to_send(std::uint32_t psn) const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = psn;
    attr.timeout = shape_.timeout;
    attr.retry_cnt = retries;
    attr.rnr_retry = shape_.rnr_retries;
    attr.max_rd_atomic = shape_.rd_atomic;
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (shape_.reliable()) {
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    modify(qp(), attr, mask, "modify to RTS");
}

void Connection::connect(const ControlConnection& control, Random& own) {
    const Names mine = names(own);
    initialize(qp());
    peer_ = control.exchange(mine);
    ibv_ah_attr path = device_.address(peer_.gid);
    ready_to_receive(qp(), peer_.receiver, path);
    ready_to_send(mine.psn);
    if (receiver_) {
        initialize(receiver());
        ready_to_receive(receiver(), peer_.qpn, path);
    }
    if (shape_.type == IBV_QPT_UD) {
        ah_.reset(made(::ibv_create_ah(parts_.pd, &path), "ibv_create_ah"));
    }
}

void Connection::to_state(ibv_qp_state state) const {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    modify(qp(), attr, IBV_QP_STATE, "modify to ERR or RESET");
    if (receiver_) {
        modify(receiver(), attr, IBV_QP_STATE, "modify to ERR or RESET");
    }
}

ibv_qp_state Connection::state() const {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    check(::ibv_query_qp(qp(), &attr, IBV_QP_STATE, &init), "ibv_query_qp");
    return attr.qp_state;
}

void Connection::post(ibv_send_wr* list) const {
    if (shape_.extended) {
        check(post_extended(ibv_qp_to_qp_ex(qp()), list), "ibv_wr_complete");
        return;
    }
    ibv_send_wr* bad = nullptr;
    check(::ibv_post_send(qp(), list, &bad), "ibv_post_send");
}

void Connection::post_receive(std::uint64_t id, std::span<ibv_sge> pieces) const {
    ibv_recv_wr wr{.wr_id = id,
                   .next = nullptr,
                   .sg_list = pieces.data(),
                   .num_sge = static_cast<int>(pieces.size())};
    ibv_recv_wr* bad = nullptr;
    check(::ibv_post_recv(qp(), &wr, &bad), "ibv_post_recv");
}

} // namespace vrdma::torture
