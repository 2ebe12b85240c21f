// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Executes messages between slices of different pollers: the responder's side of the requests that
// come over a cross queue, and the requester's side of their answers.
#pragma once

#include "mediator/hca/soft/slice/cross_queue.h"

namespace vrdma::hca::soft {

class CrossRequests : public CrossQueue::Handler {
  public:
    void execute(CrossRequest& request) noexcept override;
    void conclude(QueuePair& sender, const CrossRequest& request) noexcept override;
    void resume(QueuePair& sender) noexcept override;
};

// The same for an engine that has slices with sniffers.
class SniffedCrossRequests final : public CrossRequests {
  public:
    void conclude(QueuePair& sender, const CrossRequest& request) noexcept override;
};

} // namespace vrdma::hca::soft
