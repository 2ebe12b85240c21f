// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The ring into which the kernel puts the frames that a packet socket receives, mapped here. Of
// version 2: version 3 shows a block of frames when it is full or a timer of a millisecond or more
// runs out, version 2 each frame at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mediator/base/mapping.h"

namespace vrdma::wire {

class ReceiveRing {
  public:
    static constexpr std::size_t slots = 1024;
    // Holds the largest frame of RoCE whatever the interface's MTU is, or becomes.
    static constexpr std::size_t slot_size = 8192;

    // For a socket that is not bound yet.
    static Result<ReceiveRing> create(int socket);

    // The oldest frame, with its VLAN tag, until it is released. No system calls.
    std::span<const std::byte> receive() noexcept;
    void release() noexcept;

    // Frames longer than a slot, which nobody gets.
    std::uint64_t truncated() const noexcept { return truncated_; }

  private:
    explicit ReceiveRing(Mapping ring) : ring_{std::move(ring)} {}

    Mapping ring_;
    std::size_t next_ = 0;
    std::span<const std::byte> current_;
    std::uint64_t truncated_ = 0;
};

} // namespace vrdma::wire
