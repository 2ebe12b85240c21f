// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The names of a device's counters for people: those of "rdma statistic" in a guest
// (kernel-ib/counters.c), which are mlx5's and rxe's where these have the counter.
#pragma once

#include <array>

#include "vrdma/device.h"

namespace vrdma::management {

inline constexpr std::array<const char*, VRDMA_NUM_COUNTERS> counter_names{
    "tx_bytes",
    "rx_bytes",
    "tx_messages",
    "rx_messages",
    "dropped_messages",
    "flushed_wqes",
    "rnr_nak_retry_err",
    "local_ack_timeout_err",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "req_remote_access_errors",
    "req_remote_op_errors",
    "local_errors",
    "refused_requests",
    "cq_overruns",
    "tx_packets",
    "rx_packets",
    "retransmits",
    "roce_adp_retrans",
    "duplicate_request",
    "out_of_sequence",
    "packet_seq_err",
    "implied_nak_seq_err",
    "req_remote_invalid_request",
    "send_seq_naks",
    "send_rnr_err",
    "resp_remote_access_errors",
    "resp_remote_op_errors",
    "resp_remote_invalid_request",
    "rx_icrc_encapsulated",
    "rx_malformed",
    "rx_bad_pkey",
    "rx_wrong_source",
    "rx_unknown_qp",
    "rx_wrong_state",
    "rx_bad_qkey",
    "rx_stale_responses",
    "np_ecn_marked_roce_packets",
    "np_cnp_sent",
    "rp_cnp_handled",
};
static_assert(counter_names.back() != nullptr, "a counter has no name");

} // namespace vrdma::management
