// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Guest memory through the module's window, which pins a page when it is first touched.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "mediator/base/mapping.h"
#include "mediator/memory/guest_memory.h"
#include "vrdma/mdev.h"

namespace vrdma::mdev {

class WindowMemory final : public GuestMemory {
  public:
    // The device fd must outlive the memory.
    static Result<std::unique_ptr<WindowMemory>> map(int device);

    void release(Iova iova, std::uint64_t length) noexcept override;
    // The kernel does not know the window's pages, so it cannot pin them.
    bool can_be_pinned() const noexcept override { return false; }
    // From the file that the VM's memory is, as far as the pages follow each other there.
    Result<std::uint64_t> map_again(Iova iova, std::uint64_t length, std::byte* place) override;

  private:
    WindowMemory(int device, Mapping info, Mapping window)
        : GuestMemory{window.data(), window.size(),
                      info.as<std::uint64_t>(offsetof(vrdma_mdev_info_page, scratch_faults))},
          device_{device},
          info_{std::move(info)},
          window_{std::move(window)} {}

    int device_;
    Mapping info_;
    Mapping window_;
};

} // namespace vrdma::mdev
