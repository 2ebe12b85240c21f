// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What the kernel executes for each frame that comes in (eBPF): RoCE to one of some addresses is
// dropped, everything else goes on.
#pragma once

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"
#include "mediator/wire/packet.h"

namespace vrdma::wire {

// As it lies in the program's table. RoCE v2 over IPv4 is to an IPv4-mapped GID.
struct SteeredAddress {
    Gid gid{};
    Mac mac{};
    Encapsulation type = Encapsulation::roce_v2;
    std::uint8_t reserved = 0;
};
static_assert(sizeof(SteeredAddress) == 24);

class SteeringProgram {
  public:
    static constexpr std::uint32_t max_addresses = 65536;

    static Result<SteeringProgram> load();

    int fd() const noexcept { return program_.get(); }
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
