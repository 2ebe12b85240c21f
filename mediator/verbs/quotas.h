// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// How much of its resources an administrator leaves to a device. A quota can be less than the
// type's limit, and changes while the device is in use. The guest's driver is told the limit: an
// object above the quota cannot be made (ENOMEM), as with the kernel's rdma cgroup.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "mediator/verbs/limits.h"

namespace vrdma::verbs {

struct Quotas {
    static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();

    std::uint64_t pds = none;
    std::uint64_t mrs = none; // and as many windows
    std::uint64_t cqs = none;
    std::uint64_t qps = none;
    std::uint64_t srqs = none;
    std::uint64_t xrcds = none;
    std::uint64_t ahs = none;
    std::uint64_t blocks = none;
    std::uint64_t memory = none; // bytes

    bool operator==(const Quotas&) const = default;
};

// The limits with the quotas in the place of those that are larger.
inline Limits within(Limits limits, const Quotas& quotas) {
    const auto lower = [](auto& limit, std::uint64_t quota) {
        limit = static_cast<std::remove_reference_t<decltype(limit)>>(
            std::min<std::uint64_t>(limit, quota));
    };
    lower(limits.max_pd, quotas.pds);
    lower(limits.max_mr, quotas.mrs);
    lower(limits.max_cq, quotas.cqs);
    lower(limits.max_qp, quotas.qps);
    lower(limits.max_srq, quotas.srqs);
    lower(limits.max_xrcd, quotas.xrcds);
    lower(limits.max_ah, quotas.ahs);
    lower(limits.max_blocks, quotas.blocks);
    if (quotas.memory != Quotas::none) { // a limit of 0 bytes would mean that there is none
        limits.max_memory = std::max<std::uint64_t>(
            limits.max_memory != 0 ? std::min(limits.max_memory, quotas.memory) : quotas.memory, 1);
    }
    return limits;
}

} // namespace vrdma::verbs
