// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The services of the endport to which this function listens.
#pragma once

#include <map>

#include "mediator/verbs/endport.h"
#include "mediator/verbs/saved_state.h"

namespace vrdma::verbs {

struct ListenerState {
    static constexpr std::uint32_t version = 1;

    std::uint64_t service;
    std::uint64_t count;
};

class ListenerTable {
  public:
    ListenerTable(Resources& resources, FunctionId function_id);
    ListenerTable(const ListenerTable&) = delete;
    ListenerTable& operator=(const ListenerTable&) = delete;
    ~ListenerTable();

    // A function may listen to a service several times, and stops after as many calls of
    // unlisten().
    Result<> listen(std::uint64_t service);
    Result<> unlisten(std::uint64_t service);

    void save(StateWriter& writer) const;
    // Fails with EADDRINUSE if another function listens to such a service by now.
    Result<> restore(StateReader& reader);

  private:
    Result<> restore_one(StateReader& reader);
    void forget(std::uint64_t service);
    bool alone() const { return function_id_.endport->function_bits() == 0; }

    Resources& resources_;
    const FunctionId function_id_;
    struct Listener {
        std::uint64_t count; // never 0
        MemoryBudget::Lease lease;
    };
    std::map<std::uint64_t, Listener> listeners_; // by service
    const std::uint64_t cost_;
};

} // namespace vrdma::verbs
