// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/listener.h"

#include "mediator/base/memory_cost.h"
#include "mediator/base/rollback.h"

namespace vrdma::verbs {

ListenerTable::ListenerTable(Resources& resources, FunctionId function_id)
    : resources_{resources},
      function_id_{std::move(function_id)},
      cost_{map_cost<decltype(listeners_)::value_type>() + map_cost<std::uint64_t>() +
            resources.costs.listener} {
    resources.budget.widen(resources.limits.max_listener, cost_);
}

ListenerTable::~ListenerTable() {
    for (const auto& [service, listener] : listeners_) {
        function_id_.endport->unlisten(service);
    }
}

Result<> ListenerTable::listen(std::uint64_t service) {
    if (alone()) {
        return fail(std::errc::operation_not_supported);
    }
    if (service == 0) { // no service (IBA A3.2.3)
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
    if (const auto first = function_id_.endport->listen(service); !first) {
        return first;
    }
    Rollback undo{[&] { forget(service); }};
    listeners_.emplace(service, Listener{1, std::move(*lease)});
    resources_.slice.listen(service);
    undo.keep();
    return {};
}

// May be called when only a part of listen() was done.
void ListenerTable::forget(std::uint64_t service) {
    resources_.slice.unlisten(service);
    function_id_.endport->unlisten(service);
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

void ListenerTable::save(StateWriter& writer) const {
    writer.begin(Section::listeners, ListenerState::version, listeners_.size());
    for (const auto& [service, listener] : listeners_) {
        writer.put(ListenerState{service, listener.count});
    }
}

Result<> ListenerTable::restore_one(StateReader& reader) {
    const auto state = reader.take<ListenerState>();
    if (!state || state->count == 0 || listeners_.contains(state->service)) {
        return fail(std::errc::invalid_argument);
    }
    return listen(state->service).map([&] { listeners_.at(state->service).count = state->count; });
}

Result<> ListenerTable::restore(StateReader& reader) {
    return restore_records(reader, Section::listeners, ListenerState::version,
                           [this](StateReader& from) { return restore_one(from); });
}

} // namespace vrdma::verbs
