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

#include "mediator/hca/soft/cache_line.h"
#include "mediator/hca/soft/guest_buffer.h"
#include "mediator/hca/soft/list.h"
#include "mediator/hca/soft/page_faults.h"
#include "mediator/hca/soft/span_list.h"
#include "mediator/hca/soft/sparse_pages.h"

namespace vrdma::hca::soft {

struct QueuePair;

enum class KeyKind : std::uint8_t {
    region,
    fast_region, // its memory comes and goes by WQEs
    window_1,    // every QP of its PD may use it
    window_2,    // only the QP that has bound it may (type 2B)
};

// What a WQE or a peer asks for.
struct Access {
    Key key;
    PdId pd;
    std::uint32_t rights = 0; // enum ibv_access_flags, or local_read
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    const QueuePair* qp = nullptr; // whose peer asks; nullptr: a WQE
};

// What a key stands for, as the gate keeps it. A window's bytes are some of its region's. What an
// access looks at is one line, and where the bytes are is the next.
struct alignas(cache_line) MemoryRegion {
    Key key; // with its present tag
    PdId pd;
    std::uint64_t start = 0;
    std::uint64_t length = 0;
    std::uint32_t access_flags = 0;
    bool dma = false;
    bool valid = true; // else nothing is bound to it, or registered
    KeyKind kind = KeyKind::region;

    // A bound window:
    QueuePair* owner = nullptr; // of type 2
    MemoryRegion* region = nullptr;
    std::uint64_t offset = 0; // of its first byte in the region

    std::unique_ptr<SparsePages> on_demand = nullptr;
    GuestBuffer pages{}; // empty for dma, windows and on demand

    Link<MemoryRegion> of_owner{}; // windows
    std::uint32_t windows = 0;     // bound to this region

    // Whether the access is allowed. Of a valid region.
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
    // Its bytes are those of `pages`.
    bool plain() const noexcept { return !dma && region == nullptr && on_demand == nullptr; }

    // Beside enum ibv_access_flags: what every region allows its owner, and no window.
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
    // Nothing if there is none; busy while windows are bound to it.
    Result<std::unique_ptr<MemoryRegion>> remove(Key key);
    // Puts it in the place of the one of that name, which is returned.
    Result<std::unique_ptr<MemoryRegion>> replace(std::unique_ptr<MemoryRegion> region);

    // By its key, or by its name: all of the key but the tag. nullptr if there is none.
    MemoryRegion* find(Key key) const noexcept {
        MemoryRegion* const last = recent(key);
        return last != nullptr && last->key == key ? last : look_up(key);
    }
    MemoryRegion* find_name(Key key) const noexcept;

    // The pages of a region that has them on demand, else nullptr.
    SparsePages* on_demand(Key key) const noexcept;
    PageFaults& faults() noexcept { return faults_; }

    // Decides on the whole access; if it is allowed, adds its bytes from `skip` on to `spans` until
    // those are full. An access of no bytes is always allowed. VRDMA_VERR_ABSENT: to be tried
    // again, a page is not there yet. What most messages want is inlined, the rest is not.
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

    // The same for a list of local pieces, of which only those that are touched are looked at.
    vrdma_vendor_err open_list(std::span<const Sge> list, PdId pd, std::uint32_t rights,
                               std::uint64_t skip, SpanList& spans) const noexcept;

  private:
    using Name = std::uint32_t;

    MemoryRegion*& recent(Key key) const noexcept { return recent_[name_of(key) % recent_regions]; }
    MemoryRegion* look_up(Key key) const noexcept;

    // Of the `length` bytes at `place` those from `skip` on.
    static void add_runs(const GuestBuffer& pages, std::uint64_t place, std::uint64_t length,
                         std::uint64_t skip, SpanList& spans) noexcept {
        while (skip < length && !spans.full()) {
            const auto piece = pages.run(place + skip, std::min(length - skip, spans.room()));
            spans.add(piece);
            skip += piece.size();
        }
    }
    // What open() does with a key that names nothing, and with an access that is allowed to bytes
    // that are not a region's own pages.
    static vrdma_vendor_err open_unknown(const Access& access, std::uint64_t skip,
                                         SpanList& spans) noexcept;
    vrdma_vendor_err open_other(const MemoryRegion& region, const Access& access,
                                std::uint64_t skip, SpanList& spans) const noexcept;
    // From `place` in the region on, whichever key has led there.
    vrdma_vendor_err open_on_demand(const MemoryRegion& region, std::uint64_t place,
                                    const Access& access, std::uint64_t skip,
                                    SpanList& spans) const noexcept;

    static constexpr std::size_t recent_regions = 64;

    const GuestMemory& memory_;
    std::unordered_map<Name, std::unique_ptr<MemoryRegion>> regions_;
    mutable PageFaults faults_;
    // The last that was used of those whose names end alike: most messages use few regions.
    mutable std::array<MemoryRegion*, recent_regions> recent_{};
};

} // namespace vrdma::hca::soft
