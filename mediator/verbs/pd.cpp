// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/pd.h"

namespace vrdma::verbs {

PdTable::PdTable(Resources& resources, UcontextTable& ucontexts)
    : ucontexts_{ucontexts},
      ids_{resources.limits.max_pd},
      table_{resources.allowed.max_pd, resources.budget, 0} {}

Result<PdId> PdTable::alloc(UcontextId owner) {
    Ucontext* ucontext = ucontexts_.find(owner);
    if (ucontext == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    const auto id = ids_.take();
    if (!id) {
        return fail(id.error());
    }
    if (const auto added = table_.insert(PdId{*id}, {owner, ucontext->users.hold(), {}}); !added) {
        ids_.give_back(*id);
        return fail(added.error());
    }
    return PdId{*id};
}

Result<> PdTable::dealloc(PdId id) {
    const Pd* pd = table_.find(id);
    if (pd == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    if (pd->users.busy()) {
        return fail(std::errc::device_or_resource_busy);
    }
    table_.erase(id);
    ids_.give_back(id.value);
    return {};
}

void PdTable::save(StateWriter& writer) const {
    writer.begin(Section::pds, PdState::version, table_.size());
    for (const PdId id : table_.sorted_ids()) {
        writer.put(PdState{id.value, table_.find(id)->ucontext.value});
    }
}

Result<> PdTable::restore_one(StateReader& reader) {
    const auto state = reader.take<PdState>();
    if (!state) {
        return fail(state.error());
    }
    const UcontextId owner{state->ucontext};
    Ucontext* ucontext = ucontexts_.find(owner);
    if (ucontext == nullptr || !ids_.claim(state->id)) {
        return fail(std::errc::invalid_argument);
    }
    return table_.insert(PdId{state->id}, {owner, ucontext->users.hold(), {}});
}

Result<> PdTable::restore(StateReader& reader) {
    return restore_records(reader, Section::pds, PdState::version,
                           [this](StateReader& from) { return restore_one(from); });
}

} // namespace vrdma::verbs
