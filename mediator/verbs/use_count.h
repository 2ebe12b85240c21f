// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// An object that is in use must not be destroyed. An object counts its users, and a user keeps a
// Hold on each object that it needs.
#pragma once

#include <cassert>
#include <cstdint>
#include <utility>

namespace vrdma::verbs {

class UseCount {
  public:
    class Hold {
      public:
        Hold() = default;
        explicit Hold(UseCount& count) : count_{&count} { ++count_->users_; }
        Hold(Hold&& other) noexcept : count_{std::exchange(other.count_, nullptr)} {}
        Hold& operator=(Hold&& other) noexcept {
            std::swap(count_, other.count_);
            return *this;
        }
        Hold(const Hold&) = delete;
        Hold& operator=(const Hold&) = delete;
        ~Hold() {
            if (count_ != nullptr) {
                --count_->users_;
            }
        }

      private:
        UseCount* count_ = nullptr;
    };

    UseCount() = default;
    // Objects move into their table before anybody holds them.
    UseCount([[maybe_unused]] UseCount&& other) noexcept { assert(!other.busy()); }
    UseCount& operator=(UseCount&&) = delete;
    UseCount(const UseCount&) = delete;
    UseCount& operator=(const UseCount&) = delete;
    ~UseCount() { assert(!busy()); }

    bool busy() const noexcept { return users_ != 0; }
    Hold hold() { return Hold{*this}; }

  private:
    std::uint32_t users_ = 0;
};

} // namespace vrdma::verbs
