// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Records the items that each holder has, with a limit per holder and a limit for all. If a holder
// exceeds its limit, it loses its oldest item. If all holders together exceed theirs, the one with
// the most items loses its oldest. So what one holder takes costs others nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

namespace vrdma {

template <typename Item>
class Holdings {
  public:
    using Holder = std::uint64_t;
    using Held = std::pair<Holder, Item>;

    // Each limit is at least 1; `all` is not less than `each`.
    Holdings(std::size_t each, std::size_t all) : each_{each}, all_{all} {}

    std::size_t size() const { return size_; }

    // How many more items the holder can add without losing one of its own, and without taking one
    // from a holder that would then have fewer than it.
    std::size_t room(Holder holder) const {
        const auto own = holders_.find(holder);
        const std::size_t count = own == holders_.end() ? 0 : own->second.size();
        if (size_ < all_) {
            return std::min(each_ - count, all_ - size_);
        }
        return count < each_ && largest(holders_.begin())->second.size() >= count + 2 ? 1 : 0;
    }

    // Returns the item that is lost for the new one, if any. The holder must not have `item` yet.
    std::optional<Held> add(Holder holder, const Item& item) {
        const auto own = holders_.try_emplace(holder).first;
        own->second.push_back(item);
        ++size_;
        if (own->second.size() > each_) {
            return lose_oldest(own);
        }
        return size_ > all_ ? std::optional{lose_oldest(largest(own))} : std::nullopt;
    }

    void remove(Holder holder, const Item& item) {
        const auto own = holders_.find(holder);
        if (own == holders_.end()) {
            return;
        }
        size_ -= std::erase(own->second, item);
        if (own->second.empty()) {
            holders_.erase(own);
        }
    }

    void clear() {
        holders_.clear();
        size_ = 0;
    }

  private:
    using Holders = std::map<Holder, std::deque<Item>>;

    using Place = typename Holders::const_iterator;

    // The holder with the most items. It is `rather`, if no other has more than that one.
    Place largest(Place rather) const {
        Place most = rather;
        for (Place each = holders_.begin(); each != holders_.end(); ++each) {
            most = each->second.size() > most->second.size() ? each : most;
        }
        return most;
    }

    Held lose_oldest(Place loser) {
        const auto from = holders_.find(loser->first);
        const Held lost{from->first, from->second.front()};
        from->second.pop_front();
        --size_;
        if (from->second.empty()) {
            holders_.erase(from);
        }
        return lost;
    }

    const std::size_t each_;
    const std::size_t all_;
    std::size_t size_ = 0;
    Holders holders_;
};

} // namespace vrdma
