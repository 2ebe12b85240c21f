// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The rings that an AF_XDP socket shares with the kernel. One side puts entries in and the other
// takes them out, and each reports how far it has come. Their sizes are powers of two.
#pragma once

#include <linux/if_xdp.h>

#include <atomic>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "mediator/base/mapping.h"

namespace vrdma::wire {

template <typename Entry>
class XskRing {
  public:
    XskRing() = default;
    // Maps the ring at one of XDP_*PGOFF_*_RING.
    static Result<XskRing> map(int socket, std::uint64_t page_offset, const xdp_ring_offset& at,
                               std::uint32_t size) {
        assert(std::has_single_bit(size));
        auto mapping = Mapping::map(socket, page_offset, at.desc + size * sizeof(Entry),
                                    PROT_READ | PROT_WRITE);
        if (!mapping) {
            return tl::unexpected{mapping.error()};
        }
        return XskRing{std::move(*mapping), at, size};
    }

    // Whether the kernel needs a system call to continue.
    bool needs_wakeup() const noexcept { return (load(at_.flags) & XDP_RING_NEED_WAKEUP) != 0; }

    // For a ring that we put entries into. The caller counts the frames, so there is always room.
    void put(const Entry& entry) noexcept {
        assert(next_ - load(at_.consumer) < size_);
        *entry_at(next_++) = entry;
    }
    void publish() noexcept { store(at_.producer, next_); }
    // Takes back entries that were put since publish(), newest first.
    bool any_unpublished() const noexcept { return next_ != load(at_.producer); }
    Entry take_back() noexcept { return *entry_at(--next_); }
    // The number of entries that the kernel has not taken yet, at most.
    std::uint32_t pending() const noexcept { return load(at_.producer) - load(at_.consumer); }

    // For a ring that we take entries out of. The oldest entry, until it is taken; nullptr if there
    // is none.
    const Entry* front() const noexcept {
        return load(at_.producer) == next_ ? nullptr : entry_at(next_);
    }
    void pop() noexcept { store(at_.consumer, ++next_); }

  private:
    XskRing(Mapping mapping, const xdp_ring_offset& at, std::uint32_t size)
        : mapping_{std::move(mapping)}, at_{at}, size_{size} {}

    std::atomic_ref<std::uint32_t> word(std::uint64_t offset) const noexcept {
        return std::atomic_ref<std::uint32_t>{*mapping_.as<std::uint32_t>(offset)};
    }
    std::uint32_t load(std::uint64_t offset) const noexcept {
        return word(offset).load(std::memory_order_acquire);
    }
    void store(std::uint64_t offset, std::uint32_t value) const noexcept {
        word(offset).store(value, std::memory_order_release);
    }
    Entry* entry_at(std::uint32_t index) const noexcept {
        return mapping_.as<Entry>(at_.desc) + (index & (size_ - 1));
    }

    Mapping mapping_;
    xdp_ring_offset at_{};
    std::uint32_t size_ = 0;
    std::uint32_t next_ = 0; // the next one that we put in or take out
};

} // namespace vrdma::wire
