// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A hostile mediator: any bytes as a message. Its frames are read as a peer's, and, as a stranger's
// may be, heard by both sides of a handshake.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "mediator/wire/fabric/handshake.h"
#include "mediator/wire/fabric/message.h"

namespace vrdma::wire::fabric {
namespace {

void require(bool condition) {
    if (!condition) {
        std::abort();
    }
}

void hear(Handshake& handshake, std::span<const std::byte> frame) {
    const auto answer = handshake.receive(frame);
    require(answer.size() <= max_frame_size);
    require(handshake.state() != Handshake::State::refused || answer.empty());
    require(handshake.peer().empty() || valid_host(handshake.peer()));
    // Nonces are new, and no input has the key.
    require(handshake.state() != Handshake::State::done);
}

// What can be read is what a peer could have written.
void receive(std::vector<std::byte> message) {
    static const Key key{std::vector<std::uint8_t>(Key::smallest, 1)};
    Handshake accepts = Handshake::accept(
        "beta", [](const std::string& name) { return name == "alpha" ? &key : nullptr; });
    Handshake connects = Handshake::connect("alpha", "beta", key);
    std::vector<std::byte> again(message_size);
    MessageWriter writer{again};
    MessageReader reader{message};
    for (auto frame = reader.next(); !frame.empty(); frame = reader.next()) {
        require(frame.size() >= smallest_frame && frame.size() <= max_frame_size);
        hear(accepts, frame);
        hear(connects, frame);
        const auto room = writer.prepare();
        if (!room.empty()) {
            std::ranges::copy(frame, room.begin());
            writer.commit(frame.size());
        }
    }
    if (!reader.malformed() && message.size() < message_size - 2 * max_frame_size) {
        require(std::ranges::equal(message, std::span{again}.first(writer.size())));
    }
}

} // namespace
} // namespace vrdma::wire::fabric

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto input =
        std::as_bytes(std::span{data, std::min<std::size_t>(size, VRDMA_FABRIC_MESSAGE_SIZE)});
    vrdma::wire::fabric::receive({input.begin(), input.end()});
    return 0;
}
