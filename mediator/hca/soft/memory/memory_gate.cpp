// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/memory/memory_gate.h"

#include <infiniband/verbs.h>

#include <algorithm>

namespace vrdma::hca::soft {
Result<> MemoryGate::insert(std::unique_ptr<MemoryRegion> region) {
    const Name name = name_of(region->key);
    if (!regions_.emplace(name, std::move(region)).second) {
        return fail(std::errc::file_exists);
    }
    return {};
}

Result<std::unique_ptr<MemoryRegion>> MemoryGate::remove(Key key) {
    const auto found = regions_.find(name_of(key));
    if (found == regions_.end()) {
        return std::unique_ptr<MemoryRegion>{};
    }
    if (found->second->windows != 0) {
        return fail(std::errc::device_or_resource_busy);
    }
    recent(key) = nullptr;
    faults_.forget(key);
    return std::move(regions_.extract(found).mapped());
}

Result<std::unique_ptr<MemoryRegion>> MemoryGate::replace(std::unique_ptr<MemoryRegion> region) {
    const auto found = regions_.find(name_of(region->key));
    if (found == regions_.end()) {
        return fail(std::errc::invalid_argument);
    }
    if (found->second->windows != 0) {
        return fail(std::errc::device_or_resource_busy);
    }
    recent(region->key) = nullptr;
    return std::exchange(found->second, std::move(region));
}

MemoryRegion* MemoryGate::find_name(Key key) const noexcept {
    const auto found = regions_.find(name_of(key));
    return found == regions_.end() ? nullptr : found->second.get();
}

MemoryRegion* MemoryGate::look_up(Key key) const noexcept {
    MemoryRegion* const found = find_name(key);
    if (found == nullptr || found->key != key) {
        return nullptr;
    }
    return recent(key) = found;
}

// The null region's spans have no memory: see copy.h.
vrdma_vendor_err MemoryGate::open_unknown(const Access& access, std::uint64_t skip,
                                          SpanList& spans) noexcept {
    if (access.key.value != VRDMA_NULL_LKEY || access.qp != nullptr) {
        return VRDMA_VERR_KEY;
    }
    spans.add({static_cast<std::byte*>(nullptr), std::min(access.length - skip, spans.room())});
    return VRDMA_VERR_NONE;
}

vrdma_vendor_err MemoryGate::open_other(const MemoryRegion& region, const Access& access,
                                        std::uint64_t skip, SpanList& spans) const noexcept {
    if (region.dma) {
        std::byte* const bus = memory_.at(Iova{access.address}, access.length);
        if (bus == nullptr) {
            return VRDMA_VERR_BOUNDS;
        }
        if (skip < access.length && !spans.full()) {
            spans.add({bus + skip, std::min(access.length - skip, spans.room())});
        }
        return VRDMA_VERR_NONE;
    }
    const MemoryRegion& memory = region.region != nullptr ? *region.region : region;
    const std::uint64_t place = region.offset + (access.address - region.start);
    if (memory.on_demand != nullptr) {
        return open_on_demand(memory, place, access, skip, spans);
    }
    add_runs(memory.pages, place, access.length, skip, spans);
    return VRDMA_VERR_NONE;
}

SparsePages* MemoryGate::on_demand(Key key) const noexcept {
    const MemoryRegion* const region = find(key);
    return region == nullptr ? nullptr : region->on_demand.get();
}

// The rest of the access is requested together with the absent page.
vrdma_vendor_err MemoryGate::open_on_demand(const MemoryRegion& region, std::uint64_t place,
                                            const Access& access, std::uint64_t skip,
                                            SpanList& spans) const noexcept {
    constexpr std::uint32_t changes =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    const bool write = (access.rights & changes) != 0;
    const SparsePages& pages = *region.on_demand;
    while (skip < access.length && !spans.full()) {
        const std::uint64_t wanted = std::min(access.length - skip, spans.room());
        const auto piece = pages.run(place + skip, wanted, write);
        if (piece.empty()) {
            const std::uint64_t first = pages.page_of(place + skip);
            const std::uint64_t last = pages.page_of(place + access.length - 1);
            return faults_.touch({region.key, first, last - first + 1}, write);
        }
        spans.add(piece);
        skip += piece.size();
    }
    return VRDMA_VERR_NONE;
}

vrdma_vendor_err MemoryGate::open_list(std::span<const Sge> list, PdId pd, std::uint32_t rights,
                                       std::uint64_t skip, SpanList& spans) const noexcept {
    for (const Sge& sge : list) {
        if (spans.full()) {
            break;
        }
        if (skip >= sge.length) {
            skip -= sge.length;
            continue;
        }
        const Access access{Key{sge.lkey}, pd, rights, sge.address, sge.length};
        const vrdma_vendor_err error = open(access, skip, spans);
        if (error != VRDMA_VERR_NONE) {
            return error;
        }
        skip = 0;
    }
    return VRDMA_VERR_NONE;
}

} // namespace vrdma::hca::soft
