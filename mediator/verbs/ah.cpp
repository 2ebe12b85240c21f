// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/ah.h"

#include <algorithm>

namespace vrdma::verbs {

AhTable::AhTable(Resources& resources, PdTable& pds, const GidTable& gids)
    : resources_{resources},
      pds_{pds},
      gids_{gids},
      ids_{resources.limits.max_ah},
      table_{resources.allowed.max_ah, resources.budget, resources.costs.ah} {}

Result<> AhTable::add(AhId id, PdId pd, const vrdma_av& av) {
    Pd* owner = pds_.find(pd);
    if (owner == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    return table_.insert(id, {pd, av, owner->users.hold()}, [&](const Ah&) {
        return resources_.slice.create_ah({id, pd, av});
    });
}

Result<AhId> AhTable::create(const vrdma_cmd_create_ah& cmd) {
    if (cmd.reserved != 0) {
        return fail(std::errc::invalid_argument);
    }
    if (const auto valid = check_av(cmd.av, gids_); !valid) {
        return fail(valid.error());
    }
    const auto id = ids_.take();
    if (!id) {
        return fail(id.error());
    }
    if (const auto added = add(AhId{*id}, PdId{cmd.pd}, cmd.av); !added) {
        ids_.give_back(*id);
        return fail(added.error());
    }
    return AhId{*id};
}

Result<> AhTable::destroy(AhId id) {
    if (table_.find(id) == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    resources_.slice.destroy_ah(id);
    table_.erase(id);
    ids_.give_back(id.value);
    return {};
}

std::size_t AhTable::users_of(Protocols protocols) const {
    return static_cast<std::size_t>(std::ranges::count_if(table_.sorted_ids(), [&](AhId id) {
        return gids_.is_of(table_.find(id)->av.sgid_index, protocols);
    }));
}

void AhTable::save(StateWriter& writer) const {
    writer.begin(Section::ahs, AhState::version, table_.size());
    for (const AhId id : table_.sorted_ids()) {
        const Ah* ah = table_.find(id);
        writer.put(AhState{id.value, ah->pd.value, ah->av});
    }
}

// The source GID of an AH may be gone by now, so its entry need not be set.
Result<> AhTable::restore_one(StateReader& reader) {
    const auto state = reader.take<AhState>();
    if (!state || !is_well_formed(state->av)) {
        return fail(std::errc::invalid_argument);
    }
    if (const auto claimed = ids_.claim(state->id); !claimed) {
        return claimed;
    }
    return add(AhId{state->id}, PdId{state->pd}, state->av);
}

Result<> AhTable::restore(StateReader& reader) {
    return restore_records(reader, Section::ahs, AhState::version,
                           [this](StateReader& from) { return restore_one(from); });
}

} // namespace vrdma::verbs
