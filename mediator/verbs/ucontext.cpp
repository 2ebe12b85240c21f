// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/ucontext.h"

namespace vrdma::verbs {
UcontextTable::UcontextTable(const Limits& limits, std::span<vrdma_doorbell_page> doorbells)
    : doorbells_{doorbells}, ids_{limits.max_ucontext()}, table_{limits.doorbell_pages} {
    table_.insert(kernel, {});
}

Result<UcontextId> UcontextTable::alloc() {
    const auto id = ids_.take();
    if (!id) {
        return fail(id.error());
    }
    doorbells_[*id] = {}; // what the page's last owner rang is nobody's work any more
    table_.insert(UcontextId{*id}, {});
    return UcontextId{*id};
}

Result<> UcontextTable::dealloc(UcontextId id) {
    const Ucontext* ucontext = table_.find(id);
    if (ucontext == nullptr || id == kernel) {
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
    writer.begin(Section::ucontexts, UcontextState::version, table_.size() - 1);
    for (const UcontextId id : table_.sorted_ids()) {
        if (id != kernel) {
            writer.put(UcontextState{id.value});
        }
    }
}

Result<> UcontextTable::restore_one(StateReader& reader) {
    const auto state = reader.take<UcontextState>();
    if (!state || !ids_.claim(state->id)) {
        return fail(std::errc::invalid_argument);
    }
    table_.insert(UcontextId{state->id}, {});
    return {};
}

Result<> UcontextTable::restore(StateReader& reader) {
    return restore_records(reader, Section::ucontexts, UcontextState::version,
                           [this](StateReader& from) { return restore_one(from); });
}

} // namespace vrdma::verbs
