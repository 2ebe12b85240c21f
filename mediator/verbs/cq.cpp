// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/cq.h"

#include <bit>

namespace vrdma::verbs {
namespace {

// No CQE may cross a page.
constexpr bool valid_offset(std::uint64_t first_offset) {
    return first_offset % sizeof(vrdma_cqe) == 0;
}

constexpr std::uint32_t all_flags = VRDMA_CQ_TIMESTAMP | VRDMA_CQ_IGNORE_OVERRUN;

void set_flags(hca::CqSpec& spec, std::uint32_t flags) {
    spec.timestamped = (flags & VRDMA_CQ_TIMESTAMP) != 0;
    spec.ignore_overrun = (flags & VRDMA_CQ_IGNORE_OVERRUN) != 0;
}

std::uint32_t flags_of(const hca::CqSpec& spec) {
    return (spec.timestamped ? VRDMA_CQ_TIMESTAMP : 0) |
           (spec.ignore_overrun ? VRDMA_CQ_IGNORE_OVERRUN : 0);
}

} // namespace

CqTable::CqTable(Resources& resources, UcontextTable& ucontexts, EqTable& eqs)
    : resources_{resources},
      ucontexts_{ucontexts},
      eqs_{eqs},
      ids_{resources.limits.max_cq},
      table_{resources.allowed.max_cq, resources.budget, resources.costs.cq} {}

bool CqTable::valid_depth(std::uint32_t depth) const {
    return std::has_single_bit(depth) && depth <= resources_.limits.max_cqe;
}

std::uint64_t CqTable::buffer_size(std::uint32_t depth, const vrdma_page_list& pages) const {
    const hca::QueueFormat format = resources_.slice.format();
    return hca::buffer_length(format, hca::cq_layout(format, depth).size, pages);
}

Result<> CqTable::check(const Cq& cq) const {
    if (!valid_depth(cq.spec.depth) || ucontexts_.find(cq.ucontext) == nullptr ||
        eqs_.find(cq.spec.eq) == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    return table_.full() ? fail(std::errc::not_enough_memory) : Result<>{};
}

Result<> CqTable::add(Cq cq, Buffer buffer) {
    if (!valid_offset(buffer.pages.first_offset)) {
        return fail(std::errc::invalid_argument);
    }
    cq.spec.pages = std::move(buffer.pages);
    cq.lease = std::move(buffer.lease);
    cq.owner = ucontexts_.find(cq.ucontext)->users.hold();
    cq.eq = eqs_.find(cq.spec.eq)->users.hold();
    const Cqn id = cq.spec.id;
    return table_.insert(id, std::move(cq),
                         [&](const Cq& made) { return resources_.slice.create_cq(made.spec); });
}

Result<Cqn> CqTable::create(const vrdma_cmd_create_cq& cmd) {
    if ((cmd.flags & ~all_flags) != 0 || cmd.reserved != 0) {
        return fail(std::errc::invalid_argument);
    }
    Cq cq;
    cq.ucontext = UcontextId{cmd.ucontext};
    cq.spec = {{}, {}, cmd.depth, EqId{cmd.eq}};
    set_flags(cq.spec, cmd.flags);
    if (const auto valid = check(cq); !valid) {
        return fail(valid.error());
    }
    auto buffer =
        resources_.lists.read_ring(cmd.pages, cmd.first_offset, buffer_size(cmd.depth, cmd.pages));
    if (!buffer) {
        return fail(buffer.error());
    }
    const auto number = ids_.take();
    if (!number) {
        return fail(number.error());
    }
    const Cqn id{*number};
    cq.spec.id = id;
    if (const auto added = add(std::move(cq), std::move(*buffer)); !added) {
        ids_.give_back(id.value);
        return fail(added.error());
    }
    return id;
}

Result<> CqTable::resize(const vrdma_cmd_resize_cq& cmd) {
    Cq* cq = table_.find(Cqn{cmd.cqn});
    if (cq == nullptr || cmd.reserved != 0 || !valid_depth(cmd.depth)) {
        return fail(std::errc::invalid_argument);
    }
    auto buffer =
        resources_.lists.read_ring(cmd.pages, cmd.first_offset, buffer_size(cmd.depth, cmd.pages));
    if (!buffer) {
        return fail(buffer.error());
    }
    if (!valid_offset(buffer->pages.first_offset)) {
        return fail(std::errc::invalid_argument);
    }
    if (const auto resized = resources_.slice.resize_cq(cq->spec.id, buffer->pages, cmd.depth);
        !resized) {
        return resized;
    }
    cq->spec.pages = std::move(buffer->pages);
    cq->spec.depth = cmd.depth;
    cq->lease = std::move(buffer->lease);
    return {};
}

Result<> CqTable::modify(const vrdma_cmd_modify_cq& cmd) {
    Cq* cq = table_.find(Cqn{cmd.cqn});
    if (cq == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    const hca::CqModeration moderation{cmd.count, cmd.period_us};
    const auto modified = resources_.slice.moderate_cq(cq->spec.id, moderation);
    if (modified) {
        cq->spec.moderation = moderation;
    }
    return modified;
}

Result<> CqTable::destroy(Cqn id) {
    const Cq* cq = table_.find(id);
    if (cq == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    if (cq->users.busy()) {
        return fail(std::errc::device_or_resource_busy);
    }
    resources_.slice.destroy_cq(id);
    table_.erase(id);
    ids_.give_back(id.value);
    return {};
}

void CqTable::save(StateWriter& writer) const {
    writer.begin(Section::cqs, CqState::version, table_.size());
    for (const Cqn id : table_.sorted_ids()) {
        const Cq& cq = *table_.find(id);
        const hca::CqModeration& moderation = cq.spec.moderation;
        writer.put(CqState{id.value, cq.ucontext.value, cq.spec.eq.value, cq.spec.depth,
                           flags_of(cq.spec),
                           moderation.count | std::uint32_t{moderation.period_us} << 16,
                           resources_.slice.save_cq(id)});
        save_ring(writer, cq.spec.pages,
                  hca::cq_layout(resources_.slice.format(), cq.spec.depth).size);
    }
}

Result<> CqTable::restore_one(StateReader& reader) {
    const auto state = reader.take<CqState>();
    if (!state || (state->flags & ~all_flags) != 0) {
        return fail(std::errc::invalid_argument);
    }
    const Cqn id{state->id};
    Cq cq;
    cq.ucontext = UcontextId{state->ucontext};
    cq.spec = {id, {}, state->depth, EqId{state->eq}};
    set_flags(cq.spec, state->flags);
    cq.spec.moderation = {static_cast<std::uint16_t>(state->moderation),
                          static_cast<std::uint16_t>(state->moderation >> 16)};
    if (const auto valid = check(cq); !valid) {
        return valid;
    }
    auto buffer = restore_pages(reader, resources_.memory, resources_.budget,
                                hca::cq_layout(resources_.slice.format(), state->depth).size);
    if (!buffer) {
        return fail(buffer.error());
    }
    if (const auto claimed = ids_.claim(id.value); !claimed) {
        return claimed;
    }
    if (const auto added = add(std::move(cq), std::move(*buffer)); !added) {
        return added;
    }
    return resources_.slice.restore_cq(id, state->slice);
}

Result<> CqTable::restore(StateReader& reader) {
    return restore_records(reader, Section::cqs, CqState::version,
                           [this](StateReader& from) { return restore_one(from); });
}

} // namespace vrdma::verbs
