// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/listener.h"

#include "mediator/base/memory_cost.h"
#include "mediator/base/rollback.h"

namespace vrdma::verbs {

ListenerTable::ListenerTable(Resources& resources, Place place)
    : resources_{resources},
      place_{std::move(place)},
      cost_{map_cost<decltype(listeners_)::value_type>() + map_cost<std::uint64_t>() +
            resources.costs.listener} {
    resources.budget.widen(resources.limits.max_listener, cost_);
}

ListenerTable::~ListenerTable() {
    for (const auto& [service, listener] : listeners_) {
        place_.endport->unlisten(service);
    }
}

Result<> ListenerTable::listen(std::uint64_t service) {
    if (alone()) {
        return fail(std::errc::operation_not_supported);
    }
    if (service == 0) { // nobody's (IBA A3.2.3)
        return fail(std::errc::invalid_argument);
    }
    const auto found = listeners_.find(service);
    if (found != listeners_.end()) {
        ++found->second.count;
        return {};
    }
    if (listeners_.size() >= resources_.limits.max_listener) {
        return fail(std::errc::not_enough_memory);
    }
    auto lease = resources_.budget.take(cost_);
    if (!lease) {
        return fail(lease.error());
    }
    if (const auto first = place_.endport->listen(service); !first) {
        return first;
    }
    Rollback undo{[&] { forget(service); }};
    listeners_.emplace(service, Listener{1, std::move(*lease)});
    resources_.slice.listen(service);
    undo.keep();
    return {};
}

// Whether or not all know of it.
void ListenerTable::forget(std::uint64_t service) {
    resources_.slice.unlisten(service);
    place_.endport->unlisten(service);
    listeners_.erase(service);
}

Result<> ListenerTable::unlisten(std::uint64_t service) {
    if (alone()) {
        return fail(std::errc::operation_not_supported);
    }
    const auto found = listeners_.find(service);
    if (found == listeners_.end()) {
        return fail(std::errc::invalid_argument);
    }
    if (--found->second.count == 0) {
        forget(service);
    }
    return {};
}

} // namespace vrdma::verbs
