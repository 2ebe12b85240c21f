// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/listener.h"

namespace vrdma::verbs {

ListenerTable::ListenerTable(Resources& resources, Place place)
    : resources_{resources}, place_{std::move(place)} {}

ListenerTable::~ListenerTable() {
    for (const auto& [service, count] : counts_) {
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
    const auto found = counts_.find(service);
    if (found != counts_.end()) {
        ++found->second;
        return {};
    }
    if (counts_.size() >= resources_.limits.max_listener) {
        return fail(std::errc::not_enough_memory);
    }
    if (const auto first = place_.endport->listen(service); !first) {
        return first;
    }
    resources_.slice.listen(service);
    counts_.emplace(service, 1);
    return {};
}

Result<> ListenerTable::unlisten(std::uint64_t service) {
    if (alone()) {
        return fail(std::errc::operation_not_supported);
    }
    const auto found = counts_.find(service);
    if (found == counts_.end()) {
        return fail(std::errc::invalid_argument);
    }
    if (--found->second == 0) {
        resources_.slice.unlisten(service);
        place_.endport->unlisten(service);
        counts_.erase(found);
    }
    return {};
}

} // namespace vrdma::verbs
