// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The receiving side of a packet socket's uplink. A ring has slots of one size, and a segmented
// frame is a thousand times as long as an acknowledgement. So frames go to one of three sockets by
// their lengths, each with a ring of its own. A thread that was away finds thousands of short
// frames, and the memory for them is not that of long ones.
//
// Frames of a flow come out in their order, whatever their lengths: the kernel notes when it got
// each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mediator/base/unique_fd.h"
#include "mediator/wire/uplink/receive_ring.h"

namespace vrdma::wire {

class Receiver {
  public:
    static constexpr std::array<ReceiveRing::Shape, 3> shapes = {
        {{.slots = 4096, .slot_size = std::size_t{2} << 10},
         {.slots = 1024, .slot_size = std::size_t{8} << 10},
         // Holds the longest segmented frame that is sent here (offload.h). GRO makes a little
         // longer ones, which lose their last packet.
         {.slots = 512, .slot_size = std::size_t{64} << 10}}};

    // Waits for a grace period of RCU.
    static Result<Receiver> create(int link_index);

    // Returns the oldest frame, with its VLAN tag, until it is released. Makes no system calls.
    std::span<const std::byte> receive() noexcept;
    void release() noexcept { ring().release(); }
    bool resembles_last() const noexcept { return lanes_[current_].ring.resembles_last(); }

    // Readable when a frame arrives, and after an error of the interface.
    int fd() const noexcept { return events_.get(); }
    // Whether there was an error since the last call.
    bool take_error() noexcept;
    // One of those that receive.
    int socket() const noexcept { return lanes_.front().socket.get(); }

    std::uint64_t truncated() const noexcept;
    // Frames that found their ring full since the last call.
    std::uint64_t take_overrun() noexcept;

    using Sockets = std::array<UniqueFd, shapes.size()>;
    // A mapped ring keeps its socket open. Afterwards nothing may be called but the destructor.
    Sockets unmap() noexcept;

  private:
    struct Lane {
        UniqueFd socket;
        ReceiveRing ring;
    };
    using Lanes = std::vector<Lane>; // of each shape one
    static constexpr std::size_t none = shapes.size();

    static Result<Lane> open(std::size_t number);
    Receiver(Lanes lanes, UniqueFd events) : lanes_{std::move(lanes)}, events_{std::move(events)} {}

    ReceiveRing& ring() noexcept { return lanes_[current_].ring; }
    std::size_t look() const noexcept;
    std::size_t oldest() const noexcept;

    Lanes lanes_;
    UniqueFd events_;
    std::size_t current_ = 0; // the lane whose frame is open, if one is
};

} // namespace vrdma::wire
