// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A page of what has names.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "mediator/management/mediator.h"

namespace vrdma::management {

// The item of the range's name, or the first ones after it. name_of(item) is unique.
template <typename Item, typename NameOf>
std::vector<Item> select(std::vector<Item> items, const Range& range, NameOf name_of) {
    std::erase_if(items, [&](const Item& item) {
        const auto& name = std::invoke(name_of, item);
        return range.exact ? name != range.name : name <= range.name;
    });
    const auto first_after =
        items.begin() + static_cast<std::ptrdiff_t>(std::min(items.size(), range.most));
    std::ranges::partial_sort(items, first_after, std::ranges::less{},
                              [&](const Item& item) { return std::invoke(name_of, item); });
    items.erase(first_after, items.end());
    return items;
}

} // namespace vrdma::management
