// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/counter_set.h"

namespace vrdma::verbs {

CounterSetTable::CounterSetTable(Resources& resources)
    : resources_{resources},
      ids_{resources.limits.max_counter_set},
      table_{resources.limits.max_counter_set, resources.budget, resources.costs.counter_set} {}

Result<> CounterSetTable::add(CounterSetId id) {
    return table_.insert(
        id, {}, [&](const CounterSet&) { return resources_.slice.create_counter_set(id); });
}

Result<CounterSetId> CounterSetTable::alloc() {
    const auto id = ids_.take();
    if (!id) {
        return fail(id.error());
    }
    Rollback undo{[&] { ids_.give_back(*id); }};
    if (const auto added = add(CounterSetId{*id}); !added) {
        return fail(added.error());
    }
    undo.keep();
    return CounterSetId{*id};
}

Result<> CounterSetTable::dealloc(CounterSetId id) {
    const CounterSet* set = table_.find(id);
    if (set == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    if (set->users.busy()) {
        return fail(std::errc::device_or_resource_busy);
    }
    resources_.slice.destroy_counter_set(id);
    table_.erase(id);
    ids_.give_back(id.value);
    return {};
}

Result<vrdma_counters> CounterSetTable::counters(CounterSetId id) const {
    if (table_.find(id) == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    return resources_.slice.set_counters(id);
}

void CounterSetTable::save(StateWriter& writer) const {
    writer.begin(Section::counter_sets, CounterSetState::version, table_.size());
    for (const CounterSetId id : table_.sorted_ids()) {
        writer.put(CounterSetState{id.value});
    }
}

Result<> CounterSetTable::restore_one(StateReader& reader) {
    const auto state = reader.take<CounterSetState>();
    if (!state || !ids_.claim(state->id)) {
        return fail(std::errc::invalid_argument);
    }
    return add(CounterSetId{state->id});
}

Result<> CounterSetTable::restore(StateReader& reader) {
    return restore_records(reader, Section::counter_sets, CounterSetState::version,
                           [this](StateReader& from) { return restore_one(from); });
}

} // namespace vrdma::verbs
