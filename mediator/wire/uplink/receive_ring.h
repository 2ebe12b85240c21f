// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The mapped ring into which the kernel puts the frames that a packet socket receives. It has
// version 2, which shows each frame at once. Version 3 shows a block of frames when it is full or a
// timer of a millisecond or more runs out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mediator/base/mapping.h"
#include "mediator/wire/segments.h"

struct tpacket2_hdr;

namespace vrdma::wire {

class ReceiveRing {
  public:
    static constexpr std::size_t slots = 512;
    // Holds the longest segmented frame that is sent here (offload.h). GRO makes a little longer
    // ones, which lose their last packet.
    static constexpr std::size_t slot_size = std::size_t{64} << 10;

    // The socket must not be bound yet.
    static Result<ReceiveRing> create(int socket);

    // Returns the oldest frame, with its VLAN tag, until it is released. A segmented frame is
    // returned as the frames that it consists of. Makes no system calls.
    std::span<const std::byte> receive() noexcept;
    void release() noexcept;
    // Whether that frame is of the same segmented frame as the one before.
    bool resembles_last() const noexcept { return segments_.count() > 1; }

    // Frames longer than a slot, or than any of RoCE, which are dropped.
    std::uint64_t truncated() const noexcept { return truncated_; }

  private:
    explicit ReceiveRing(Mapping ring) : ring_{std::move(ring)} {}

    void open(tpacket2_hdr& slot, std::uint32_t status) noexcept;
    void free_slot() noexcept;

    Mapping ring_;
    std::size_t next_ = 0;
    std::span<const std::byte> current_;
    Segments segments_; // of the slot, after the current one
    std::uint64_t truncated_ = 0;
};

} // namespace vrdma::wire
