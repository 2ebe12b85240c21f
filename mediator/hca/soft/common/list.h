// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A list of objects that hold their own hooks: being in a list allocates nothing, and leaving it
// needs no search.
#pragma once

#include <cassert>
#include <cstddef>

namespace vrdma::hca::soft {

template <typename T>
struct ListHook {
    T* next = nullptr;
    T* previous = nullptr;
    bool linked = false;
};

template <typename T, ListHook<T> T::*hook>
class List {
  public:
    List() = default;
    List(const List&) = delete;
    List& operator=(const List&) = delete;
    ~List() { assert(empty()); }

    bool empty() const noexcept { return first_ == nullptr; }
    std::size_t size() const noexcept { return size_; }
    T* front() const noexcept { return first_; }
    static T* after(const T& item) noexcept { return (item.*hook).next; }

    void push_back(T& item) noexcept {
        ListHook<T>& own = item.*hook;
        assert(!own.linked);
        own = {nullptr, last_, true};
        (last_ != nullptr ? (last_->*hook).next : first_) = &item;
        last_ = &item;
        ++size_;
    }

    void remove(T& item) noexcept {
        ListHook<T>& own = item.*hook;
        if (!own.linked) {
            return;
        }
        (own.previous != nullptr ? (own.previous->*hook).next : first_) = own.next;
        (own.next != nullptr ? (own.next->*hook).previous : last_) = own.previous;
        own = {};
        --size_;
    }

    T* pop_front() noexcept {
        T* item = first_;
        if (item != nullptr) {
            remove(*item);
        }
        return item;
    }

  private:
    T* first_ = nullptr;
    T* last_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace vrdma::hca::soft
