// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What is undone unless it is kept. Where half of something must not stay, whether the other half
// fails or finds no memory.
#pragma once

#include <utility>

namespace vrdma {

template <typename Undo>
class Rollback {
  public:
    explicit Rollback(Undo undo) : undo_{std::move(undo)} {}
    Rollback(const Rollback&) = delete;
    Rollback& operator=(const Rollback&) = delete;
    ~Rollback() {
        if (!kept_) {
            undo_();
        }
    }

    void keep() noexcept { kept_ = true; }

  private:
    Undo undo_;
    bool kept_ = false;
};

} // namespace vrdma
