// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/mr.h"

#include <infiniband/verbs.h>

#include <cstdint>

namespace vrdma::verbs {
namespace {

constexpr std::uint32_t remote_changes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::uint32_t known_access =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | remote_changes;

// Flags that a device may ignore, by their definition.
constexpr std::uint32_t optional_access = IBV_ACCESS_OPTIONAL_RANGE;

// A DMA region covers all that the guest's bus shows, so only the guest kernel may have it.
constexpr UcontextId kernel{0};

Result<> check_access(std::uint32_t flags) {
    if ((flags & ~known_access) != 0) {
        return fail(std::errc::operation_not_supported);
    }
    if ((flags & remote_changes) != 0 && (flags & IBV_ACCESS_LOCAL_WRITE) == 0) {
        return fail(std::errc::invalid_argument);
    }
    return {};
}

bool is_empty(const vrdma_page_list& list) {
    return list.root == 0 && list.count == 0 && list.page_shift == 0 && list.levels == 0 &&
           list.reserved == 0;
}

} // namespace

MrTable::MrTable(Resources& resources, PdTable& pds)
    : resources_{resources}, pds_{pds}, keys_{0xfffffffe}, table_{resources.limits.max_mr} {}

Result<> MrTable::check(const hca::MrSpec& spec) const {
    const Pd* pd = pds_.find(spec.pd);
    if (pd == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    if (const auto access = check_access(spec.access_flags); !access) {
        return access;
    }
    const bool valid = spec.dma
                           ? pd->ucontext == kernel && spec.start == 0
                           : spec.length != 0 && spec.length <= resources_.limits.max_mr_size &&
                                 spec.start <= UINT64_MAX - spec.length;
    if (!valid) {
        return fail(std::errc::invalid_argument);
    }
    return table_.full() ? fail(std::errc::not_enough_memory) : Result<>{};
}

Result<Buffer> MrTable::pages_of(const vrdma_cmd_reg_mr& cmd) {
    if ((cmd.flags & VRDMA_MR_DMA) == 0) {
        return read_page_list(resources_.memory, resources_.blocks, cmd.pages, cmd.first_offset,
                              cmd.length);
    }
    if (!is_empty(cmd.pages) || cmd.first_offset != 0) {
        return fail(std::errc::invalid_argument);
    }
    return Buffer{};
}

Result<> MrTable::add(hca::MrSpec spec, Buffer buffer) {
    spec.pages = std::move(buffer.pages);
    if (const auto made = resources_.slice.register_mr(spec); !made) {
        return made;
    }
    const Key key = spec.key;
    auto hold = pds_.find(spec.pd)->users.hold();
    table_.insert(key, {std::move(spec), std::move(buffer.lease), std::move(hold)});
    return {};
}

Result<Key> MrTable::reg(const vrdma_cmd_reg_mr& cmd) {
    if ((cmd.flags & ~VRDMA_MR_DMA) != 0) {
        return fail(std::errc::invalid_argument);
    }
    const bool dma = (cmd.flags & VRDMA_MR_DMA) != 0;
    const std::uint64_t length = dma ? resources_.memory.size() : cmd.length;
    hca::MrSpec spec{{}, PdId{cmd.pd}, cmd.start, length, cmd.access_flags & ~optional_access, dma,
                     {}};
    if (const auto valid = check(spec); !valid) {
        return fail(valid.error());
    }
    auto buffer = pages_of(cmd);
    if (!buffer) {
        return fail(buffer.error());
    }
    const auto key =
        keys_.pick([this](std::uint32_t id) { return table_.find(Key{id}) != nullptr; });
    if (!key) {
        return fail(key.error());
    }
    spec.key = Key{*key};
    if (const auto added = add(std::move(spec), std::move(*buffer)); !added) {
        return fail(added.error());
    }
    return Key{*key};
}

Result<> MrTable::dereg(Key key) {
    if (table_.find(key) == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    resources_.slice.deregister_mr(key);
    table_.erase(key);
    keys_.give_back(key.value);
    return {};
}

void MrTable::save(StateWriter& writer) const {
    writer.begin(Section::mrs, MrState::version, table_.size());
    for (const Key key : table_.sorted_ids()) {
        const hca::MrSpec& spec = table_.find(key)->spec;
        writer.put(MrState{key.value, spec.pd.value, spec.start, spec.length, spec.access_flags,
                           spec.dma ? 1u : 0u});
        if (!spec.dma) {
            save_pages(writer, spec.pages);
        }
    }
}

Result<> MrTable::restore_one(StateReader& reader) {
    const auto state = reader.take<MrState>();
    if (!state || state->dma > 1 || !keys_.in_range(state->key) ||
        table_.find(Key{state->key}) != nullptr) {
        return fail(std::errc::invalid_argument);
    }
    hca::MrSpec spec{Key{state->key},
                     PdId{state->pd},
                     state->start,
                     state->length,
                     state->access_flags,
                     state->dma == 1,
                     {}};
    if (const auto valid = check(spec); !valid) {
        return valid;
    }
    auto buffer = spec.dma
                      ? Result<Buffer>{Buffer{}}
                      : restore_pages(reader, resources_.memory, resources_.blocks, spec.length);
    if (!buffer) {
        return fail(buffer.error());
    }
    return add(std::move(spec), std::move(*buffer));
}

Result<> MrTable::restore(StateReader& reader) {
    return restore_records(reader, Section::mrs, MrState::version,
                           [this](StateReader& from) { return restore_one(from); });
}

} // namespace vrdma::verbs
