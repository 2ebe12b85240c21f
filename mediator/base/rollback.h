// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Undoes an action at the end of a scope, unless keep() was called. So no half of a change stays if
// the other half fails or finds no memory.
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
