// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The one way to guest memory: a window of host address space that shows the guest's IOVA space
// from 0 to size. Behind it lie the module's pinned window (mdev), shared memory (vfio-user) or a
// plain buffer (tests).
//
// A page that the guest does not have, or has no more, shows a scratch page: an access never
// faults the mediator and never reaches another guest. Whoever needs to know compares
// scratch_faults() before and after, and calls release() so that the next touch looks anew.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mediator/base/types.h"
#include "mediator/memory/shared_words.h"

namespace vrdma {

class GuestMemory {
  public:
    GuestMemory(const GuestMemory&) = delete;
    GuestMemory& operator=(const GuestMemory&) = delete;
    virtual ~GuestMemory() = default;

    // The bytes [iova, iova + length), or nullptr where they do not lie in the window.
    std::byte* at(Iova iova, std::uint64_t length) const noexcept {
        return length <= size_ && raw(iova) <= size_ - length ? base_ + raw(iova) : nullptr;
    }

    std::uint64_t size() const noexcept { return size_; }

    // Touches that met a scratch page, so far.
    std::uint64_t scratch_faults() const noexcept { return load_acquire(*scratch_faults_); }

    // Nobody uses these pages for now: they may be unpinned. Touching them again is allowed.
    virtual void release(Iova iova, std::uint64_t length) noexcept = 0;

    // Nobody touches any of it, until the device begins a new life: no scratch page outlives this.
    virtual void renew() noexcept {}

  protected:
    // Touches that meet a scratch page are counted in that word, by whoever puts it there: data
    // paths look at it twice a message, so there is nothing between.
    GuestMemory(std::byte* base, std::uint64_t size, const std::uint64_t* scratch_faults)
        : base_{base}, size_{size}, scratch_faults_{scratch_faults} {}

  private:
    std::byte* base_;
    std::uint64_t size_;
    const std::uint64_t* scratch_faults_;
};

} // namespace vrdma
