// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The subject of an event: a QP, a CQ, an SRQ, or a page that a message waits for.
#pragma once

#include <cstdint>

#include "mediator/hca/soft/common/list.h"

namespace vrdma::hca::soft {

class CompletionQueue;

struct EventSource {
    explicit EventSource(std::uint32_t id_, CompletionQueue* cq_ = nullptr) : id{id_}, cq{cq_} {}

    std::uint32_t id;          // qpn, cqn or key
    CompletionQueue* const cq; // of completion events; async events have none
    std::uint32_t type = 0;    // of the event, if the source has only one; else 0
    std::uint64_t detail = 0;
    std::uint32_t pending = 0; // async: bit n for event n; others: bit 0
    ListHook<EventSource> line;
};

} // namespace vrdma::hca::soft
