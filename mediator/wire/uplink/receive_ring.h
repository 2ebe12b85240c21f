// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The mapped ring into which the kernel puts the frames that a packet socket receives. It has
// version 2, which shows each frame at once. Version 3 shows a block of frames when it is full or a
// timer of a millisecond or more runs out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "mediator/base/mapping.h"
#include "mediator/wire/segments.h"

struct tpacket2_hdr;

namespace vrdma::wire {

class ReceiveRing {
  public:
    // Powers of two. A slot is at least half a page, and at most 64 KiB.
    struct Shape {
        std::size_t slots;
        std::size_t slot_size;
        // Before the frame, a slot has the kernel's header, virtio's, and room for the VLAN tag.
        constexpr std::size_t longest_frame() const noexcept { return slot_size - 128; }
    };

    // The socket must not be bound yet. Waits for a grace period of RCU.
    static Result<ReceiveRing> create(int socket, Shape shape);

    // When the kernel got the oldest frame that is not opened, in ns of its clock; nothing if there
    // is none. Makes no system calls.
    std::optional<std::uint64_t> arrival() const noexcept;
    // Opens the oldest frame, with its VLAN tag. A segmented frame becomes the frames that it
    // consists of. A frame is dropped if it is too long, or consists of none.
    void open() noexcept;
    // The frame that is open, until release(). Empty if none is.
    std::span<const std::byte> frame() const noexcept { return current_; }
    void release() noexcept;
    // Whether that frame is of the same segmented frame as the one before.
    bool resembles_last() const noexcept { return segments_.count() > 1; }

    // Frames longer than a slot, or than any of RoCE, which are dropped.
    std::uint64_t truncated() const noexcept { return truncated_; }

  private:
    ReceiveRing(Mapping ring, Shape shape) : ring_{std::move(ring)}, shape_{shape} {}

    tpacket2_hdr& next_slot() const noexcept;
    void free_slot() noexcept;

    Mapping ring_;
    Shape shape_;
    std::size_t next_ = 0;
    std::span<const std::byte> current_;
    Segments segments_; // of the slot, after the current one
    std::uint64_t truncated_ = 0;
};

} // namespace vrdma::wire
