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

namespace vrdma::wire {

class ReceiveRing {
  public:
    static constexpr std::size_t slots = 1024;
    // Holds the largest frame of RoCE whatever the interface's MTU is, or becomes.
    static constexpr std::size_t slot_size = 8192;

    // The socket must not be bound yet.
    static Result<ReceiveRing> create(int socket);

    // Returns the oldest frame, with its VLAN tag, until it is released. Makes no system calls.
    std::span<const std::byte> receive() noexcept;
    void release() noexcept;

    // Frames longer than a slot, which are dropped.
    std::uint64_t truncated() const noexcept { return truncated_; }

  private:
    explicit ReceiveRing(Mapping ring) : ring_{std::move(ring)} {}

    Mapping ring_;
    std::size_t next_ = 0;
    std::span<const std::byte> current_;
    std::uint64_t truncated_ = 0;
};

} // namespace vrdma::wire
