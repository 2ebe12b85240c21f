// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// CQs: what a CQ is made of, what the slice changes of it, and the calls for CQs.
#pragma once

#include <cstdint>

#include "mediator/base/result.h"
#include "mediator/base/types.h"
#include "mediator/hca/translation.h"
#include "vrdma/bits.h"

namespace vrdma::hca {

// An event that the guest asked for is due after `count` CQEs or after `period_us`, as far as these
// are not 0.
struct CqModeration {
    std::uint16_t count = 0;
    std::uint16_t period_us = 0;
};

struct CqSpec {
    Cqn id;
    Translation pages;
    std::uint32_t depth = 0;
    EqId eq;
    bool timestamped = false;
    bool ignore_overrun = false;
    CqModeration moderation{};
};

struct CqState {
    std::uint32_t producer = 0;
    // In place as VRDMA_CQ_ARM_SEQUENCE. For PVRDMA: what its guest has asked for (arm_cq()), in
    // the fields below.
    std::uint32_t fired = 0;
    std::uint32_t error = 0;  // 1: overrun, or the guest's index was out of range
    std::uint32_t events = 0; // the events that wait for room in their event queue
    static constexpr std::uint32_t completion_waits = 1;
    static constexpr std::uint32_t error_waits = 2;
    // In `fired`. The guest has asked for an event at any time; for entries, or for solicited ones,
    // since the last event; and how many entries there are since then, or all that fit.
    static constexpr std::uint32_t uses_events = 1;
    static constexpr std::uint32_t wants_any = 2;
    static constexpr std::uint32_t wants_solicited = 4;
    static constexpr std::uint32_t new_entries = VRDMA_MASK(31, 8);
};

class CompletionQueues {
  public:
    virtual Result<> create_cq(const CqSpec& spec) = 0;
    // Writes further CQEs to another ring with `depth` places (see vrdma_cmd_resize_cq). EINVAL if
    // the guest has more than `depth` CQEs left to consume.
    virtual Result<> resize_cq(Cqn id, const Translation& pages, std::uint32_t depth) = 0;
    virtual Result<> moderate_cq(Cqn id, const CqModeration& moderation) = 0;
    // Asks for an event, for PVRDMA's doorbell: other guests ask in memory. The event also comes
    // for CQEs that were written since the last event, and that the guest has not taken.
    virtual void arm_cq(Cqn id, bool solicited_only) = 0;
    virtual void destroy_cq(Cqn id) = 0;

    virtual CqState save_cq(Cqn id) const = 0;
    virtual Result<> restore_cq(Cqn id, const CqState& state) = 0;

  protected:
    ~CompletionQueues() = default;
};

} // namespace vrdma::hca
