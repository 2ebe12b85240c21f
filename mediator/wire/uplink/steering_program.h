// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What the kernel executes for each frame that comes in (eBPF): RoCE to one of some addresses is
// dropped, everything else goes on.
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
    // The table of addresses, which another program may look into as well.
    int addresses() const noexcept { return table_.get(); }
    // file_exists: it is there already.
    Result<> add(const SteeredAddress& address) const;
    // Whether it was there.
    bool remove(const SteeredAddress& address) const;

  private:
    SteeringProgram(UniqueFd table, UniqueFd program)
        : table_{std::move(table)}, program_{std::move(program)} {}

    UniqueFd table_;
    UniqueFd program_;
};

} // namespace vrdma::wire
