// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/mdev/pacer.h"

#include <algorithm>
#include <utility>

namespace vrdma::mdev {

std::uint64_t Pacer::pace(const Sample& now) {
    const auto length = std::chrono::duration<double>{now.time - begin_.time};
    if (now.module.passes == begin_.module.passes || length < shortest_pass) {
        return pace_;
    }
    const Sample begin = std::exchange(begin_, now);
    const std::uint64_t pins = now.module.pins - begin.module.pins;
    const std::uint64_t dirtied = begin.module.pinned + pins;
    const std::uint64_t before = std::exchange(dirtied_, dirtied);
    // Long messages that are under way are not in `moved` yet. A guest that resets its device sets
    // `moved` to 0.
    const std::uint64_t touched = pins * VRDMA_PAGE_SIZE;
    const std::uint64_t ended = now.moved >= begin.moved ? now.moved - begin.moved : now.moved;
    const std::uint64_t moved = std::max(ended, touched);
    // Pages that a device which moves little has in use are not fewer if it is slowed. In a log
    // all pages are those that the device has written, so then it always counts as busy.
    const bool busy = moved >= dirtied * VRDMA_PAGE_SIZE / 2;
    if (busy && dirtied >= few_pages && dirtied > before / 2) {
        const auto rate = static_cast<std::uint64_t>(static_cast<double>(moved) / length.count());
        pace_ = std::max(slowest, (pace_ != 0 ? std::min(pace_, rate) : rate) / 2);
    }
    return pace_;
}

} // namespace vrdma::mdev
