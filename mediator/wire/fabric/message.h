// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Frames in a message to or from a peer: see vrdma/fabric.h. Messages that arrive may be hostile.
#pragma once

#include <cstddef>
#include <span>

#include "mediator/wire/packet.h"
#include "vrdma/fabric.h"

namespace vrdma::wire::fabric {

inline constexpr std::size_t message_size = VRDMA_FABRIC_MESSAGE_SIZE;
inline constexpr std::size_t smallest_frame = 14;

// Gathers frames in a message.
class MessageWriter {
  public:
    MessageWriter() = default;
    explicit MessageWriter(std::span<std::byte> message) : message_{message} {}

    // Room for the largest frame; empty if there is less.
    std::span<std::byte> prepare() noexcept;
    void commit(std::size_t bytes) noexcept;
    std::size_t size() const noexcept { return size_; }

  private:
    std::span<std::byte> message_;
    std::size_t size_ = 0;
};

class MessageReader {
  public:
    MessageReader() = default;
    explicit MessageReader(std::span<std::byte> message) : rest_{message} {}

    // The next frame; empty at the end, or if the message makes no sense.
    std::span<std::byte> next() noexcept;
    bool malformed() const noexcept { return malformed_; }

  private:
    std::span<std::byte> rest_;
    bool malformed_ = false;
};

} // namespace vrdma::wire::fabric
