// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The report of a completed send WQE: its CQE, and its counters.
#pragma once

#include "mediator/hca/soft/slice/slice_core.h"

namespace vrdma::hca::soft {

// Returns false if the CQ has no room. Only the opcode and the length of the message are used.
[[nodiscard]] bool write_completion(QueuePair& qp, const WqeName& wqe, const Message& message,
                                    ibv_wc_status status, vrdma_vendor_err reason) noexcept;

inline void count_success(QueuePair& qp, const Message& message) noexcept {
    qp.count(VRDMA_COUNTER_TX_MESSAGES);
    qp.count(message.is_fetch() ? VRDMA_COUNTER_RX_BYTES : VRDMA_COUNTER_TX_BYTES, message.length);
}
void count_failure(QueuePair& qp, ibv_wc_status status) noexcept;

} // namespace vrdma::hca::soft
