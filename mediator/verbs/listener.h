// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The services that this function listens to, of those of its endport.
#pragma once

#include <map>

#include "mediator/verbs/endport.h"

namespace vrdma::verbs {

class ListenerTable {
  public:
    ListenerTable(Resources& resources, Place place);
    ListenerTable(const ListenerTable&) = delete;
    ListenerTable& operator=(const ListenerTable&) = delete;
    ~ListenerTable();

    // Any number of times, and it stops as often.
    Result<> listen(std::uint64_t service);
    Result<> unlisten(std::uint64_t service);

  private:
    bool alone() const { return place_.endport->function_bits() == 0; }

    Resources& resources_;
    const Place place_;
    std::map<std::uint64_t, unsigned> counts_; // none is 0
};

} // namespace vrdma::verbs
