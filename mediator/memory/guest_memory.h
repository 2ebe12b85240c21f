// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The only way to guest memory: a window of host address space that shows the guest's IOVA space
// from 0 to size. Behind it is the module's pinned window (mdev), shared memory (vfio-user) or a
// plain buffer (tests).
//
// Where the guest does not have a page, or no longer has one, the window shows a scratch page. So
// an access never faults the mediator and never reaches another guest. A caller that needs to know
// compares scratch_faults() before and after, and calls release() so that the next touch asks for
// the page again.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mediator/base/result.h"
#include "mediator/base/types.h"
#include "mediator/memory/shared_words.h"

namespace vrdma {

class GuestMemory {
  public:
    GuestMemory(const GuestMemory&) = delete;
    GuestMemory& operator=(const GuestMemory&) = delete;
    virtual ~GuestMemory() = default;

    // The bytes [iova, iova + length), or nullptr if the window does not contain them.
    std::byte* at(Iova iova, std::uint64_t length) const noexcept {
        return length <= size_ && raw(iova) <= size_ - length ? base_ + raw(iova) : nullptr;
    }

    std::uint64_t size() const noexcept { return size_; }

    // The number of touches that met a scratch page so far.
    std::uint64_t scratch_faults() const noexcept { return load_acquire(*scratch_faults_); }

    // Nobody uses these pages for now: they may be unpinned. Touching them again is allowed.
    virtual void release(Iova iova, std::uint64_t length) noexcept = 0;

    // The caller states that nobody touches the memory until the device begins a new life. No
    // scratch page outlives this.
    virtual void renew() noexcept {}

    // Whether the kernel can pin the window's pages for an HCA of this host.
    virtual bool can_be_pinned() const noexcept { return true; }

    // Maps the guest's pages a second time, at `place`, as memory that can be pinned so. They have
    // been touched. Returns how many bytes it has mapped: there may be more behind them. The range
    // consists of pages. EOPNOTSUPP: this memory has no second mapping. EAGAIN: none just now.
    virtual Result<std::uint64_t> map_again(Iova /*iova*/, std::uint64_t /*length*/,
                                            std::byte* /*place*/) {
        return fail(std::errc::operation_not_supported);
    }

  protected:
    // The code that puts scratch pages counts touches of them in `scratch_faults`. Data paths read
    // it twice per message, so they read it directly.
    GuestMemory(std::byte* base, std::uint64_t size, const std::uint64_t* scratch_faults)
        : base_{base}, size_{size}, scratch_faults_{scratch_faults} {}

  private:
    std::byte* base_;
    std::uint64_t size_;
    const std::uint64_t* scratch_faults_;
};

} // namespace vrdma
