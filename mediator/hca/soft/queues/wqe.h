// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Work queue elements as private, validated copies of what a guest posted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mediator/hca/queue_format.h"
#include "mediator/hca/queue_pair.h"
#include "mediator/hca/soft/memory/memory_gate.h"
#include "mediator/hca/soft/queues/work_queue.h"

namespace vrdma::hca::soft {

// The reason why a WQE cannot be executed: the completion's status (enum ibv_wc_status), and a
// reason for people.
struct WqeError {
    std::uint8_t status = 0;
    vrdma_vendor_err reason = VRDMA_VERR_NONE;

    explicit operator bool() const noexcept { return status != 0; }
};

// Bit n stands for opcode n.
using OpcodeSet = std::uint64_t;

// The opcodes that a QP's send WQEs may have. Some are only for the guest's kernel.
OpcodeSet legal_opcodes(QpType type, bool kernel) noexcept;

// The limits of the WQEs of a queue.
struct WqeLimits {
    QueueFormat format = QueueFormat::vrdma;
    QpType type = QpType::rc;
    bool shared = false; // an SRQ, whose WQEs have cookies
    std::uint16_t max_sge = 0;
    std::uint32_t stride = 0; // bytes of an entry
    std::uint32_t max_inline = 0;
    std::uint32_t payload_offset = VRDMA_SQ_PAYLOAD_OFFSET; // in a send WQE
    OpcodeSet opcodes = 0;                                  // of send WQEs
    std::uint64_t max_length = max_message_size;            // of send WQEs
};

// Whether the peer answers by its own response, and not by an acknowledgement. Both sides have set
// resources aside for it (max_rd_atomic).
constexpr bool is_answered(vrdma_sq_opcode opcode) noexcept {
    return opcode == VRDMA_SQ_RDMA_READ || opcode == VRDMA_SQ_ATOMIC_CMP_AND_SWP ||
           opcode == VRDMA_SQ_ATOMIC_FETCH_AND_ADD || opcode == VRDMA_SQ_ATOMIC_WRITE;
}

// Whether the message takes one of the peer's receive WQEs. `opcode` is from the guest, and may be
// invalid.
constexpr bool takes_receive(std::uint32_t opcode) noexcept {
    return opcode == VRDMA_SQ_SEND || opcode == VRDMA_SQ_SEND_WITH_IMM ||
           opcode == VRDMA_SQ_SEND_WITH_INV || opcode == VRDMA_SQ_RDMA_WRITE_WITH_IMM;
}

// The part of a request that the peer needs to know.
struct Message {
    vrdma_sq_opcode opcode = VRDMA_SQ_SEND;
    bool signaled = false;
    bool solicited = false;
    std::uint32_t imm = 0; // network order
    std::uint64_t length = 0;

    Key rkey; // or the peer's key that SEND_WITH_INV invalidates
    std::uint64_t remote_address = 0;
    std::uint64_t compare_add = 0;
    std::uint64_t swap = 0;
    Srqn srqn; // XRC

    bool has_imm() const noexcept {
        return opcode == VRDMA_SQ_SEND_WITH_IMM || opcode == VRDMA_SQ_RDMA_WRITE_WITH_IMM;
    }
    bool is_atomic() const noexcept {
        return opcode == VRDMA_SQ_ATOMIC_CMP_AND_SWP || opcode == VRDMA_SQ_ATOMIC_FETCH_AND_ADD;
    }
    // Whether bytes flow from the peer to this side.
    bool is_fetch() const noexcept { return opcode == VRDMA_SQ_RDMA_READ || is_atomic(); }
    // Whether the target is a word, which must be aligned.
    bool is_aligned() const noexcept { return is_atomic() || opcode == VRDMA_SQ_ATOMIC_WRITE; }
    // Whether no peer sees it.
    bool is_local() const noexcept {
        return opcode == VRDMA_SQ_BIND_MW || opcode == VRDMA_SQ_LOCAL_INV ||
               opcode == VRDMA_SQ_REG_MR;
    }
};

struct SendWqe : Message {
    AhId ah;
    bool has_av = false; // av replaces the AH
    PdId av_pd;          // of the AH that it was, for PVRDMA; else none
    vrdma_av av;
    Qpn dest_qpn;
    std::uint32_t qkey = 0;

    // Only for the opcodes with these names.
    vrdma_sq_bind bind;
    vrdma_sq_reg reg;

    // Inline data stays in the ring: nothing in it needs validation.
    std::span<std::byte> inline_data;
    std::uint32_t num_sge = 0;
    std::array<Sge, VRDMA_MAX_SGE> sges; // the first num_sge are valid

    std::span<const Sge> list() const noexcept { return {sges.data(), num_sge}; }
};

struct RecvWqe {
    std::uint64_t length = 0;
    WqeName name; // from an SRQ, the index is the cookie
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
