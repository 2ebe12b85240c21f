// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/mr.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>

#include "mediator/base/memory_cost.h"
#include "mediator/verbs/ucontext.h"

namespace vrdma::verbs {
namespace {

constexpr std::uint32_t remote_changes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::uint32_t region_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                        remote_changes | IBV_ACCESS_MW_BIND |
                                        IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND;

// Flags that a device may ignore, by their definition.
constexpr std::uint32_t optional_access =
    std::uint32_t{IBV_ACCESS_OPTIONAL_RANGE} | std::uint32_t{IBV_ACCESS_HUGETLB};

Result<> check_access(std::uint32_t flags) {
    if ((flags & ~region_access) != 0) {
        return fail(std::errc::operation_not_supported);
    }
    if ((flags & remote_changes) != 0 && (flags & IBV_ACCESS_LOCAL_WRITE) == 0) {
        return fail(std::errc::invalid_argument);
    }
    return {};
}

bool is_on_demand(const hca::MrSpec& spec) {
    return (spec.access_flags & IBV_ACCESS_ON_DEMAND) != 0;
}

// Whether the region has a list of pages. A region of no bytes has none.
bool has_pages(const hca::MrSpec& spec) {
    return !spec.dma && !is_on_demand(spec) && spec.length != 0;
}

// How many pages a region with on-demand paging has. The numbers of its pages are below this.
std::uint64_t on_demand_pages(const hca::MrSpec& spec) {
    return (spec.pages.first_offset + spec.length + VRDMA_PAGE_SIZE - 1) >> VRDMA_PAGE_SHIFT;
}

bool is_empty(const vrdma_page_list& list) {
    return list.root == 0 && list.count == 0 && list.page_shift == 0 && list.levels == 0 &&
           list.reserved == 0;
}

} // namespace

MrTable::MrTable(Resources& resources, PdTable& pds, KeySpace& keys)
    : resources_{resources},
      pds_{pds},
      keys_{keys},
      leaf_cost_{map_cost<Leaves::value_type>() + resources.costs.on_demand_leaf},
      table_{resources.allowed.max_mr, resources.budget, KeySpace::cost + resources.costs.mr} {
    resources.budget.widen(resources.limits.max_blocks / hca::on_demand_leaf_pages, leaf_cost_);
}

Result<> MrTable::check(const hca::MrSpec& spec) const {
    const Pd* pd = pds_.find(spec.pd);
    if (pd == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    if (const auto access = check_access(spec.access_flags); !access) {
        return access;
    }
    const std::uint64_t most =
        is_on_demand(spec) ? VRDMA_ON_DEMAND_MAX_SIZE : resources_.limits.max_mr_size;
    const bool zero_based = (spec.access_flags & IBV_ACCESS_ZERO_BASED) != 0;
    bool valid = spec.length <= most && spec.start <= (zero_based ? 0 : UINT64_MAX - spec.length);
    if (spec.dma) { // the region covers all of the guest's bus addresses
        valid = pd->ucontext == kernel && spec.start == 0 && !is_on_demand(spec);
    } else if (spec.fast_pages != 0) {
        valid = pd->ucontext == kernel && spec.fast_pages <= VRDMA_MAX_FAST_PAGES &&
                spec.start == 0 && spec.length == 0 && spec.access_flags == 0;
    } else if (is_on_demand(spec)) {
        valid = valid && spec.pages.first_offset < VRDMA_PAGE_SIZE;
    }
    return valid ? Result<>{} : fail(std::errc::invalid_argument);
}

Result<> MrTable::check_new(const hca::MrSpec& spec) const {
    if (const auto valid = check(spec); !valid) {
        return valid;
    }
    return table_.full() ? fail(std::errc::not_enough_memory) : Result<>{};
}

Result<Buffer> MrTable::pages_of(const vrdma_cmd_reg_mr& cmd) {
    const bool on_demand = (cmd.access_flags & IBV_ACCESS_ON_DEMAND) != 0;
    if ((cmd.flags & VRDMA_MR_DMA) == 0 && cmd.length != 0 && !on_demand) {
        return resources_.lists.read(cmd.pages, cmd.first_offset, cmd.length);
    }
    if (!is_empty(cmd.pages) || (cmd.first_offset != 0 && !on_demand)) {
        return fail(std::errc::invalid_argument);
    }
    return Buffer{{{}, VRDMA_PAGE_SHIFT, cmd.first_offset, cmd.length}, {}};
}

Result<> MrTable::add(hca::MrSpec spec, MemoryBudget::Lease lease) {
    const Key key = spec.key;
    auto hold = pds_.find(spec.pd)->users.hold();
    return table_.insert(key, {std::move(spec), std::move(lease), std::move(hold), {}},
                         [&](const Mr& made) { return resources_.slice.register_mr(made.spec); });
}

// The slice's own key may be taken, because regions of which peers on the network do not know have
// random ones.
Result<Key> MrTable::take_key(const hca::MrSpec& spec) {
    constexpr int tries = 4;
    for (int left = tries; left != 0; --left) {
        const auto named = resources_.slice.name_mr(spec);
        if (!named) {
            return fail(named.error());
        }
        if (!*named) {
            return keys_.take();
        }
        if (keys_.claim(**named)) {
            return **named;
        }
    }
    return fail(std::errc::resource_unavailable_try_again);
}

Result<Key> MrTable::create(hca::MrSpec spec, Buffer buffer) {
    spec.pages = std::move(buffer.pages);
    const auto key = take_key(spec);
    if (!key) {
        return key;
    }
    spec.key = *key;
    if (const auto added = add(std::move(spec), std::move(buffer.lease)); !added) {
        keys_.give_back(*key);
        return fail(added.error());
    }
    return key;
}

Result<Key> MrTable::reg(const vrdma_cmd_reg_mr& cmd) {
    if ((cmd.flags & ~VRDMA_MR_DMA) != 0) {
        return fail(std::errc::invalid_argument);
    }
    hca::MrSpec spec;
    spec.pd = PdId{cmd.pd};
    spec.start = cmd.start;
    spec.dma = (cmd.flags & VRDMA_MR_DMA) != 0;
    spec.length = spec.dma ? resources_.memory.size() : cmd.length;
    spec.access_flags = cmd.access_flags & ~optional_access;
    spec.pages.first_offset = cmd.first_offset;
    if (const auto valid = check_new(spec); !valid) {
        return fail(valid.error());
    }
    auto buffer = pages_of(cmd);
    if (!buffer) {
        return fail(buffer.error());
    }
    return create(std::move(spec), std::move(*buffer));
}

Result<Key> MrTable::alloc(const vrdma_cmd_alloc_mr& cmd) {
    hca::MrSpec spec;
    spec.pd = PdId{cmd.pd};
    spec.fast_pages = cmd.max_pages;
    if (cmd.max_pages == 0) {
        return fail(std::errc::invalid_argument);
    }
    if (const auto valid = check_new(spec); !valid) {
        return fail(valid.error());
    }
    auto lease = resources_.budget.take_blocks(cmd.max_pages);
    if (!lease) {
        return fail(lease.error());
    }
    return create(std::move(spec), {{}, std::move(*lease)});
}

// Replaces the whole region, which keeps its key.
Result<> MrTable::change(Mr& mr, hca::MrSpec spec, Buffer buffer) {
    const bool moves = !buffer.pages.blocks.empty();
    if (moves) {
        spec.pages = std::move(buffer.pages);
    }
    if (const auto changed = resources_.slice.reregister_mr(spec); !changed) {
        return changed;
    }
    mr.spec = std::move(spec);
    mr.pd = pds_.find(mr.spec.pd)->users.hold();
    if (moves) {
        mr.lease = std::move(buffer.lease);
    }
    return {};
}

Result<> MrTable::rereg(const vrdma_cmd_rereg_mr& cmd) {
    const bool moves = (cmd.flags & VRDMA_REREG_TRANSLATION) != 0;
    const bool joins = (cmd.flags & VRDMA_REREG_PD) != 0;
    const bool opens = (cmd.flags & VRDMA_REREG_ACCESS) != 0;
    const bool clean =
        cmd.reserved == 0 && (joins || cmd.pd == 0) && (opens || cmd.access_flags == 0) &&
        (moves ||
         (is_empty(cmd.pages) && cmd.start == 0 && cmd.length == 0 && cmd.first_offset == 0));
    constexpr std::uint32_t all = VRDMA_REREG_TRANSLATION | VRDMA_REREG_PD | VRDMA_REREG_ACCESS;
    Mr* const mr = table_.find(Key{cmd.key});
    if (mr == nullptr || mr->spec.dma || mr->spec.fast_pages != 0 || !clean || cmd.flags == 0 ||
        (cmd.flags & ~all) != 0) {
        return fail(std::errc::invalid_argument);
    }
    if (is_on_demand(mr->spec) || (cmd.access_flags & IBV_ACCESS_ON_DEMAND) != 0) {
        return fail(std::errc::operation_not_supported);
    }
    hca::MrSpec spec = mr->spec;
    spec.pd = joins ? PdId{cmd.pd} : spec.pd;
    spec.access_flags = opens ? cmd.access_flags & ~optional_access : spec.access_flags;
    spec.start = moves ? cmd.start : spec.start;
    spec.length = moves ? cmd.length : spec.length;
    if (const auto valid = check(spec); !valid) {
        return valid;
    }
    if (pds_.find(spec.pd)->ucontext != pds_.find(mr->spec.pd)->ucontext) {
        return fail(std::errc::invalid_argument);
    }
    if (!moves) {
        return change(*mr, std::move(spec), {});
    }
    auto buffer = resources_.lists.read(cmd.pages, cmd.first_offset, cmd.length);
    if (!buffer) {
        return fail(buffer.error());
    }
    return change(*mr, std::move(spec), std::move(*buffer));
}

Result<> MrTable::dereg(Key key) {
    if (table_.find(key) == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    if (const auto gone = resources_.slice.deregister_mr(key); !gone) {
        return gone;
    }
    table_.erase(key);
    keys_.give_back(key);
    return {};
}

Mr* MrTable::find_on_demand(Key key) {
    Mr* const mr = table_.find(key);
    return mr != nullptr && is_on_demand(mr->spec) ? mr : nullptr;
}

// Gives back the leaves that lie wholly in the range, as the slice does.
void MrTable::unmap(Mr& mr, std::uint64_t first, std::uint64_t count) {
    const std::uint64_t end = first + std::min(count, UINT64_MAX - first);
    resources_.slice.unmap_pages(mr.spec.key, first, count);
    constexpr std::uint64_t leaf_pages = hca::on_demand_leaf_pages;
    const std::uint64_t begin = first / leaf_pages + (first % leaf_pages != 0 ? 1 : 0);
    if (begin < end / leaf_pages) {
        mr.leaves.erase(mr.leaves.lower_bound(begin), mr.leaves.lower_bound(end / leaf_pages));
    }
}

Result<> MrTable::take_leaves(Mr& mr, std::uint64_t first, std::uint64_t count) {
    const std::uint64_t last = (first + count - 1) / hca::on_demand_leaf_pages;
    for (std::uint64_t leaf = first / hca::on_demand_leaf_pages; leaf <= last; ++leaf) {
        if (mr.leaves.contains(leaf)) {
            continue;
        }
        auto lease = resources_.budget.take(leaf_cost_, hca::on_demand_leaf_pages);
        if (!lease) {
            return fail(lease.error());
        }
        mr.leaves.emplace(leaf, std::move(*lease));
    }
    return {};
}

Result<> MrTable::map_pages(const vrdma_cmd_map_pages& cmd) {
    Mr* const mr = find_on_demand(Key{cmd.key});
    const bool refused = cmd.flags == VRDMA_MAP_REFUSED;
    if (mr == nullptr || (cmd.flags & ~VRDMA_MAP_WRITABLE) != (refused ? cmd.flags : 0u) ||
        cmd.pages.count == 0 || cmd.pages.count > VRDMA_MAP_MAX_PAGES ||
        cmd.first >= on_demand_pages(mr->spec) ||
        cmd.pages.count > on_demand_pages(mr->spec) - cmd.first) {
        return fail(std::errc::invalid_argument);
    }
    if (refused) {
        vrdma_page_list others = cmd.pages;
        others.count = 0;
        if (!is_empty(others)) {
            return fail(std::errc::invalid_argument);
        }
        resources_.slice.refuse_pages(mr->spec.key, cmd.first, cmd.pages.count);
        return {};
    }
    if (cmd.pages.page_shift != VRDMA_PAGE_SHIFT) {
        return fail(std::errc::invalid_argument);
    }
    const auto buffer =
        resources_.lists.read(cmd.pages, 0, std::uint64_t{cmd.pages.count} << VRDMA_PAGE_SHIFT);
    if (!buffer) {
        return fail(buffer.error());
    }
    if (!take_leaves(*mr, cmd.first, cmd.pages.count)) {
        // The budget is used up, and the oldest pages are not known. So all pages are unmapped. The
        // device asks again for those that it needs.
        unmap(*mr, 0, UINT64_MAX);
        if (const auto taken = take_leaves(*mr, cmd.first, cmd.pages.count); !taken) {
            return taken;
        }
    }
    resources_.slice.map_pages(mr->spec.key, cmd.first, buffer->pages.blocks,
                               (cmd.flags & VRDMA_MAP_WRITABLE) != 0);
    return {};
}

Result<> MrTable::unmap_pages(const vrdma_cmd_unmap_pages& cmd) {
    Mr* const mr = find_on_demand(Key{cmd.key});
    if (mr == nullptr || cmd.reserved != 0) {
        return fail(std::errc::invalid_argument);
    }
    unmap(*mr, cmd.first, cmd.count);
    return {};
}

void MrTable::save_fast(StateWriter& writer, Key key) const {
    writer.put(resources_.slice.save_fast_mr(key));
    writer.put_all<Iova>(resources_.slice.save_fast_pages(key));
}

// All of it is lasting, except for fast registrations, which work requests change.
void MrTable::save_one(StateWriter& writer, Key key) const {
    const hca::MrSpec& spec = table_.find(key)->spec;
    const MrState state{.key = key.value,
                        .pd = spec.pd.value,
                        .start = spec.start,
                        .length = spec.length,
                        .access_flags = spec.access_flags,
                        .dma = spec.dma ? 1u : 0u,
                        .fast_pages = spec.fast_pages,
                        .reserved = 0};
    if (spec.fast_pages != 0) {
        writer.put(state);
        save_fast(writer, key);
        return;
    }
    writer.put_lasting([&] {
        writer.put(state);
        if (has_pages(spec)) {
            save_pages(writer, spec.pages);
        } else if (is_on_demand(spec)) {
            writer.put(spec.pages.first_offset);
        }
    });
}

void MrTable::save(StateWriter& writer) const {
    writer.begin(Section::mrs, MrState::version, table_.size());
    for (const Key key : table_.sorted_ids()) {
        save_one(writer, key);
    }
}

void MrTable::save_lasting(StateWriter& writer) const {
    for (const Key key : table_.sorted_ids()) {
        if (table_.find(key)->spec.fast_pages == 0) {
            save_one(writer, key);
        }
    }
}

// On-demand pages are not in the image, because the device asks for them again.
Result<Buffer> MrTable::restore_buffer(StateReader& reader, const hca::MrSpec& spec) {
    if (has_pages(spec)) {
        return restore_pages(reader, resources_.memory, resources_.budget, spec.length);
    }
    if (!is_on_demand(spec)) {
        return Buffer{};
    }
    const auto first_offset = reader.take<std::uint64_t>();
    if (!first_offset || *first_offset >= VRDMA_PAGE_SIZE) {
        return fail(std::errc::invalid_argument);
    }
    return Buffer{{{}, VRDMA_PAGE_SHIFT, *first_offset, spec.length}, {}};
}

Result<> MrTable::restore_fast(StateReader& reader, hca::MrSpec spec) {
    const auto state = reader.take<hca::FastMrState>();
    if (!state || !check_access(state->access_flags)) {
        return fail(std::errc::invalid_argument);
    }
    const auto blocks = reader.take_all<Iova>(state->blocks);
    auto lease = resources_.budget.take_blocks(spec.fast_pages);
    if (!blocks || !lease) {
        return fail(std::errc::invalid_argument);
    }
    const Key key = spec.key;
    return add(std::move(spec), std::move(*lease)).and_then([&] {
        return resources_.slice.restore_fast_mr(key, *state, *blocks);
    });
}

Result<> MrTable::restore_one(StateReader& reader) {
    const auto state = reader.take<MrState>();
    if (!state || state->dma > 1 || state->reserved != 0 ||
        (state->dma == 1 && state->fast_pages != 0)) {
        return fail(std::errc::invalid_argument);
    }
    hca::MrSpec spec;
    spec.key = Key{state->key};
    spec.pd = PdId{state->pd};
    spec.start = state->start;
    spec.length = state->length;
    spec.access_flags = state->access_flags;
    spec.dma = state->dma == 1;
    spec.fast_pages = state->fast_pages;
    if (const auto valid = check_new(spec); !valid) {
        return valid;
    }
    if (const auto claimed = keys_.claim(spec.key); !claimed) {
        return claimed;
    }
    if (spec.fast_pages != 0) {
        return restore_fast(reader, std::move(spec));
    }
    auto buffer = restore_buffer(reader, spec);
    if (!buffer) {
        return fail(buffer.error());
    }
    spec.pages = std::move(buffer->pages);
    return add(std::move(spec), std::move(buffer->lease));
}

Result<> MrTable::restore(StateReader& reader) {
    return restore_records(reader, Section::mrs, MrState::version,
                           [this](StateReader& from) { return restore_one(from); });
}

} // namespace vrdma::verbs
