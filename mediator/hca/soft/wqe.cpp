// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/wqe.h"

#include <infiniband/verbs.h>

#include <cstring>

namespace vrdma::hca::soft {
namespace {

constexpr WqeError reserved_error{IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_RESERVED};

constexpr unsigned bit(unsigned opcode) {
    return 1u << opcode;
}

// Bit n: opcode n is defined for the type of QP (IBA 9.3).
constexpr unsigned legal_opcodes(QpType type) {
    constexpr unsigned datagram = bit(VRDMA_SQ_SEND) | bit(VRDMA_SQ_SEND_WITH_IMM);
    constexpr unsigned unreliable =
        datagram | bit(VRDMA_SQ_RDMA_WRITE) | bit(VRDMA_SQ_RDMA_WRITE_WITH_IMM);
    constexpr unsigned reliable = unreliable | bit(VRDMA_SQ_RDMA_READ) |
                                  bit(VRDMA_SQ_ATOMIC_CMP_AND_SWP) |
                                  bit(VRDMA_SQ_ATOMIC_FETCH_AND_ADD);
    switch (type) {
        case QpType::rc:
            return reliable;
        case QpType::uc:
            return unreliable;
        case QpType::ud:
            return datagram;
    }
    return 0;
}

// Copies the list at `from`, which lies in the entry, and adds up its bytes.
std::uint64_t copy_sges(const std::byte* from, std::uint32_t count, Sge* to) noexcept {
    std::uint64_t length = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
        vrdma_sge sge;
        std::memcpy(&sge, from + i * sizeof(sge), sizeof(sge));
        to[i] = {sge.addr, sge.length, sge.lkey};
        length += sge.length;
    }
    return length;
}

bool fits(std::uint32_t num_sge, std::uint32_t payload_offset, const WqeLimits& limits) noexcept {
    return num_sge <= limits.max_sge && num_sge <= VRDMA_MAX_SGE &&
           payload_offset + num_sge * sizeof(vrdma_sge) <= limits.stride;
}

// Fields that the opcode does not use are reserved.
WqeError parse_target(const vrdma_sq_wqe& raw, QpType type, SendWqe& wqe) noexcept {
    if (!wqe.has_imm() && raw.imm != 0) {
        return reserved_error;
    }
    wqe.imm = raw.imm;
    if (type == QpType::ud) {
        wqe.qkey = raw.qkey;
        wqe.ah = AhId{raw.ud.ah};
        wqe.dest_qpn = Qpn{raw.ud.dest_qpn};
        return {};
    }
    if (wqe.opcode == VRDMA_SQ_SEND || wqe.opcode == VRDMA_SQ_SEND_WITH_IMM) {
        return raw.rkey != 0 || raw.raddr != 0 ? reserved_error : WqeError{};
    }
    wqe.rkey = Key{raw.rkey};
    wqe.remote_address = raw.raddr;
    return {};
}

WqeError parse_inline(std::byte* entry, std::uint32_t length, const WqeLimits& limits,
                      SendWqe& wqe) noexcept {
    if (wqe.num_sge != 0) {
        return reserved_error;
    }
    if (wqe.is_fetch() || length > limits.max_inline ||
        length > limits.stride - VRDMA_SQ_PAYLOAD_OFFSET) {
        return {IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_INLINE};
    }
    wqe.inline_data = {entry + VRDMA_SQ_PAYLOAD_OFFSET, length};
    wqe.length = length;
    return {};
}

WqeError parse_atomic(const std::byte* payload, const WqeLimits& limits, SendWqe& wqe) noexcept {
    if (wqe.num_sge != 1 || !fits(1, VRDMA_SQ_PAYLOAD_OFFSET + sizeof(vrdma_sq_atomic), limits)) {
        return {IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_NUM_SGE};
    }
    vrdma_sq_atomic operands;
    std::memcpy(&operands, payload, sizeof(operands));
    if (wqe.opcode == VRDMA_SQ_ATOMIC_FETCH_AND_ADD && operands.swap != 0) {
        return reserved_error;
    }
    wqe.compare_add = operands.compare_add;
    wqe.swap = operands.swap;
    wqe.length = copy_sges(payload + sizeof(operands), 1, wqe.sges.data());
    return wqe.length == sizeof(std::uint64_t) ? WqeError{}
                                               : WqeError{IBV_WC_LOC_LEN_ERR, VRDMA_VERR_LENGTH};
}

} // namespace

WqeError parse(std::byte* entry, std::uint32_t ctrl, const WqeLimits& limits,
               SendWqe& wqe) noexcept {
    vrdma_sq_wqe raw;
    std::memcpy(&raw, entry, sizeof(raw));
    const std::uint32_t opcode = VRDMA_GET(VRDMA_SQ_OPCODE, ctrl);
    wqe.opcode = static_cast<vrdma_sq_opcode>(opcode & 7);
    wqe.signaled = (ctrl & VRDMA_SQ_SIGNALED) != 0;
    wqe.solicited = (ctrl & VRDMA_SQ_SOLICITED) != 0;
    wqe.num_sge = VRDMA_GET(VRDMA_WQE_NUM_SGE, ctrl);
    wqe.inline_data = {};
    if ((ctrl & VRDMA_SQ_RESERVED) != 0) {
        return reserved_error;
    }
    if (opcode > VRDMA_SQ_ATOMIC_FETCH_AND_ADD || (legal_opcodes(limits.type) & bit(opcode)) == 0) {
        return {IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_OPCODE};
    }
    if (const WqeError error = parse_target(raw, limits.type, wqe)) {
        return error;
    }
    if ((ctrl & VRDMA_SQ_INLINE) != 0) {
        return parse_inline(entry, raw.length, limits, wqe);
    }
    if (raw.length != 0) {
        return reserved_error;
    }
    std::byte* payload = entry + VRDMA_SQ_PAYLOAD_OFFSET;
    if (wqe.is_atomic()) {
        return parse_atomic(payload, limits, wqe);
    }
    if (!fits(wqe.num_sge, VRDMA_SQ_PAYLOAD_OFFSET, limits)) {
        return {IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_NUM_SGE};
    }
    wqe.length = copy_sges(payload, wqe.num_sge, wqe.sges.data());
    const std::uint64_t longest = limits.type == QpType::ud ? max_datagram_size : max_message_size;
    return wqe.length <= longest ? WqeError{} : WqeError{IBV_WC_LOC_LEN_ERR, VRDMA_VERR_LENGTH};
}

WqeError parse(std::byte* entry, std::uint32_t ctrl, const WqeLimits& limits,
               RecvWqe& wqe) noexcept {
    vrdma_rq_wqe raw;
    std::memcpy(&raw, entry, sizeof(raw));
    wqe.num_sge = VRDMA_GET(VRDMA_WQE_NUM_SGE, ctrl);
    wqe.index = raw.cookie;
    if ((ctrl & VRDMA_RQ_RESERVED) != 0 || (raw.cookie != 0 && !limits.shared) ||
        raw.reserved[0] != 0 || raw.reserved[1] != 0) {
        return reserved_error;
    }
    if (!fits(wqe.num_sge, VRDMA_RQ_PAYLOAD_OFFSET, limits)) {
        return {IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_NUM_SGE};
    }
    wqe.length = copy_sges(entry + VRDMA_RQ_PAYLOAD_OFFSET, wqe.num_sge, wqe.sges.data());
    return {};
}

} // namespace vrdma::hca::soft
