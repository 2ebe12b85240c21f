// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/qp/send_completion.h"

#include "mediator/hca/soft/qp/complete.h"

namespace vrdma::hca::soft {
namespace {

std::uint32_t completion_opcode(vrdma_sq_opcode opcode) noexcept {
    switch (opcode) {
        case VRDMA_SQ_RDMA_WRITE:
        case VRDMA_SQ_RDMA_WRITE_WITH_IMM:
            return IBV_WC_RDMA_WRITE;
        case VRDMA_SQ_RDMA_READ:
            return IBV_WC_RDMA_READ;
        case VRDMA_SQ_ATOMIC_CMP_AND_SWP:
            return IBV_WC_COMP_SWAP;
        case VRDMA_SQ_ATOMIC_FETCH_AND_ADD:
            return IBV_WC_FETCH_ADD;
        case VRDMA_SQ_ATOMIC_WRITE:
            return IBV_WC_ATOMIC_WRITE;
        case VRDMA_SQ_BIND_MW:
            return IBV_WC_BIND_MW;
        case VRDMA_SQ_LOCAL_INV:
            return IBV_WC_LOCAL_INV;
        case VRDMA_SQ_REG_MR:
            return VRDMA_CQE_REG_MR;
        default:
            return IBV_WC_SEND;
    }
}

vrdma_counter counter_of(ibv_wc_status status) noexcept {
    switch (status) {
        case IBV_WC_RETRY_EXC_ERR:
            return VRDMA_COUNTER_RETRIES_EXCEEDED;
        case IBV_WC_RNR_RETRY_EXC_ERR:
            return VRDMA_COUNTER_RNR_RETRIES_EXCEEDED;
        case IBV_WC_REM_ACCESS_ERR:
            return VRDMA_COUNTER_REMOTE_ACCESS_ERRORS;
        case IBV_WC_REM_INV_REQ_ERR:
            return VRDMA_COUNTER_REMOTE_INVALID_REQUESTS;
        case IBV_WC_REM_OP_ERR:
            return VRDMA_COUNTER_REMOTE_OP_ERRORS;
        default:
            return VRDMA_COUNTER_LOCAL_ERRORS;
    }
}

} // namespace

bool write_completion(QueuePair& qp, const WqeName& wqe, const Message& message,
                      ibv_wc_status status, vrdma_vendor_err reason) noexcept {
    vrdma_cqe entry{};
    entry.ctrl = VRDMA_SET(VRDMA_CQE_STATUS, static_cast<std::uint32_t>(status)) |
                 VRDMA_SET(VRDMA_CQE_OPCODE, completion_opcode(message.opcode));
    if (status == IBV_WC_SUCCESS && message.is_fetch()) {
        entry.byte_len = static_cast<std::uint32_t>(message.length);
    }
    entry.vendor_err = reason;
    return complete(qp, *qp.send_cq, entry, wqe, status != IBV_WC_SUCCESS);
}

void count_failure(QueuePair& qp, ibv_wc_status status) noexcept {
    qp.count(counter_of(status));
}

} // namespace vrdma::hca::soft
