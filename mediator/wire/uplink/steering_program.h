// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The program that the kernel executes for each frame that comes in (eBPF). It drops RoCE to one of
// some addresses, and passes everything else.
#pragma once

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"
#include "mediator/wire/uplink/steering_code.h"

namespace vrdma::wire {

class SteeringProgram {
  public:
    static constexpr std::uint32_t max_addresses = 65536;

    static Result<SteeringProgram> load();

    int fd() const noexcept { return program_.get(); }
    // The table of addresses, which another program may use as well.
    int addresses() const noexcept { return table_.get(); }
    // file_exists: the address is there already.
    Result<> add(const SteeredAddress& address) const;
    // Returns whether the address was there.
    bool remove(const SteeredAddress& address) const;

  private:
    SteeringProgram(UniqueFd table, UniqueFd program)
        : table_{std::move(table)}, program_{std::move(program)} {}

    UniqueFd table_;
    UniqueFd program_;
};

} // namespace vrdma::wire
