// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A device that moves to itself, with a state that the input spoils on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mediator/device/device.h"
#include "mediator/device/incoming_state.h"
#include "mediator/device/sent_ahead.h"
#include "mediator/fuzz/input.h"

namespace vrdma::fuzz {

// Takes the state out of the device, which is frozen and reset afterwards.
inline std::vector<std::byte> spoiled_state(Device& device, Input& input) {
    auto announcement = device.announce();
    const SentAhead sent{device.save_ahead()};
    std::vector<std::byte> ahead{sent.bytes().begin(), sent.bytes().end()};
    device.freeze();
    const bool in_parts = input.take<std::uint8_t>() % 2 != 0;
    auto last = in_parts ? sent.rest_of(device.save_state()) : device.save();
    device.reset();
    input.spoil<std::uint16_t>(last);
    input.spoil<std::uint16_t>(announcement);
    auto stream = to_stream(announcement, StreamPart::announcement);
    const auto add = [&](const std::vector<std::byte>& part) {
        stream.insert(stream.end(), part.begin(), part.end());
    };
    if (in_parts) {
        input.spoil<std::uint16_t>(ahead);
        add(to_stream(ahead, StreamPart::ahead));
    }
    add(to_stream(last, in_parts ? StreamPart::rest : StreamPart::image));
    return stream;
}

// The device may refuse it.
inline void try_to_restore(Device& device, const DeviceType& type,
                           const std::vector<std::byte>& stream) {
    IncomingState incoming{device, longest_image(type.limits)};
    (void)incoming.take(stream).and_then([&] { return incoming.restore(); });
}

} // namespace vrdma::fuzz
