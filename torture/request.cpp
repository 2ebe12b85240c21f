// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "torture/request.h"

#include <array>

namespace vrdma::torture {

unsigned Request::send_flags() const {
    unsigned flags = 0;
    flags |= signaled ? IBV_SEND_SIGNALED : 0;
    flags |= inlined ? IBV_SEND_INLINE : 0;
    flags |= solicited ? IBV_SEND_SOLICITED : 0;
    flags |= fenced ? IBV_SEND_FENCE : 0;
    return flags;
}

std::span<const ibv_wr_opcode> opcodes_of(ibv_qp_type type) {
    static constexpr std::array all{IBV_WR_SEND,
                                    IBV_WR_SEND_WITH_IMM,
                                    IBV_WR_RDMA_WRITE,
                                    IBV_WR_RDMA_WRITE_WITH_IMM,
                                    IBV_WR_RDMA_READ,
                                    IBV_WR_ATOMIC_CMP_AND_SWP,
                                    IBV_WR_ATOMIC_FETCH_AND_ADD};
    constexpr std::size_t of_ud = 2;
    constexpr std::size_t of_uc = 4;
    const std::span<const ibv_wr_opcode> opcodes{all};
    return type == IBV_QPT_UD   ? opcodes.first(of_ud)
           : type == IBV_QPT_UC ? opcodes.first(of_uc)
                                : opcodes;
}

} // namespace vrdma::torture
