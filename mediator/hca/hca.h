// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The HCA as the verbs layer sees it. It is shaped like hardware: carve() creates a slice for each
// virtual device. The slice gets its doorbell pages, translations and queues, and then moves data
// by itself.
//
// The verbs layer has validated everything that it programs, and owns it: ids are unique and of
// this device, objects exist and are not in use when destroyed, state transitions are legal. The
// slice itself must validate everything that lies in guest memory (WQEs, rings, indices).
//
// All calls come from the control thread and take effect before they return.
#pragma once

#include <memory>

#include "mediator/hca/slice.h"

namespace vrdma::hca {

class Hca {
  public:
    virtual ~Hca() = default;
    // ENODEV: there is no such uplink.
    virtual Result<std::unique_ptr<Slice>> carve(const SliceSpec& spec, SliceHost& host) = 0;
    // The version of what save_connection() of its slices returns.
    virtual std::uint32_t connection_version() const noexcept = 0;
};

} // namespace vrdma::hca
