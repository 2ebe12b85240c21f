// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A list of objects that hold their own links: being in a list allocates nothing, and leaving it
// needs no search.
#pragma once

#include <cassert>
#include <cstddef>

namespace vrdma::hca::soft {

template <typename T>
struct Link {
    T* next = nullptr;
    T* previous = nullptr;
    bool linked = false;
};

template <typename T, Link<T> T::*link>
class List {
  public:
    List() = default;
    List(const List&) = delete;
    List& operator=(const List&) = delete;
    ~List() { assert(empty()); }

    bool empty() const noexcept { return first_ == nullptr; }
    std::size_t size() const noexcept { return size_; }
    T* front() const noexcept { return first_; }
    static T* after(const T& item) noexcept { return (item.*link).next; }

    void push_back(T& item) noexcept {
        Link<T>& hook = item.*link;
        assert(!hook.linked);
        hook = {nullptr, last_, true};
        (last_ != nullptr ? (last_->*link).next : first_) = &item;
        last_ = &item;
        ++size_;
    }

    void remove(T& item) noexcept {
        Link<T>& hook = item.*link;
        if (!hook.linked) {
            return;
        }
        (hook.previous != nullptr ? (hook.previous->*link).next : first_) = hook.next;
        (hook.next != nullptr ? (hook.next->*link).previous : last_) = hook.previous;
        hook = {};
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
