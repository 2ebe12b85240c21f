// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A device's objects of one kind, by id, and the two ways in which ids are chosen.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mediator/base/memory_cost.h"
#include "mediator/base/random.h"
#include "mediator/base/result.h"
#include "mediator/base/rollback.h"
#include "mediator/verbs/memory_budget.h"

namespace vrdma::verbs {

// Objects keep their address, and their part of the device's memory budget, for as long as they
// live.
template <typename IdType, typename Object>
class ObjectTable {
  public:
    // An object costs what it takes in this table, plus `elsewhere` bytes. The limit outlives
    // the table, and may change.
    ObjectTable(const std::uint32_t& limit, MemoryBudget& budget, std::uint64_t elsewhere)
        : limit_{limit}, budget_{budget}, cost_{here + elsewhere} {
        budget.widen(limit, cost_);
    }

    ObjectTable(const std::uint32_t&& limit, MemoryBudget& budget,
                std::uint64_t elsewhere) = delete;

    bool full() const { return objects_.size() >= limit_ || !budget_.has(cost_); }
    std::size_t size() const { return objects_.size(); }

    Object* find(IdType id) {
        const auto found = objects_.find(id);
        return found == objects_.end() ? nullptr : &found->second.object;
    }
    const Object* find(IdType id) const { return const_cast<ObjectTable*>(this)->find(id); }

    Result<> insert(IdType id, Object object) {
        return insert(id, std::move(object), [](const Object&) { return Result<>{}; });
    }

    // The same, for an object that the HCA makes as well, by make(object). Before that call, the
    // object holds the objects that it uses, and has its place in the table. It loses its place if
    // make() fails.
    template <typename Make>
    auto insert(IdType id, Object object, Make&& make) -> std::invoke_result_t<Make, Object&> {
        if (full()) {
            return fail(std::errc::not_enough_memory);
        }
        auto lease = budget_.take(cost_);
        if (!lease) {
            return fail(lease.error());
        }
        Rollback undo{[&] { objects_.erase(id); }};
        [[maybe_unused]] const auto [at, inserted] =
            objects_.try_emplace(id, std::move(*lease), std::move(object));
        assert(inserted);
        auto made = make(at->second.object);
        if (made) {
            undo.keep();
        }
        return made;
    }

    void erase(IdType id) { objects_.erase(id); }

    std::vector<IdType> sorted_ids() const {
        std::vector<IdType> ids;
        ids.reserve(objects_.size());
        for (const auto& [id, entry] : objects_) {
            ids.push_back(id);
        }
        std::ranges::sort(ids);
        return ids;
    }

  private:
    struct Entry {
        Entry(MemoryBudget::Lease lease_, Object object_)
            : lease{std::move(lease_)}, object{std::move(object_)} {}

        MemoryBudget::Lease lease;
        Object object;
    };
    static constexpr std::uint64_t of_id = sizeof(std::uint32_t); // a free id rests
    static constexpr std::uint64_t here = table_cost<std::pair<const IdType, Entry>>() + of_id;

    const std::uint32_t& limit_;
    MemoryBudget& budget_;
    const std::uint64_t cost_;
    std::unordered_map<IdType, Entry> objects_;
};

// Small ids, 1..limit, that an HCA can use as indices. An id that became free rests as long as
// possible, so that a stale id rarely names a new object.
class DenseIds {
  public:
    explicit DenseIds(std::uint32_t limit) : limit_{limit} {}

    Result<std::uint32_t> take() {
        if (next_ <= limit_) {
            return next_++;
        }
        if (freed_.empty()) {
            return fail(std::errc::not_enough_memory);
        }
        const std::uint32_t id = freed_.front();
        freed_.pop_front();
        return id;
    }

    void give_back(std::uint32_t id) { freed_.push_back(id); }

    // Takes this id. Restored ids must come in ascending order.
    Result<> claim(std::uint32_t id) {
        if (id < next_ || id > limit_) {
            return fail(std::errc::invalid_argument);
        }
        while (next_ < id) {
            freed_.push_back(next_++);
        }
        ++next_;
        return {};
    }

  private:
    std::uint32_t limit_;
    std::uint32_t next_ = 1;
    std::deque<std::uint32_t> freed_;
};

// Random ids from a large space, so that nobody can guess them. The ids that became free last are
// not chosen, because packets and programs may still carry them.
class RandomIds {
  public:
    // Ids from first to last; 0 and 1 are never used. Their number is a power of two, less some
    // reserved ids at the end.
    RandomIds(std::uint32_t first, std::uint32_t last) : first_{first}, last_{last} {}

    template <typename Taken>
    Result<std::uint32_t> pick(Taken taken) {
        for (int attempt = 0; attempt < 64; ++attempt) {
            const std::uint32_t id = first_ + (random_u32() & mask_);
            if (in_range(id) && !taken(id) && std::ranges::find(recent_, id) == recent_.end()) {
                return id;
            }
        }
        return fail(std::errc::not_enough_memory);
    }

    void give_back(std::uint32_t id) { recent_[oldest_++ % recent_.size()] = id; }

    bool in_range(std::uint32_t id) const { return id > 1 && id >= first_ && id <= last_; }

  private:
    std::uint32_t first_;
    std::uint32_t last_;
    std::uint32_t mask_ = std::bit_ceil(last_ - first_ + 1) - 1;
    std::size_t oldest_ = 0;
    std::array<std::uint32_t, 256> recent_{};
};

} // namespace vrdma::verbs
