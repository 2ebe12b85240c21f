// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The limits of one device. Its type sets the numbers of objects, and the HCA sets their sizes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mediator/hca/port.h"
#include "vrdma/device.h"
#include "vrdma/queue.h"

namespace vrdma::verbs {

struct Limits {
    std::uint32_t doorbell_pages = 16; // one for the guest's kernel, one per user context
    std::uint32_t vectors = 4;
    std::uint32_t max_pd = 64;
    std::uint32_t max_mr = 2048;
    std::uint32_t max_cq = 512;
    std::uint32_t max_qp = 256;
    std::uint32_t max_srq = 256;
    std::uint32_t max_xrcd = 256;
    std::uint32_t max_counter_set = 1024;
    std::uint32_t max_mcast_grp = 256;
    std::uint32_t max_mcast_qp_attach = 64; // per group: as many copies of a datagram
    std::uint32_t max_total_mcast_qp_attach = 4096;
    std::uint32_t max_listener = 1024;
    std::uint32_t max_ah = 1024;
    std::uint32_t max_eq = 4;
    std::uint64_t max_blocks = 1ull << 20; // of all translations together
    // Bytes of the mediator's memory for all objects. 0: as many as they can take at most.
    std::uint64_t max_memory = 0;
    std::uint64_t max_mr_size = 1ull << 40;

    std::uint32_t max_cqe = VRDMA_MAX_CQ_DEPTH;
    std::uint32_t max_qp_wr = VRDMA_MAX_QUEUE_DEPTH;
    std::uint32_t max_inline = 1000; // with the WQE header, a stride of 1 KiB
    std::uint16_t max_sge = VRDMA_MAX_SGE;
    std::uint16_t gid_table_len = 128;
    std::uint8_t max_rd_atomic = 16;

    std::uint32_t max_ucontext() const { return doorbell_pages - 1; }
};

inline Limits within(Limits limits, const hca::HardwareLimits& hardware) {
    limits.max_mr_size = std::min(limits.max_mr_size, hardware.max_mr_size);
    limits.max_sge = std::min(limits.max_sge, hardware.max_sge);
    limits.max_rd_atomic = std::min(limits.max_rd_atomic, hardware.max_rd_atomic);
    if (!hardware.shares_receives) {
        limits.max_srq = 0;
        limits.max_xrcd = 0;
    }
    return limits;
}

} // namespace vrdma::verbs
