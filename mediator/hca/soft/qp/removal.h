// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Removes SRQs and QPs from a slice, and ends what they have under way. The caller frees the
// removed object, but not on the poller's thread. nullptr: there is no such object.
#pragma once

#include <memory>

#include "mediator/hca/soft/slice/slice_core.h"

namespace vrdma::hca::soft {

std::unique_ptr<SharedReceiveQueue> remove(SliceCore& slice, Srqn id) noexcept;
std::unique_ptr<QueuePair> remove(SliceCore& slice, Qpn id) noexcept;

} // namespace vrdma::hca::soft
