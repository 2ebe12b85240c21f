// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/queues/pvrdma_wqe.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <iterator>

#include "mediator/hca/address_vector.h"
#include "mediator/hca/queue_pair.h"
#include "mediator/hca/soft/queues/sge_list.h"

namespace vrdma::hca::soft::pvrdma {
namespace {

constexpr WqeError bad_opcode{IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_OPCODE};

// The engine's opcode, or another one that no QP has.
std::uint32_t opcode_of(std::uint32_t opcode) noexcept {
    switch (opcode) {
        case PVRDMA_RDMA_WRITE:
        case PVRDMA_RDMA_WRITE_WITH_IMM:
        case PVRDMA_SEND:
        case PVRDMA_SEND_WITH_IMM:
        case PVRDMA_RDMA_READ:
        case PVRDMA_ATOMIC_CMP_AND_SWP:
        case PVRDMA_ATOMIC_FETCH_AND_ADD:
            return opcode;
        case PVRDMA_SEND_WITH_INV:
            return VRDMA_SQ_SEND_WITH_INV;
        case PVRDMA_LOCAL_INV:
            return VRDMA_SQ_LOCAL_INV;
        case PVRDMA_FAST_REG:
            return VRDMA_SQ_REG_MR;
        default:
            return UINT32_MAX;
    }
}

bool is_legal(std::uint32_t opcode, const WqeLimits& limits) noexcept {
    constexpr std::uint32_t end = 64;
    return opcode < end && (limits.opcodes >> opcode & 1) != 0;
}

// A program's AH is an address vector that only the provider keeps. It has its PD's number.
WqeError parse_datagram(const pvrdma_sq_wqe& raw, SendWqe& wqe) noexcept {
    const pvrdma_av& from = raw.ud.av;
    wqe.qkey = raw.ud.qkey;
    wqe.ah = {};
    wqe.dest_qpn = Qpn{raw.ud.dest_qpn};
    wqe.has_av = true;
    wqe.av_pd = PdId{VRDMA_GET(PVRDMA_AV_PD, from.port_pd)};
    wqe.av = {};
    std::ranges::copy(from.dgid, std::begin(wqe.av.dgid));
    std::ranges::copy(from.dmac, std::begin(wqe.av.dmac));
    wqe.av.flow_label = VRDMA_GET(PVRDMA_AV_FLOW_LABEL, from.sl_tc_flow);
    wqe.av.traffic_class =
        static_cast<std::uint8_t>(VRDMA_GET(PVRDMA_AV_TRAFFIC_CLASS, from.sl_tc_flow));
    wqe.av.sl = static_cast<std::uint8_t>(VRDMA_GET(PVRDMA_AV_SL, from.sl_tc_flow));
    wqe.av.sgid_index = from.sgid_index;
    wqe.av.hop_limit = from.hop_limit;
    wqe.av.port_num = static_cast<std::uint8_t>(VRDMA_GET(PVRDMA_AV_PORT, from.port_pd));
    return is_well_formed(wqe.av) ? WqeError{} : WqeError{IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_AH};
}

// The engine reads a list of one level: it looks up the table in the directory (memory_keys.cpp).
WqeError parse_fast(const pvrdma_sq_wqe& raw, SendWqe& wqe) noexcept {
    constexpr std::uint32_t known = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                                    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE |
                                    IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED;
    if (raw.fast.page_shift < VRDMA_PAGE_SHIFT || raw.fast.page_shift > VRDMA_MAX_PAGE_SHIFT ||
        (raw.fast.access_flags & ~known) != 0) {
        return {IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_PAGE_LIST};
    }
    const std::uint64_t page = std::uint64_t{1} << raw.fast.page_shift;
    wqe.rkey = Key{raw.fast.rkey};
    wqe.reg.pages = {raw.fast.directory, raw.fast.pages,
                     static_cast<std::uint8_t>(raw.fast.page_shift), PVRDMA_DIRECTORY_LEVELS, 0};
    wqe.reg.start = raw.fast.start;
    wqe.reg.length = raw.fast.length;
    wqe.reg.access_flags = raw.fast.access_flags;
    wqe.reg.first_offset = static_cast<std::uint32_t>(raw.fast.start & (page - 1));
    return {};
}

WqeError parse_local(const pvrdma_sq_wqe& raw, SendWqe& wqe) noexcept {
    wqe.num_sge = 0;
    wqe.length = 0;
    if (wqe.opcode == VRDMA_SQ_REG_MR) {
        return parse_fast(raw, wqe);
    }
    wqe.rkey = Key{raw.invalidate_key};
    return {};
}

void parse_connected(const pvrdma_sq_wqe& raw, SendWqe& wqe) noexcept {
    wqe.has_av = false;
    if (wqe.is_atomic()) {
        wqe.remote_address = raw.atomic.raddr;
        wqe.rkey = Key{raw.atomic.rkey};
        wqe.compare_add = raw.atomic.compare_add;
        wqe.swap = raw.atomic.swap;
    } else if (wqe.opcode == VRDMA_SQ_SEND_WITH_INV) {
        wqe.remote_address = 0;
        wqe.rkey = Key{raw.invalidate_key};
    } else {
        wqe.remote_address = raw.rdma.raddr;
        wqe.rkey = Key{raw.rdma.rkey};
    }
}

std::uint32_t opcode_of_cqe(std::uint32_t opcode, bool receive) noexcept {
    if (opcode == VRDMA_CQE_REG_MR) {
        return PVRDMA_WC_FAST_REG;
    }
    if (opcode == IBV_WC_LOCAL_INV) {
        return PVRDMA_WC_LOCAL_INV;
    }
    return receive && opcode == 0 ? std::uint32_t{IBV_WC_RECV} : opcode; // a flushed WQE has 0
}

std::uint8_t header_of(const vrdma_cqe& entry) noexcept {
    switch (entry.header) {
        case VRDMA_CQE_HEADER_IPV4:
            return PVRDMA_HEADER_IPV4;
        case VRDMA_CQE_HEADER_IPV6:
            return PVRDMA_HEADER_IPV6;
        default:
            return PVRDMA_HEADER_GRH;
    }
}

} // namespace

WqeError parse(std::byte* entry, const WqeLimits& limits, SendWqe& wqe) noexcept {
    pvrdma_sq_wqe raw;
    std::memcpy(&raw, entry, sizeof(raw));
    const std::uint32_t opcode = opcode_of(raw.opcode);
    const bool legal = is_legal(opcode, limits);
    wqe.opcode = legal ? static_cast<vrdma_sq_opcode>(opcode) : VRDMA_SQ_SEND;
    wqe.signaled = (raw.flags & PVRDMA_SEND_SIGNALED) != 0;
    wqe.solicited = (raw.flags & PVRDMA_SEND_SOLICITED) != 0;
    wqe.num_sge = raw.num_sge;
    wqe.inline_data = {};
    wqe.srqn = {};
    wqe.length = 0;
    wqe.imm = wqe.has_imm() ? raw.imm : 0;
    if (!legal) {
        return bad_opcode;
    }
    if (wqe.is_local()) {
        return parse_local(raw, wqe);
    }
    if ((raw.flags & PVRDMA_SEND_INLINE) != 0) {
        return {IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_INLINE};
    }
    if (!fits(raw.num_sge, sizeof(raw), limits) || (wqe.is_atomic() && raw.num_sge != 1)) {
        return {IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_NUM_SGE};
    }
    if (limits.type == QpType::ud) {
        if (const WqeError error = parse_datagram(raw, wqe)) {
            return error;
        }
    } else {
        parse_connected(raw, wqe);
    }
    wqe.length = copy_sges(entry + sizeof(raw), raw.num_sge, wqe.sges.data());
    const bool fitting =
        wqe.is_atomic() ? wqe.length == sizeof(std::uint64_t) : wqe.length <= limits.max_length;
    return fitting ? WqeError{} : WqeError{IBV_WC_LOC_LEN_ERR, VRDMA_VERR_LENGTH};
}

WqeError parse(std::byte* entry, const WqeLimits& limits, RecvWqe& wqe) noexcept {
    pvrdma_rq_wqe raw;
    std::memcpy(&raw, entry, sizeof(raw));
    wqe.name = {0, raw.wr_id};
    wqe.num_sge = raw.num_sge;
    if (!fits(raw.num_sge, sizeof(raw), limits)) {
        wqe.num_sge = 0;
        return {IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_NUM_SGE};
    }
    wqe.length = copy_sges(entry + sizeof(raw), raw.num_sge, wqe.sges.data());
    return {};
}

pvrdma_cqe to_cqe(const vrdma_cqe& entry, std::uint64_t wr_id, std::uint32_t qp) noexcept {
    const bool receive = (entry.ctrl & VRDMA_CQE_RECV) != 0;
    const bool grh = (entry.ctrl & VRDMA_CQE_GRH) != 0;
    pvrdma_cqe to{};
    to.wr_id = wr_id;
    to.qp = qp;
    to.opcode = opcode_of_cqe(VRDMA_GET(VRDMA_CQE_OPCODE, entry.ctrl), receive);
    to.status = VRDMA_GET(VRDMA_CQE_STATUS, entry.ctrl);
    to.byte_len = entry.byte_len;
    to.imm = entry.imm;
    to.src_qpn = entry.src_qpn;
    to.flags = (grh ? PVRDMA_WC_GRH | PVRDMA_WC_HEADER : 0) |
               ((entry.ctrl & VRDMA_CQE_WITH_IMM) != 0 ? PVRDMA_WC_WITH_IMM : 0) |
               ((entry.ctrl & VRDMA_CQE_WITH_INV) != 0 ? PVRDMA_WC_WITH_INV : 0);
    to.vendor_err = entry.vendor_err;
    to.pkey_index = entry.pkey_index;
    to.port = port_number;
    to.header = header_of(entry);
    // The provider has no other field for it than that of our own (vrdma/queue.h). The kernel reads
    // `header`, and would answer a management datagram with that as its service level.
    to.sl = grh && entry.qpn != gsi_qpn.value ? entry.header : std::uint8_t{0};
    return to;
}

} // namespace vrdma::hca::soft::pvrdma
