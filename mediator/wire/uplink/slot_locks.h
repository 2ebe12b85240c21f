// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Which of several daemons has which slot at an interface: a file a slot, locked for as long as its
// owner lives. They lie where only daemons can open them (/run/vrdma, or what systemd made for the
// service), so that no other process takes a slot.
#pragma once

#include <string>

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"

namespace vrdma::wire {

class SlotLocks {
  public:
    // Of an interface of this network namespace. An error if the directory is others' to write to.
    static Result<SlotLocks> open(int link_index);
    static Result<SlotLocks> open_in(const std::string& directory, int link_index);

    // None if somebody has it.
    UniqueFd take(unsigned slot) const;

  private:
    SlotLocks(UniqueFd directory, std::string interface)
        : directory_{std::move(directory)}, interface_{std::move(interface)} {}

    UniqueFd directory_;
    std::string interface_;
};

} // namespace vrdma::wire
