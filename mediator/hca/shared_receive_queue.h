// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// SRQs: what an SRQ is made of, what the slice changes of it, and the calls for SRQs.
#pragma once

#include <cstdint>
#include <optional>

#include "mediator/base/result.h"
#include "mediator/base/types.h"
#include "mediator/hca/translation.h"

namespace vrdma::hca {

struct SrqSpec {
    Srqn id;
    PdId pd;
    Translation pages;
    std::uint32_t depth = 0;
    std::uint8_t stride_shift = 0;
    std::uint16_t max_sge = 0;
    XrcdId xrcd; // the XRC domain whose QPs it serves, or none
    Cqn cq;      // only with an XRC domain
};

struct SrqState {
    std::uint32_t head = 0;
    std::uint32_t limit = 0;  // 0: not armed
    std::uint32_t events = 0; // bit n: async event n (enum ibv_event_type) waits for room
};

class SharedReceiveQueues {
  public:
    virtual Result<> create_srq(const SrqSpec& spec) = 0;
    // Arms the limit event. 0 disarms it.
    virtual Result<> modify_srq(Srqn id, std::uint32_t limit) = 0;
    // Takes further WQEs from another ring with `depth` places (see vrdma_cmd_resize_srq), and arms
    // the limit if one is given. EINVAL if the WQEs that are left, or an armed limit, exceed
    // `depth`.
    virtual Result<> resize_srq(Srqn id, const Translation& pages, std::uint32_t depth,
                                std::optional<std::uint32_t> limit) = 0;
    virtual Result<std::uint32_t> query_srq(Srqn id) const = 0; // the limit
    virtual void destroy_srq(Srqn id) = 0;

    virtual SrqState save_srq(Srqn id) const = 0;
    virtual Result<> restore_srq(Srqn id, const SrqState& state) = 0;

  protected:
    ~SharedReceiveQueues() = default;
};

} // namespace vrdma::hca
