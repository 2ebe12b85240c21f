// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The packets of a connection that its peer has not acknowledged, and the WQEs that they belong to.
#pragma once

#include "mediator/hca/soft/memory/span_list.h"
#include "mediator/hca/soft/transport/roce/connection.h"

namespace vrdma::hca::soft::roce {

inline bool is_reliable(const Connection& connection) noexcept {
    return connection.qp.reliable();
}

// Whether the WQE at the head has a place in `sent` already.
inline bool is_begun(const Outbound& out) noexcept {
    return out.cursor < out.sent.size();
}

// Whether it waits for the peer's receives, or for pages.
inline bool waits(const QueuePair& qp) noexcept {
    return qp.timer.place != Timer::unset;
}

Clock::time_point next_rto_deadline(const Connection& connection, Clock::time_point now) noexcept;
// The outstanding packets get the whole timeout again. arm() also sets the connection's timer.
void restart_timeout(Connection& connection) noexcept;
void arm(Connection& connection) noexcept;

// Completes the oldest WQE. Returns false if its CQ has failed, and the QP with it.
bool finish_oldest(Connection& connection, ibv_wc_status status, vrdma_vendor_err reason) noexcept;
// The oldest WQE fails, and with it the QP.
void fail_oldest(Connection& connection, ibv_wc_status status, vrdma_vendor_err reason) noexcept;

// Continues with `psn`, and the WQE that it belongs to: for the next packet to send, or the next
// response.
void position(Connection& connection, Psn psn) noexcept;
// Makes the oldest packet that is not acknowledged the next one.
void go_back(Connection& connection) noexcept;

enum class Way : std::uint8_t { out, in };

// Copies the bytes of a packet out of the guest's memory, or into it, from `offset` in the message
// on.
vrdma_vendor_err move_payload(QueuePair& qp, const SendWqe& wqe, std::uint64_t offset,
                              const SpanList& packet, Way way) noexcept;

} // namespace vrdma::hca::soft::roce
