// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The state of a device that arrives from another mediator. It comes in pieces, by somebody who is
// not trusted, and becomes the state of a device of this mediator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mediator/device/device.h"
#include "mediator/device/state_stream.h"

namespace vrdma {

// The longest image that a device with these limits may have, in bytes.
std::uint64_t longest_image(const verbs::Limits& limits);

class IncomingState {
  public:
    // The device must outlive it.
    IncomingState(Device& device, std::uint64_t max_length)
        : device_{device}, max_length_{max_length}, reader_{max_length} {}

    // Takes the next piece. A piece is refused if the device cannot become the one that was
    // announced, and the last piece if it cannot have this state. An error is final.
    Result<> take(std::span<const std::byte> piece);

    // To be called when the last piece was taken. The device is frozen afterwards, or reset.
    Result<> restore();

  private:
    Result<> finish_part();
    Result<> finish_announcement();
    Result<> finish_ahead();
    Result<> finish_image();
    Result<> finish_rest();
    Result<std::span<const std::byte>> image() const;

    Device& device_;
    std::uint64_t max_length_;
    StreamReader reader_;
    bool announced_ = false;
    std::optional<std::vector<std::byte>> ahead_; // the content of that part
    std::vector<std::byte> whole_;                // the image, if it came in two parts
};

} // namespace vrdma
