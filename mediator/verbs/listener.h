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
    void forget(std::uint64_t service);
    bool alone() const { return place_.endport->function_bits() == 0; }

    Resources& resources_;
    const Place place_;
    struct Listener {
        unsigned count; // never 0
        MemoryBudget::Lease lease;
    };
    std::map<std::uint64_t, Listener> listeners_; // by service
    const std::uint64_t cost_;
};

} // namespace vrdma::verbs
