// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/queues/wqe.h"

#include <infiniband/verbs.h>

#include <cstring>

#include "mediator/hca/address_vector.h"
#include "mediator/hca/soft/queues/pvrdma_wqe.h"
#include "mediator/hca/soft/queues/sge_list.h"

namespace vrdma::hca::soft {
namespace {

constexpr WqeError reserved_error{IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_RESERVED};

constexpr OpcodeSet bit(unsigned opcode) {
    return OpcodeSet{1} << opcode;
}

bool is_legal(unsigned opcode, const WqeLimits& limits) noexcept {
    constexpr unsigned end = 64;
    return opcode < end && (limits.opcodes & bit(opcode)) != 0;
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
    wqe.rkey = Key{raw.rkey};
    wqe.remote_address = raw.raddr;
    const bool no_key = wqe.opcode == VRDMA_SQ_SEND || wqe.opcode == VRDMA_SQ_SEND_WITH_IMM;
    const bool no_address = no_key || wqe.opcode == VRDMA_SQ_SEND_WITH_INV || wqe.is_local();
    return (no_key && raw.rkey != 0) || (no_address && raw.raddr != 0) ? reserved_error
                                                                       : WqeError{};
}

// Reads the SRQ that every request of an XRC QP names, whether or not the request takes a WQE.
WqeError parse_srq(const std::byte* entry, SendWqe& wqe) noexcept {
    vrdma_sq_xrc raw;
    std::memcpy(&raw, entry + VRDMA_SQ_PAYLOAD_OFFSET, sizeof(raw));
    wqe.srqn = Srqn{raw.srqn};
    return raw.reserved != 0 ? reserved_error : WqeError{};
}

// Reads the address vector of a datagram that has its own. Moves the payload behind it.
WqeError parse_av(const std::byte* entry, const WqeLimits& limits, SendWqe& wqe,
                  std::uint32_t& payload_offset) noexcept {
    if (limits.type != QpType::ud || wqe.ah != AhId{}) {
        return reserved_error;
    }
    std::memcpy(&wqe.av, entry + payload_offset, sizeof(wqe.av));
    payload_offset += sizeof(wqe.av);
    return is_well_formed(wqe.av) ? WqeError{} : WqeError{IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_AH};
}
static_assert(VRDMA_SQ_PAYLOAD_OFFSET + sizeof(vrdma_av) <= 1u << VRDMA_SQ_MIN_STRIDE_SHIFT);

WqeError parse_inline(std::byte* entry, std::uint32_t payload_offset, std::uint32_t length,
                      const WqeLimits& limits, SendWqe& wqe) noexcept {
    if (wqe.num_sge != 0) {
        return reserved_error;
    }
    const bool fits_any = wqe.opcode == VRDMA_SQ_ATOMIC_WRITE;
    if (wqe.is_fetch() || (length > limits.max_inline && !fits_any) ||
        length > limits.stride - payload_offset) {
        return {IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_INLINE};
    }
    wqe.inline_data = {entry + payload_offset, length};
    wqe.length = length;
    return {};
}

// The length of an atomic WRITE must be that of a word.
WqeError check_length(const SendWqe& wqe, const WqeLimits& limits) noexcept {
    const bool valid = wqe.opcode == VRDMA_SQ_ATOMIC_WRITE ? wqe.length == sizeof(std::uint64_t)
                                                           : wqe.length <= limits.max_length;
    return valid ? WqeError{} : WqeError{IBV_WC_LOC_LEN_ERR, VRDMA_VERR_LENGTH};
}

// Reads the structure of an opcode that moves no data. The smallest entry has room for each of
// these structures.
WqeError parse_local(const std::byte* payload, std::uint32_t ctrl, SendWqe& wqe) noexcept {
    constexpr std::uint32_t remote_access =
        IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    constexpr std::size_t room = (1u << VRDMA_SQ_MIN_STRIDE_SHIFT) - VRDMA_SQ_PAYLOAD_OFFSET;
    static_assert(sizeof(vrdma_sq_xrc) + sizeof(wqe.bind) <= room && sizeof(wqe.reg) <= room);
    wqe.length = 0;
    if (wqe.num_sge != 0 || (ctrl & VRDMA_SQ_INLINE) != 0) {
        return reserved_error;
    }
    std::uint32_t unknown = 0;
    if (wqe.opcode == VRDMA_SQ_BIND_MW) {
        std::memcpy(&wqe.bind, payload, sizeof(wqe.bind));
        unknown = wqe.bind.access_flags &
                  ~(remote_access | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
    } else if (wqe.opcode == VRDMA_SQ_REG_MR) {
        std::memcpy(&wqe.reg, payload, sizeof(wqe.reg));
        unknown = (wqe.reg.access_flags & ~(remote_access | IBV_ACCESS_LOCAL_WRITE |
                                            IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED)) |
                  wqe.reg.pages.reserved;
    }
    return unknown != 0 ? reserved_error : WqeError{};
}

WqeError parse_atomic(const std::byte* payload, const WqeLimits& limits, SendWqe& wqe) noexcept {
    if (wqe.num_sge != 1 || !fits(1, limits.payload_offset + sizeof(vrdma_sq_atomic), limits)) {
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

// IBA 9.3
OpcodeSet legal_opcodes(QpType type, bool kernel) noexcept {
    constexpr OpcodeSet datagram = bit(VRDMA_SQ_SEND) | bit(VRDMA_SQ_SEND_WITH_IMM);
    constexpr OpcodeSet unreliable = datagram | bit(VRDMA_SQ_RDMA_WRITE) |
                                     bit(VRDMA_SQ_RDMA_WRITE_WITH_IMM) | bit(VRDMA_SQ_BIND_MW) |
                                     bit(VRDMA_SQ_LOCAL_INV);
    constexpr OpcodeSet reliable = unreliable | bit(VRDMA_SQ_RDMA_READ) |
                                   bit(VRDMA_SQ_ATOMIC_CMP_AND_SWP) |
                                   bit(VRDMA_SQ_ATOMIC_FETCH_AND_ADD) |
                                   bit(VRDMA_SQ_SEND_WITH_INV) | bit(VRDMA_SQ_ATOMIC_WRITE);
    const OpcodeSet privileged = kernel ? bit(VRDMA_SQ_REG_MR) : 0;
    switch (type) {
        case QpType::rc:
            return reliable | privileged;
        case QpType::xrc_send:
            return reliable;
        case QpType::uc:
            return unreliable | privileged;
        case QpType::ud:
            return datagram;
        case QpType::xrc_recv:
            break;
    }
    return 0;
}

WqeError parse(std::byte* entry, std::uint32_t ctrl, const WqeLimits& limits,
               SendWqe& wqe) noexcept {
    if (limits.format == QueueFormat::pvrdma) {
        return pvrdma::parse(entry, limits, wqe);
    }
    vrdma_sq_wqe raw;
    std::memcpy(&raw, entry, sizeof(raw));
    const std::uint32_t opcode = VRDMA_GET(VRDMA_SQ_OPCODE, ctrl);
    const bool legal = is_legal(opcode, limits);
    wqe.opcode = legal ? static_cast<vrdma_sq_opcode>(opcode) : VRDMA_SQ_SEND;
    wqe.signaled = (ctrl & VRDMA_SQ_SIGNALED) != 0;
    wqe.solicited = (ctrl & VRDMA_SQ_SOLICITED) != 0;
    wqe.num_sge = VRDMA_GET(VRDMA_WQE_NUM_SGE, ctrl);
    wqe.inline_data = {};
    if ((ctrl & VRDMA_SQ_RESERVED) != 0) {
        return reserved_error;
    }
    if (!legal) {
        return {IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_OPCODE};
    }
    if (const WqeError error = parse_target(raw, limits.type, wqe)) {
        return error;
    }
    if (limits.type == QpType::xrc_send) {
        if (const WqeError error = parse_srq(entry, wqe)) {
            return error;
        }
    }
    std::uint32_t payload_offset = limits.payload_offset;
    wqe.has_av = (ctrl & VRDMA_SQ_AV) != 0;
    wqe.av_pd = {};
    if (wqe.has_av) {
        if (const WqeError error = parse_av(entry, limits, wqe, payload_offset)) {
            return error;
        }
    }
    if ((ctrl & VRDMA_SQ_INLINE) != 0 && !wqe.is_local()) {
        const WqeError error = parse_inline(entry, payload_offset, raw.length, limits, wqe);
        return error ? error : check_length(wqe, limits);
    }
    if (raw.length != 0) {
        return reserved_error;
    }
    std::byte* payload = entry + payload_offset;
    if (wqe.is_local()) {
        return parse_local(payload, ctrl, wqe);
    }
    if (wqe.is_atomic()) {
        return parse_atomic(payload, limits, wqe);
    }
    if (!fits(wqe.num_sge, payload_offset, limits)) {
        return {IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_NUM_SGE};
    }
    wqe.length = copy_sges(payload, wqe.num_sge, wqe.sges.data());
    return check_length(wqe, limits);
}

WqeError parse(std::byte* entry, std::uint32_t ctrl, const WqeLimits& limits,
               RecvWqe& wqe) noexcept {
    if (limits.format == QueueFormat::pvrdma) {
        return pvrdma::parse(entry, limits, wqe);
    }
    vrdma_rq_wqe raw;
    std::memcpy(&raw, entry, sizeof(raw));
    wqe.num_sge = VRDMA_GET(VRDMA_WQE_NUM_SGE, ctrl);
    wqe.name = {raw.cookie, 0};
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
