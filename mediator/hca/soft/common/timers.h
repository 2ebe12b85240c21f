// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// At most one timer per QP, in a binary heap. The entries know their place, so that a timer can be
// cancelled. The memory grows when QPs are created, never when timers are set.
#pragma once

#include <cassert>

#include "mediator/hca/soft/common/cache_line.h"
#include "mediator/hca/soft/config.h"

namespace vrdma::hca::soft {

// A timer of a T, which has it as a member `Timer timer`.
struct Timer {
    static constexpr std::size_t unset = ~std::size_t{0};

    std::size_t place = unset;
    Clock::time_point deadline;
};

template <typename T>
class Timers {
  public:
    // Room for so many timers.
    void reserve(std::size_t count) { heap_.reserve(count); }

    bool empty() const noexcept { return heap_.empty(); }
    T& first() const noexcept { return *heap_.front(); }
    Clock::time_point next() const noexcept { return first().timer.deadline; }

    void set(T& item, Clock::time_point deadline) noexcept {
        assert(item.timer.place == Timer::unset && heap_.size() < heap_.capacity());
        item.timer.deadline = deadline;
        heap_.push_back(&item);
        rise(heap_.size() - 1);
    }

    void cancel(T& item) noexcept {
        const std::size_t place = item.timer.place;
        if (place == Timer::unset) {
            return;
        }
        T* last = heap_.back();
        heap_.pop_back();
        item.timer.place = Timer::unset;
        if (last != &item) {
            put(place, last);
            rise(place);
            sink(last->timer.place);
        }
    }

    // Removes and returns an object whose deadline has passed, or nullptr.
    T* pop_due(Clock::time_point now) noexcept {
        if (empty() || next() > now) {
            return nullptr;
        }
        T* item = heap_.front();
        cancel(*item);
        return item;
    }

  private:
    bool earlier(std::size_t a, std::size_t b) const noexcept {
        return heap_[a]->timer.deadline < heap_[b]->timer.deadline;
    }

    void put(std::size_t place, T* item) noexcept {
        heap_[place] = item;
        item->timer.place = place;
    }

    void exchange(std::size_t a, std::size_t b) noexcept {
        T* first = heap_[a];
        put(a, heap_[b]);
        put(b, first);
    }

    void rise(std::size_t place) noexcept {
        heap_[place]->timer.place = place;
        for (std::size_t parent = (place - 1) / 2; place > 0 && earlier(place, parent);
             place = parent, parent = (place - 1) / 2) {
            exchange(place, parent);
        }
    }

    void sink(std::size_t place) noexcept {
        for (;;) {
            std::size_t least = place;
            for (std::size_t child = 2 * place + 1; child <= 2 * place + 2; ++child) {
                if (child < heap_.size() && earlier(child, least)) {
                    least = child;
                }
            }
            if (least == place) {
                return;
            }
            exchange(place, least);
            place = least;
        }
    }

    LineVector<T*> heap_;
};

} // namespace vrdma::hca::soft
