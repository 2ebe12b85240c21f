// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The memory gate: a device's memory regions, and the one function that decides whether an access
// to the device's memory is allowed.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <unordered_map>

#include "mediator/hca/soft/guest_buffer.h"
#include "mediator/hca/soft/span_list.h"

namespace vrdma::hca::soft {

// A memory region as the gate keeps it.
struct MemoryRegion {
    Key key;
    PdId pd;
    std::uint64_t start = 0;
    std::uint64_t length = 0;
    std::uint32_t access_flags = 0;
    bool dma = false;
    GuestBuffer pages; // empty for dma
};

// What a WQE or a peer asks for.
struct Access {
    Key key;
    PdId pd;
    std::uint32_t rights = 0; // enum ibv_access_flags; local reading needs none
    std::uint64_t address = 0;
    std::uint64_t length = 0;
};

struct Sge {
    std::uint64_t address;
    std::uint32_t length;
    std::uint32_t lkey;
};

class MemoryGate {
  public:
    explicit MemoryGate(const GuestMemory& memory) : memory_{memory} {}

    Result<> insert(std::unique_ptr<MemoryRegion> region);
    std::unique_ptr<MemoryRegion> remove(Key key);

    // Decides on the whole access; if it is allowed, adds its bytes from `skip` on to `spans` until
    // those are full. An access of no bytes is always allowed.
    vrdma_vendor_err open(const Access& access, std::uint64_t skip, SpanList& spans) const noexcept;

    // The same for a list of local pieces, of which only those that are touched are looked at.
    vrdma_vendor_err open_list(std::span<const Sge> list, PdId pd, std::uint32_t rights,
                               std::uint64_t skip, SpanList& spans) const noexcept;

  private:
    const MemoryRegion* find(Key key) const noexcept;

    static constexpr std::size_t recent_regions = 64;

    const GuestMemory& memory_;
    std::unordered_map<Key, std::unique_ptr<MemoryRegion>> regions_;
    // The last that was used of those whose keys end alike: most messages use few regions.
    mutable std::array<const MemoryRegion*, recent_regions> recent_{};
};

} // namespace vrdma::hca::soft
