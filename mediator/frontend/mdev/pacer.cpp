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
    const std::uint64_t dirtied = begin.module.pinned + now.module.pins - begin.module.pins;
    const std::uint64_t before = std::exchange(dirtied_, dirtied);
    if (dirtied >= few_pages && dirtied > before / 2) {
        const double rate = static_cast<double>(now.moved - begin.moved) / length.count();
        const auto measured = static_cast<std::uint64_t>(rate);
        pace_ = std::max(slowest, (pace_ != 0 ? std::min(pace_, measured) : measured) / 2);
    }
    return pace_;
}

} // namespace vrdma::mdev
