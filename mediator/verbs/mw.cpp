// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/mw.h"

#include <infiniband/verbs.h>

namespace vrdma::verbs {

// A device may have as many windows as regions.
MwTable::MwTable(Resources& resources, PdTable& pds, KeySpace& keys)
    : resources_{resources},
      pds_{pds},
      keys_{keys},
      table_{resources.allowed.max_mr, resources.budget, KeySpace::cost + resources.costs.mw} {}

Result<> MwTable::check(const hca::MwSpec& spec) const {
    if (pds_.find(spec.pd) == nullptr ||
        (spec.type != IBV_MW_TYPE_1 && spec.type != IBV_MW_TYPE_2)) {
        return fail(std::errc::invalid_argument);
    }
    return table_.full() ? fail(std::errc::not_enough_memory) : Result<>{};
}

Result<> MwTable::add(const hca::MwSpec& spec) {
    return table_.insert(spec.key, {spec, pds_.find(spec.pd)->users.hold()},
                         [&](const Mw& made) { return resources_.slice.allocate_mw(made.spec); });
}

Result<Key> MwTable::alloc(const vrdma_cmd_alloc_mw& cmd) {
    hca::MwSpec spec{{}, PdId{cmd.pd}, cmd.type};
    if (const auto valid = check(spec); !valid) {
        return fail(valid.error());
    }
    const auto key = keys_.take();
    if (!key) {
        return key;
    }
    spec.key = *key;
    if (const auto added = add(spec); !added) {
        keys_.give_back(*key);
        return fail(added.error());
    }
    return key;
}

Result<> MwTable::dealloc(Key key) {
    if (table_.find(key) == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    resources_.slice.deallocate_mw(key);
    table_.erase(key);
    keys_.give_back(key);
    return {};
}

void MwTable::save(StateWriter& writer) const {
    writer.begin(Section::mws, MwState::version, table_.size());
    for (const Key key : table_.sorted_ids()) {
        const hca::MwSpec& spec = table_.find(key)->spec;
        writer.put(MwState{key.value, spec.pd.value, spec.type, 0, resources_.slice.save_mw(key)});
    }
}

Result<> MwTable::restore_one(StateReader& reader) {
    const auto state = reader.take<MwState>();
    if (!state || state->reserved != 0) {
        return fail(std::errc::invalid_argument);
    }
    const hca::MwSpec spec{Key{state->key}, PdId{state->pd}, state->type};
    return check(spec)
        .and_then([&] { return keys_.claim(spec.key); })
        .and_then([&] { return add(spec); })
        .and_then([&] { return resources_.slice.restore_mw(spec.key, state->slice); });
}

Result<> MwTable::restore(StateReader& reader) {
    return restore_records(reader, Section::mws, MwState::version,
                           [this](StateReader& from) { return restore_one(from); });
}

} // namespace vrdma::verbs
