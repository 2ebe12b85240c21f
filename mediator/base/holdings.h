// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Who holds what of something that is bounded for each holder and for all. Who holds too much, or
// the most where all together do, loses what it has had longest: what one takes costs others
// nothing.
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

    // At least 1 each, and of all no less.
    Holdings(std::size_t each, std::size_t all) : each_{each}, all_{all} {}

    std::size_t size() const { return size_; }

    // How many more the holder may have that cost it nothing, nor anybody who would then hold less
    // than it.
    std::size_t room(Holder holder) const {
        const auto own = holders_.find(holder);
        const std::size_t count = own == holders_.end() ? 0 : own->second.size();
        if (size_ < all_) {
            return std::min(each_ - count, all_ - size_);
        }
        return count < each_ && largest(holders_.begin())->second.size() >= count + 2 ? 1 : 0;
    }

    // What is lost for it, if anything. It is not held yet.
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

    // Or `rather`, if nobody holds more than that one.
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
