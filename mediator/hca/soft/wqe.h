// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Work queue elements as private, validated copies of what a guest posted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mediator/hca/hca.h"
#include "mediator/hca/soft/memory_gate.h"

namespace vrdma::hca::soft {

// Why a WQE cannot be executed: the completion's status (enum ibv_wc_status) and what people are
// told.
struct WqeError {
    std::uint8_t status = 0;
    vrdma_vendor_err reason = VRDMA_VERR_NONE;

    explicit operator bool() const noexcept { return status != 0; }
};

// What a queue allows.
struct WqeLimits {
    QpType type = QpType::rc;
    std::uint32_t stride = 0; // bytes of an entry
    std::uint32_t max_inline = 0;
    std::uint16_t max_sge = 0;
    bool shared = false; // an SRQ, whose WQEs have cookies
};

// What the peer needs to know of a request.
struct Message {
    vrdma_sq_opcode opcode = VRDMA_SQ_SEND;
    bool signaled = false;
    bool solicited = false;
    std::uint32_t imm = 0; // network order
    std::uint64_t length = 0;

    Key rkey;
    std::uint64_t remote_address = 0;
    std::uint64_t compare_add = 0;
    std::uint64_t swap = 0;

    bool has_imm() const noexcept {
        return opcode == VRDMA_SQ_SEND_WITH_IMM || opcode == VRDMA_SQ_RDMA_WRITE_WITH_IMM;
    }
    bool is_atomic() const noexcept {
        return opcode == VRDMA_SQ_ATOMIC_CMP_AND_SWP || opcode == VRDMA_SQ_ATOMIC_FETCH_AND_ADD;
    }
    // Bytes flow from the peer to here.
    bool is_fetch() const noexcept { return opcode == VRDMA_SQ_RDMA_READ || is_atomic(); }
};

struct SendWqe : Message {
    AhId ah;
    Qpn dest_qpn;
    std::uint32_t qkey = 0;

    // Inline data stays in the ring: nothing in it needs validation.
    std::span<std::byte> inline_data;
    std::uint32_t num_sge = 0;
    std::array<Sge, VRDMA_MAX_SGE> sges; // the first num_sge are valid

    std::span<const Sge> list() const noexcept { return {sges.data(), num_sge}; }
};

struct RecvWqe {
    std::uint64_t length = 0;
    std::uint32_t index = 0; // what its CQE names it by: of an SRQ the cookie
    std::uint32_t num_sge = 0;
    std::array<Sge, VRDMA_MAX_SGE> sges; // the first num_sge are valid

    std::span<const Sge> list() const noexcept { return {sges.data(), num_sge}; }
};

// `entry` is a ring entry whose phase bit was found valid; `ctrl` is its first word, as read then.
WqeError parse(std::byte* entry, std::uint32_t ctrl, const WqeLimits& limits,
               SendWqe& wqe) noexcept;
WqeError parse(std::byte* entry, std::uint32_t ctrl, const WqeLimits& limits,
               RecvWqe& wqe) noexcept;

} // namespace vrdma::hca::soft
