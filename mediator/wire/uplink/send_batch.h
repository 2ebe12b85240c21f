// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Frames on their way out, copied by the kernel in one sendmmsg().
//
// There is a mapped ring for sending, too (PACKET_TX_RING). By a virtual cable, it takes a tenth to
// a quarter longer for frames of 64 bytes to 1 KiB, and as long for 4 KiB, because the kernel
// copies its frames where others on the host get them. And a slot is held until its frame has been
// read.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "mediator/wire/packet.h"

namespace vrdma::wire {

class SendBatch {
  public:
    static constexpr std::size_t capacity = 64;

    SendBatch();

    // Empty while the batch is full.
    std::span<std::byte> prepare() noexcept;
    void commit(std::size_t bytes) noexcept;
    bool full() const noexcept { return committed_ == capacity; }
    // Returns the number of frames that the socket refused, which are lost. Frames for which it has
    // no room now stay.
    std::size_t flush(int socket) noexcept;

  private:
    struct alignas(64) Frame {
        std::array<std::byte, max_frame_size> bytes;
    };

    std::unique_ptr<std::array<Frame, capacity>> frames_;
    std::array<iovec, capacity> spans_{};
    std::array<mmsghdr, capacity> messages_{};
    std::size_t committed_ = 0;
    std::size_t sent_ = 0; // of those committed
};

} // namespace vrdma::wire
