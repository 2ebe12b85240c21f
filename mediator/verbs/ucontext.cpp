// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/ucontext.h"

namespace vrdma::verbs {
UcontextTable::UcontextTable(Resources& resources, std::span<vrdma_doorbell_page> doorbells)
    : doorbells_{doorbells},
      limit_{resources.limits.max_ucontext()},
      ids_{limit_},
      table_{limit_, resources.budget, resources.costs.ucontext} {}

Result<UcontextId> UcontextTable::alloc() {
    const auto id = ids_.take();
    if (!id) {
        return fail(id.error());
    }
    if (const auto added = table_.insert(UcontextId{*id}, {}); !added) {
        ids_.give_back(*id);
        return fail(added.error());
    }
    doorbells_[*id] = {}; // doorbells of the page's last owner do not count any more
    return UcontextId{*id};
}

Result<> UcontextTable::dealloc(UcontextId id) {
    const Ucontext* ucontext = table_.find(id);
    if (ucontext == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    if (ucontext->users.busy()) {
        return fail(std::errc::device_or_resource_busy);
    }
    table_.erase(id);
    ids_.give_back(id.value);
    return {};
}

void UcontextTable::save(StateWriter& writer) const {
    writer.begin(Section::ucontexts, UcontextState::version, table_.size());
    for (const UcontextId id : table_.sorted_ids()) {
        writer.put(UcontextState{id.value});
    }
}

Result<> UcontextTable::restore_one(StateReader& reader) {
    const auto state = reader.take<UcontextState>();
    if (!state || !ids_.claim(state->id)) {
        return fail(std::errc::invalid_argument);
    }
    return table_.insert(UcontextId{state->id}, {});
}

Result<> UcontextTable::restore(StateReader& reader) {
    return restore_records(reader, Section::ucontexts, UcontextState::version,
                           [this](StateReader& from) { return restore_one(from); });
}

} // namespace vrdma::verbs
