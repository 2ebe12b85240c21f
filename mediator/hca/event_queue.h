// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// EQs: what an EQ is made of, what the slice changes of it, and the calls for EQs.
#pragma once

#include <cstdint>

#include "mediator/base/result.h"
#include "mediator/base/types.h"
#include "mediator/hca/queue_format.h"
#include "mediator/hca/translation.h"

namespace vrdma::hca {

struct EqSpec {
    EqId id;
    Translation pages;
    std::uint32_t depth = 0;
    unsigned vector = 0;
    EventKind kind = EventKind::async; // only of PVRDMA
};

struct EqState {
    std::uint32_t producer = 0;
    std::uint32_t port_down = 0; // 1: the guest was last told that the port is down
};

class EventQueues {
  public:
    virtual Result<> create_eq(const EqSpec& spec) = 0;
    virtual void destroy_eq(EqId id) = 0;

    virtual EqState save_eq(EqId id) const = 0;
    virtual Result<> restore_eq(EqId id, const EqState& state) = 0;

  protected:
    ~EventQueues() = default;
};

} // namespace vrdma::hca
