// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A work request as both sides know it before it is posted: what it does, and to whom.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

namespace vrdma::torture {

struct Request {
    ibv_wr_opcode opcode = IBV_WR_SEND;
    std::uint32_t length = 0;
    std::uint32_t imm = 0;
    bool inlined = false;
    bool signaled = false;
    bool solicited = false;
    bool fenced = false;
    bool matches = false; // the compare value of a compare and swap is right

    bool is_atomic() const {
        return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    }
    bool is_fetch() const { return opcode == IBV_WR_RDMA_READ || is_atomic(); }
    bool has_imm() const {
        return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    }
    bool is_write() const {
        return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    }
    bool is_send() const {
        return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
               opcode == IBV_WR_SEND_WITH_INV;
    }
    bool takes_receive() const { return is_send() || has_imm(); }
    // Concerns the sender's own window only.
    bool is_local() const { return opcode == IBV_WR_BIND_MW || opcode == IBV_WR_LOCAL_INV; }

    unsigned send_flags() const;
};

// The opcodes of messages that QPs of a type can send. RC has more: those that bind or invalidate
// a key.
std::span<const ibv_wr_opcode> opcodes_of(ibv_qp_type type);

} // namespace vrdma::torture
