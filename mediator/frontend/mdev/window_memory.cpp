// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/mdev/window_memory.h"

#include <sys/ioctl.h>

#include "mediator/base/errno.h"
#include "mediator/base/unique_fd.h"
#include "vrdma/device.h"

namespace vrdma::mdev {

Result<std::unique_ptr<WindowMemory>> WindowMemory::map(int device) {
    auto info = Mapping::map(device, VRDMA_MDEV_MMAP_INFO, VRDMA_PAGE_SIZE, PROT_READ);
    if (!info) {
        return fail(info.error());
    }
    auto window = Mapping::map(device, VRDMA_MDEV_MMAP_WINDOW, VRDMA_MDEV_WINDOW_SIZE,
                               PROT_READ | PROT_WRITE);
    if (!window) {
        return fail(window.error());
    }
    return std::unique_ptr<WindowMemory>{
        new WindowMemory{device, std::move(*info), std::move(*window)}};
}

// A VM monitor may have opened the file in a way that allows no mapping to write.
Result<std::uint64_t> WindowMemory::map_again(Iova iova, std::uint64_t length, std::byte* place) {
    vrdma_mdev_file file{.iova = raw(iova), .length = length, .offset = 0, .fd = -1, .reserved = 0};
    if (::ioctl(device_, VRDMA_MDEV_FILE, &file) != 0) {
        return fail_errno();
    }
    const UniqueFd fd{file.fd};
    if (::mmap(place, file.length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd.get(),
               static_cast<off_t>(file.offset)) == MAP_FAILED) {
        return fail(std::errc::operation_not_supported);
    }
    return file.length;
}

// Unpins whole pages. Other data on them is pinned anew when it is touched.
void WindowMemory::release(Iova iova, std::uint64_t length) noexcept {
    constexpr std::uint64_t mask = VRDMA_PAGE_SIZE - 1;
    const std::uint64_t begin = raw(iova) & ~mask;
    const std::uint64_t end = (raw(iova) + length + mask) & ~mask;
    vrdma_mdev_range range{begin, end - begin};
    ::ioctl(device_, VRDMA_MDEV_UNPIN, &range); // fails if the device is gone, with its pins
}

} // namespace vrdma::mdev
