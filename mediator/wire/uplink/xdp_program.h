// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What an interface's driver executes for each frame that comes in (XDP): RoCE to one of some
// addresses goes to the AF_XDP socket of the queue it came by, everything else goes on, as what
// comes by a queue without a socket does. Attached as long as the object is there, and its process.
#pragma once

#include <cstdint>

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"

namespace vrdma::wire {

class XdpProgram {
  public:
    static constexpr std::uint32_t max_queues = 64;
    enum class Place : std::uint8_t {
        driver, // before anything is made of a frame
        stack,  // behind any driver, and slow (generic XDP)
    };

    // Addresses: a table of SteeredAddress.
    static Result<XdpProgram> load(int addresses);

    Result<> set_socket(std::uint32_t queue, int socket) const;
    // device_or_resource_busy: another program is there.
    Result<> attach(int link_index, Place place);

  private:
    XdpProgram(UniqueFd sockets, UniqueFd program)
        : sockets_{std::move(sockets)}, program_{std::move(program)} {}

    UniqueFd sockets_;
    UniqueFd program_;
    UniqueFd link_;
};

} // namespace vrdma::wire
