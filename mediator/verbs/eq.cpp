// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/eq.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace vrdma::verbs {
namespace {

constexpr std::uint32_t min_depth = 16;

} // namespace

EqTable::EqTable(Resources& resources)
    : resources_{resources},
      ids_{resources.limits.max_eq},
      table_{resources.limits.max_eq, resources.budget, resources.costs.eq} {}

Result<> EqTable::check(const hca::EqSpec& spec) const {
    if (!std::has_single_bit(spec.depth) || spec.depth < min_depth ||
        spec.depth > VRDMA_EQ_MAX_DEPTH || spec.vector >= resources_.limits.vectors) {
        return fail(std::errc::invalid_argument);
    }
    return table_.full() ? fail(std::errc::not_enough_memory) : Result<>{};
}

Result<> EqTable::add(hca::EqSpec spec, Buffer buffer) {
    spec.pages = std::move(buffer.pages);
    const EqId id = spec.id;
    return table_.insert(id, {std::move(spec), std::move(buffer.lease), {}},
                         [&](const Eq& made) { return resources_.slice.create_eq(made.spec); });
}

Result<EqId> EqTable::create(const vrdma_cmd_create_eq& cmd, hca::EventKind kind) {
    hca::EqSpec spec{{}, {}, cmd.depth, cmd.vector, kind};
    if (const auto valid = check(spec); !valid) {
        return fail(valid.error());
    }
    const hca::QueueFormat format = resources_.slice.format();
    const std::uint64_t size = hca::eq_layout(format, kind, cmd.depth).size;
    auto buffer =
        resources_.lists.read_ring(cmd.pages, 0, hca::buffer_length(format, size, cmd.pages));
    if (!buffer) {
        return fail(buffer.error());
    }
    const auto number = ids_.take();
    if (!number) {
        return fail(number.error());
    }
    spec.id = EqId{*number};
    if (const auto added = add(spec, std::move(*buffer)); !added) {
        ids_.give_back(spec.id.value);
        return fail(added.error());
    }
    if (!async_) {
        async_ = spec.id;
    }
    return spec.id;
}

Result<> EqTable::destroy(EqId id) {
    const Eq* eq = table_.find(id);
    if (eq == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    if (eq->users.busy()) {
        return fail(std::errc::device_or_resource_busy);
    }
    if (async_ == id) {
        async_.reset();
    }
    resources_.slice.destroy_eq(id);
    table_.erase(id);
    ids_.give_back(id.value);
    return {};
}

void EqTable::save(StateWriter& writer) const {
    writer.begin(Section::eqs, EqState::version, table_.size());
    for (const EqId id : table_.sorted_ids()) {
        const hca::EqSpec& spec = table_.find(id)->spec;
        writer.put(EqState{id.value, spec.depth, spec.vector, async_ == id ? 1u : 0u,
                           resources_.slice.save_eq(id)});
        save_ring(writer, spec.pages,
                  hca::eq_layout(resources_.slice.format(), spec.kind, spec.depth).size);
    }
}

Result<EqTable::Restored> EqTable::read_one(StateReader& reader) {
    const auto state = reader.take<EqState>();
    if (!state || state->async > 1) {
        return fail(std::errc::invalid_argument);
    }
    const auto kind = state->async == 1 ? hca::EventKind::async : hca::EventKind::completion;
    Restored restored{*state, {EqId{state->id}, {}, state->depth, state->vector, kind}, {}};
    if (const auto valid = check(restored.spec); !valid) {
        return fail(valid.error());
    }
    const std::uint64_t size =
        hca::eq_layout(resources_.slice.format(), restored.spec.kind, state->depth).size;
    auto buffer = restore_pages(reader, resources_.memory, resources_.budget, size);
    if (!buffer) {
        return fail(buffer.error());
    }
    if (const auto claimed = ids_.claim(state->id); !claimed) {
        return fail(claimed.error());
    }
    restored.buffer = std::move(*buffer);
    return restored;
}

Result<> EqTable::restore_one(Restored& restored) {
    const EqId id = restored.spec.id;
    if (const auto added = add(restored.spec, std::move(restored.buffer)); !added) {
        return added;
    }
    return resources_.slice.restore_eq(id, restored.state.slice);
}

// Restores the EQ for async events first. To the slice, as to the guest, that is the first EQ.
Result<> EqTable::restore(StateReader& reader) {
    std::vector<Restored> all;
    const auto read =
        restore_records(reader, Section::eqs, EqState::version, [&](StateReader& from) -> Result<> {
            return read_one(from).map([&](Restored one) { all.push_back(std::move(one)); });
        });
    if (!read) {
        return read;
    }
    std::stable_partition(all.begin(), all.end(),
                          [](const Restored& one) { return one.state.async == 1; });
    for (Restored& one : all) {
        if (one.state.async == 1 && async_) {
            return fail(std::errc::invalid_argument);
        }
        if (one.state.async == 1) {
            async_ = one.spec.id;
        }
        if (const auto restored = restore_one(one); !restored) {
            return restored;
        }
    }
    return {};
}

} // namespace vrdma::verbs
