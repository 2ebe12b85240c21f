// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Executes messages between slices of different pollers: the responder's side of the requests that
// come over a cross queue, and the requester's side of their answers.
#pragma once

#include "mediator/hca/soft/slice/cross_queue.h"

namespace vrdma::hca::soft {

class CrossRequests final : public CrossQueue::Handler {
  public:
    void execute(CrossRequest& request) noexcept override;
    void conclude(QueuePair& sender, const Request& request, Ack ack) noexcept override;
    void resume(QueuePair& sender) noexcept override;
};

} // namespace vrdma::hca::soft
