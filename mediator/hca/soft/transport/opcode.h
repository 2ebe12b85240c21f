// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The packets that a message consists of (IBA 9.2.1, 9.4).
#pragma once

#include "mediator/hca/soft/slice/request.h"
#include "vrdma/roce.h"

namespace vrdma::hca::soft {

constexpr std::uint8_t transport_of(QpType type) noexcept {
    switch (type) {
        case QpType::uc:
            return VRDMA_ROCE_UC;
        case QpType::ud:
            return VRDMA_ROCE_UD;
        case QpType::xrc_send:
        case QpType::xrc_recv:
            return VRDMA_ROCE_XRC;
        default:
            return VRDMA_ROCE_RC;
    }
}

// The four kinds of packets of one operation.
struct Operations {
    std::uint8_t first;
    std::uint8_t middle;
    std::uint8_t last;
    std::uint8_t only;
};

constexpr Operations operations_of(vrdma_sq_opcode opcode) noexcept {
    constexpr auto single = [](std::uint8_t only) { return Operations{only, only, only, only}; };
    switch (opcode) {
        case VRDMA_SQ_SEND_WITH_IMM:
            return {VRDMA_ROCE_SEND_FIRST, VRDMA_ROCE_SEND_MIDDLE, VRDMA_ROCE_SEND_LAST_WITH_IMM,
                    VRDMA_ROCE_SEND_ONLY_WITH_IMM};
        case VRDMA_SQ_SEND_WITH_INV:
            return {VRDMA_ROCE_SEND_FIRST, VRDMA_ROCE_SEND_MIDDLE, VRDMA_ROCE_SEND_LAST_WITH_INV,
                    VRDMA_ROCE_SEND_ONLY_WITH_INV};
        case VRDMA_SQ_RDMA_WRITE:
            return {VRDMA_ROCE_WRITE_FIRST, VRDMA_ROCE_WRITE_MIDDLE, VRDMA_ROCE_WRITE_LAST,
                    VRDMA_ROCE_WRITE_ONLY};
        case VRDMA_SQ_RDMA_WRITE_WITH_IMM:
            return {VRDMA_ROCE_WRITE_FIRST, VRDMA_ROCE_WRITE_MIDDLE, VRDMA_ROCE_WRITE_LAST_WITH_IMM,
                    VRDMA_ROCE_WRITE_ONLY_WITH_IMM};
        case VRDMA_SQ_RDMA_READ:
            return single(VRDMA_ROCE_READ_REQUEST);
        case VRDMA_SQ_ATOMIC_CMP_AND_SWP:
            return single(VRDMA_ROCE_COMPARE_SWAP);
        case VRDMA_SQ_ATOMIC_FETCH_AND_ADD:
            return single(VRDMA_ROCE_FETCH_ADD);
        case VRDMA_SQ_ATOMIC_WRITE:
            return single(VRDMA_ROCE_ATOMIC_WRITE);
        default:
            return {VRDMA_ROCE_SEND_FIRST, VRDMA_ROCE_SEND_MIDDLE, VRDMA_ROCE_SEND_LAST,
                    VRDMA_ROCE_SEND_ONLY};
    }
}

inline constexpr Operations read_responses{
    VRDMA_ROCE_READ_RESPONSE_FIRST, VRDMA_ROCE_READ_RESPONSE_MIDDLE, VRDMA_ROCE_READ_RESPONSE_LAST,
    VRDMA_ROCE_READ_RESPONSE_ONLY};

constexpr std::uint8_t pick(const Operations& operations, bool first, bool last) noexcept {
    if (first) {
        return last ? operations.only : operations.first;
    }
    return last ? operations.last : operations.middle;
}

constexpr std::uint8_t request_opcode(QpType type, vrdma_sq_opcode opcode, bool first,
                                      bool last) noexcept {
    return transport_of(type) | pick(operations_of(opcode), first, last);
}

// The operation of a request's packet: its opcode, as far as the packet shows it, and the packet's
// place in the message.
struct RequestPacket {
    bool valid = false; // false: a response, or reserved
    vrdma_sq_opcode opcode = VRDMA_SQ_SEND;
    bool first = false;
    bool last = false;
};

constexpr RequestPacket read_request(std::uint8_t packet_opcode) noexcept {
    constexpr vrdma_sq_opcode requests[] = {VRDMA_SQ_SEND,
                                            VRDMA_SQ_SEND_WITH_IMM,
                                            VRDMA_SQ_SEND_WITH_INV,
                                            VRDMA_SQ_RDMA_WRITE,
                                            VRDMA_SQ_RDMA_WRITE_WITH_IMM,
                                            VRDMA_SQ_RDMA_READ,
                                            VRDMA_SQ_ATOMIC_CMP_AND_SWP,
                                            VRDMA_SQ_ATOMIC_FETCH_AND_ADD,
                                            VRDMA_SQ_ATOMIC_WRITE};
    const std::uint8_t operation = packet_opcode & VRDMA_ROCE_OPERATION;
    for (const vrdma_sq_opcode opcode : requests) {
        const Operations operations = operations_of(opcode);
        if (operation == operations.only) {
            return {true, opcode, true, true};
        }
        if (operation == operations.last) {
            return {true, opcode, false, true};
        }
        if (operation == operations.first) {
            return {true, opcode, true, false};
        }
        if (operation == operations.middle) {
            return {true, opcode, false, false};
        }
    }
    return {};
}

} // namespace vrdma::hca::soft
