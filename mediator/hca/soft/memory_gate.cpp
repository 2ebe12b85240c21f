// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/memory_gate.h"

#include <algorithm>

namespace vrdma::hca::soft {

Result<> MemoryGate::insert(std::unique_ptr<MemoryRegion> region) {
    const Key key = region->key;
    if (!regions_.emplace(key, std::move(region)).second) {
        return fail(std::errc::file_exists);
    }
    return {};
}

std::unique_ptr<MemoryRegion> MemoryGate::remove(Key key) {
    auto node = regions_.extract(key);
    if (node.empty()) {
        return nullptr;
    }
    recent_[key.value % recent_regions] = nullptr;
    return std::move(node.mapped());
}

const MemoryRegion* MemoryGate::find(Key key) const noexcept {
    const MemoryRegion*& recent = recent_[key.value % recent_regions];
    if (recent != nullptr && recent->key == key) {
        return recent;
    }
    const auto found = regions_.find(key);
    if (found == regions_.end()) {
        return nullptr;
    }
    recent = found->second.get();
    return recent;
}

vrdma_vendor_err MemoryGate::open(const Access& access, std::uint64_t skip,
                                  SpanList& spans) const noexcept {
    if (access.length == 0) {
        return VRDMA_VERR_NONE;
    }
    const MemoryRegion* const found = find(access.key);
    if (found == nullptr) {
        return VRDMA_VERR_KEY;
    }
    const MemoryRegion& region = *found;
    if (region.pd != access.pd) {
        return VRDMA_VERR_PD;
    }
    if ((region.access_flags & access.rights) != access.rights) {
        return VRDMA_VERR_ACCESS;
    }
    const std::uint64_t offset = access.address - region.start;
    if (access.address < region.start || offset > region.length ||
        access.length > region.length - offset) {
        return VRDMA_VERR_BOUNDS;
    }
    std::byte* const bus = region.dma ? memory_.at(Iova{access.address}, access.length) : nullptr;
    if (region.dma && bus == nullptr) {
        return VRDMA_VERR_BOUNDS;
    }
    while (skip < access.length && !spans.full()) {
        const std::uint64_t wanted = std::min(access.length - skip, spans.room());
        const auto piece =
            region.dma ? std::span{bus + skip, wanted} : region.pages.run(offset + skip, wanted);
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
