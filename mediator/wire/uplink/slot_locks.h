// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Locks that say which of several daemons has which slot at an interface: one file per slot, locked
// for as long as its owner lives. The files are where only daemons can open them (/run/vrdma, or
// the directory that systemd made for the service), so that no other process takes a slot.
#pragma once

#include <string>

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"

namespace vrdma::wire {

class SlotLocks {
  public:
    // The locks of an interface of this network namespace. An error if others can write to the
    // directory.
    static Result<SlotLocks> open(int link_index);
    static Result<SlotLocks> open_in(const std::string& directory, int link_index);

    // None if another owner has it.
    UniqueFd take(unsigned slot) const;

  private:
    SlotLocks(UniqueFd directory, std::string interface)
        : directory_{std::move(directory)}, interface_{std::move(interface)} {}

    UniqueFd directory_;
    std::string interface_;
};

} // namespace vrdma::wire
