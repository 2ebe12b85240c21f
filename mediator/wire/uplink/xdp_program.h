// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The program that an interface's driver executes for each frame that comes in (XDP). RoCE to one
// of some addresses goes to the AF_XDP socket of the queue it came by. Everything else passes, and
// so do frames that come by a queue without a socket. The program is attached as long as the object
// and its process exist.
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

    // `addresses` is a table of SteeredAddress.
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
