// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/eq.h"

#include <bit>

namespace vrdma::verbs {
namespace {

constexpr std::uint32_t min_depth = 16;

std::uint64_t buffer_size(std::uint32_t depth) {
    return sizeof(vrdma_eq_control) + std::uint64_t{depth} * sizeof(vrdma_eqe);
}

} // namespace

EqTable::EqTable(Resources& resources)
    : resources_{resources}, ids_{resources.limits.max_eq}, table_{resources.limits.max_eq} {}

Result<> EqTable::check(const hca::EqSpec& spec) const {
    if (!std::has_single_bit(spec.depth) || spec.depth < min_depth ||
        spec.depth > VRDMA_EQ_MAX_DEPTH || spec.vector >= resources_.limits.vectors) {
        return fail(std::errc::invalid_argument);
    }
    return table_.full() ? fail(std::errc::not_enough_memory) : Result<>{};
}

Result<> EqTable::add(hca::EqSpec spec, Buffer buffer) {
    spec.pages = std::move(buffer.pages);
    if (const auto made = resources_.slice.create_eq(spec); !made) {
        return made;
    }
    const EqId id = spec.id;
    table_.insert(id, {std::move(spec), std::move(buffer.lease), {}});
    return {};
}

Result<EqId> EqTable::create(const vrdma_cmd_create_eq& cmd) {
    hca::EqSpec spec{{}, {}, cmd.depth, cmd.vector};
    if (const auto valid = check(spec); !valid) {
        return fail(valid.error());
    }
    auto buffer =
        read_page_list(resources_.memory, resources_.blocks, cmd.pages, 0, buffer_size(cmd.depth));
    if (!buffer) {
        return fail(buffer.error());
    }
    spec.id = EqId{ids_.take().value()};
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

void EqTable::post_async_event(std::uint8_t type, std::uint32_t id) {
    if (async_) {
        resources_.slice.post_async_event(*async_, type, id);
    }
}

void EqTable::save(StateWriter& writer) const {
    writer.begin(Section::eqs, EqState::version, table_.size());
    for (const EqId id : table_.sorted_ids()) {
        const hca::EqSpec& spec = table_.find(id)->spec;
        writer.put(EqState{id.value, spec.depth, spec.vector, async_ == id ? 1u : 0u,
                           resources_.slice.save_eq(id)});
        save_pages(writer, spec.pages);
    }
}

Result<> EqTable::restore_one(StateReader& reader) {
    const auto state = reader.take<EqState>();
    if (!state || state->async > 1 || (state->async == 1 && async_)) {
        return fail(std::errc::invalid_argument);
    }
    hca::EqSpec spec{EqId{state->id}, {}, state->depth, state->vector};
    if (const auto valid = check(spec); !valid) {
        return valid;
    }
    auto buffer =
        restore_pages(reader, resources_.memory, resources_.blocks, buffer_size(spec.depth));
    if (!buffer) {
        return fail(buffer.error());
    }
    if (const auto claimed = ids_.claim(state->id); !claimed) {
        return claimed;
    }
    if (state->async == 1) {
        async_ = spec.id;
    }
    if (const auto added = add(spec, std::move(*buffer)); !added) {
        return added;
    }
    return resources_.slice.restore_eq(spec.id, state->slice);
}

Result<> EqTable::restore(StateReader& reader) {
    return restore_records(reader, Section::eqs, EqState::version,
                           [this](StateReader& from) { return restore_one(from); });
}

} // namespace vrdma::verbs
