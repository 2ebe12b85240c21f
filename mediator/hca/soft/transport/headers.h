// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What a message says in the transport's headers of its packets.
#pragma once

#include "mediator/hca/soft/slice/request.h"
#include "mediator/hca/soft/transport/opcode.h"
#include "mediator/wire/packet.h"

namespace vrdma::hca::soft {

// Of the packet of a connected QP's message with the bytes from `offset` on. A READ asks for these
// bytes.
inline wire::Headers headers_of(QpType type, const Message& message, std::uint64_t offset,
                                bool first, bool last) noexcept {
    const std::uint64_t skipped = message.opcode == VRDMA_SQ_RDMA_READ ? offset : 0;
    const bool swaps = message.opcode == VRDMA_SQ_ATOMIC_CMP_AND_SWP;
    wire::Headers headers;
    headers.opcode = request_opcode(type, message.opcode, first, last);
    headers.solicited = message.solicited && last && takes_receive(message.opcode);
    headers.address = message.remote_address + skipped;
    headers.rkey = message.rkey.value;
    headers.length = static_cast<std::uint32_t>(message.length - skipped);
    headers.swap_add = swaps ? message.swap : message.compare_add;
    headers.compare = swaps ? message.compare_add : 0;
    headers.imm = message.imm;
    headers.srqn = message.srqn.value;
    return headers;
}

inline wire::Headers headers_of_datagram(const Message& message, const Route& route) noexcept {
    wire::Headers headers;
    headers.opcode = request_opcode(QpType::ud, message.opcode, true, true);
    headers.solicited = message.solicited;
    headers.pkey = route.pkey;
    headers.target_qpn = route.to.value;
    headers.imm = message.imm;
    headers.qkey = route.qkey;
    headers.source_qpn = route.from.value;
    return headers;
}

// Of an AETH.
constexpr std::uint8_t syndrome(vrdma_syndrome_type type, std::uint32_t value) noexcept {
    return static_cast<std::uint8_t>(VRDMA_SET(VRDMA_SYNDROME_TYPE, std::uint32_t{type}) |
                                     VRDMA_SET(VRDMA_SYNDROME_VALUE, value));
}

} // namespace vrdma::hca::soft
