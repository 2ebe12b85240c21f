// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A device that moves to itself, with a state that the input spoils on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mediator/device/device.h"
#include "mediator/device/incoming_state.h"
#include "mediator/fuzz/input.h"

namespace vrdma::fuzz {

// Takes the state out of the device, which is frozen and reset afterwards.
inline std::vector<std::byte> spoiled_state(Device& device, Input& input) {
    auto announcement = device.announce();
    device.freeze();
    auto image = device.save();
    device.reset();
    input.spoil<std::uint16_t>(image);
    input.spoil<std::uint16_t>(announcement);
    auto stream = to_stream(announcement, StreamPart::announcement);
    const auto rest = to_stream(image);
    stream.insert(stream.end(), rest.begin(), rest.end());
    return stream;
}

// The device may refuse it.
inline void try_to_restore(Device& device, const DeviceType& type,
                           const std::vector<std::byte>& stream) {
    IncomingState incoming{device, longest_image(type.limits)};
    (void)incoming.take(stream).and_then([&] { return incoming.restore(); });
}

} // namespace vrdma::fuzz
