// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The memory gate: a device's memory regions and windows by their keys, and the one function that
// decides whether an access to the device's memory is allowed.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <unordered_map>

#include "mediator/hca/soft/common/cache_line.h"
#include "mediator/hca/soft/common/list.h"
#include "mediator/hca/soft/memory/guest_buffer.h"
#include "mediator/hca/soft/memory/network_region.h"
#include "mediator/hca/soft/memory/page_faults.h"
#include "mediator/hca/soft/memory/span_list.h"
#include "mediator/hca/soft/memory/sparse_pages.h"
#include "mediator/memory/guest_memory.h"

namespace vrdma::hca::soft {

struct QueuePair;

enum class KeyKind : std::uint8_t {
    region,
    fast_region, // WQEs register and invalidate its memory
    window_1,    // every QP of its PD may use it
    window_2,    // only the QP that has bound it may (type 2B)
};

// An access that a WQE or a peer requests.
struct Access {
    Key key;
    PdId pd;
    std::uint32_t rights = 0; // enum ibv_access_flags, or local_read
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    const QueuePair* qp = nullptr; // the QP whose peer requests it; nullptr: a WQE
};

// The region or window of a key. A window's bytes are part of its region's. The fields that an
// access checks fill one cache line; the next one says where the bytes are.
struct alignas(cache_line) MemoryRegion {
    Key key; // with its present tag
    PdId pd;
    std::uint64_t start = 0;
    std::uint64_t length = 0;
    std::uint32_t access_flags = 0;
    bool dma = false;
    bool valid = true; // false: a window without a binding, or a fast region without pages
    KeyKind kind = KeyKind::region;

    // A bound window:
    QueuePair* owner = nullptr; // of type 2
    MemoryRegion* region = nullptr;
    std::uint64_t offset = 0; // of its first byte in the region

    std::unique_ptr<SparsePages> on_demand = nullptr;
    GuestBuffer pages{}; // empty for dma, windows and on demand

    ListHook<MemoryRegion> of_owner{};           // windows
    std::uint32_t windows = 0;                   // bound to this region
    std::unique_ptr<NetworkRegion> on_network{}; // nullptr if the network does not know it

    // Whether the access is allowed. The region must be valid.
    vrdma_vendor_err check(const Access& access) const noexcept {
        if (pd != access.pd || (owner != nullptr && owner != access.qp)) {
            return VRDMA_VERR_PD;
        }
        if ((access_flags & access.rights) != access.rights) {
            return VRDMA_VERR_ACCESS;
        }
        const std::uint64_t place = access.address - start;
        const bool inside =
            access.address >= start && place <= length && access.length <= length - place;
        return inside ? VRDMA_VERR_NONE : VRDMA_VERR_BOUNDS;
    }
    // Whether its bytes are those of `pages`.
    bool plain() const noexcept { return !dma && region == nullptr && on_demand == nullptr; }

    // An access right beside enum ibv_access_flags. Every region has it, for its owner, and no
    // window.
    static constexpr std::uint32_t local_read = 1u << 31;
};
static_assert(offsetof(MemoryRegion, pages) == cache_line && sizeof(GuestBuffer) == cache_line);

struct Sge {
    std::uint64_t address;
    std::uint32_t length;
    std::uint32_t lkey;
};

class MemoryGate {
  public:
    explicit MemoryGate(const GuestMemory& memory) : memory_{memory} {}

    const GuestMemory& memory() const noexcept { return memory_; }

    Result<> insert(std::unique_ptr<MemoryRegion> region);
    // Returns nullptr if there is no such region. EBUSY while windows are bound to it.
    Result<std::unique_ptr<MemoryRegion>> remove(Key key);
    // Replaces the region of that name, and returns the old one.
    Result<std::unique_ptr<MemoryRegion>> replace(std::unique_ptr<MemoryRegion> region);

    // find() takes the whole key, find_name() its name: the key without the tag. nullptr if there
    // is none.
    MemoryRegion* find(Key key) const noexcept {
        MemoryRegion* const last = recent(key);
        return last != nullptr && last->key == key ? last : look_up(key);
    }
    MemoryRegion* find_name(Key key) const noexcept;

    // The pages of a region that has them on demand, else nullptr.
    SparsePages* on_demand(Key key) const noexcept;
    PageFaults& faults() noexcept { return faults_; }

    // Decides on the whole access. If it is allowed, adds its bytes from `skip` on to `spans` until
    // those are full. An access of no bytes is always allowed. VRDMA_VERR_ABSENT: a page is not
    // present yet; the caller must try again. The path of most messages is inlined, the rest is
    // not.
    [[gnu::always_inline]] vrdma_vendor_err open(const Access& access, std::uint64_t skip,
                                                 SpanList& spans) const noexcept {
        if (access.length == 0) {
            return VRDMA_VERR_NONE;
        }
        const MemoryRegion* const region = find(access.key);
        if (region == nullptr || !region->valid) [[unlikely]] {
            return open_unknown(access, skip, spans);
        }
        if (const vrdma_vendor_err error = region->check(access); error != VRDMA_VERR_NONE) {
            return error;
        }
        if (!region->plain()) [[unlikely]] {
            return open_other(*region, access, skip, spans);
        }
        add_runs(region->pages, access.address - region->start, access.length, skip, spans);
        return VRDMA_VERR_NONE;
    }

    // The same for a list of local pieces. It checks only the pieces whose bytes it adds.
    vrdma_vendor_err open_list(std::span<const Sge> list, PdId pd, std::uint32_t rights,
                               std::uint64_t skip, SpanList& spans) const noexcept;

  private:
    using Name = std::uint32_t;

    MemoryRegion*& recent(Key key) const noexcept { return recent_[name_of(key) % recent_regions]; }
    MemoryRegion* look_up(Key key) const noexcept;

    // Adds the bytes from `skip` on of the `length` bytes at `place`.
    static void add_runs(const GuestBuffer& pages, std::uint64_t place, std::uint64_t length,
                         std::uint64_t skip, SpanList& spans) noexcept {
        while (skip < length && !spans.full()) {
            const auto piece = pages.run(place + skip, std::min(length - skip, spans.room()));
            spans.add(piece);
            skip += piece.size();
        }
    }
    // The rest of open(): for a key that names nothing, and for an allowed access to bytes that are
    // not a region's own pages.
    static vrdma_vendor_err open_unknown(const Access& access, std::uint64_t skip,
                                         SpanList& spans) noexcept;
    vrdma_vendor_err open_other(const MemoryRegion& region, const Access& access,
                                std::uint64_t skip, SpanList& spans) const noexcept;
    // Opens the bytes from `place` in the region on. The access may use the key of a window.
    vrdma_vendor_err open_on_demand(const MemoryRegion& region, std::uint64_t place,
                                    const Access& access, std::uint64_t skip,
                                    SpanList& spans) const noexcept;

    static constexpr std::size_t recent_regions = 64;

    const GuestMemory& memory_;
    std::unordered_map<Name, std::unique_ptr<MemoryRegion>> regions_;
    mutable PageFaults faults_;
    // A cache of the last region for each value of name % recent_regions: most messages use few
    // regions.
    mutable std::array<MemoryRegion*, recent_regions> recent_{};
};

} // namespace vrdma::hca::soft
