// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A hostile mediator: any bytes as a message. The message is read as the frames of an authentic
// peer. Both sides of a handshake receive it, as from a stranger. It is also unsealed, as if an
// attacker on the path had changed it. The process that makes handshakes may be taken over by it,
// so the message is also read as one from that process.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "mediator/wire/fabric/handshake.h"
#include "mediator/wire/fabric/handshake_messages.h"
#include "mediator/wire/fabric/message.h"
#include "mediator/wire/fabric/seal.h"
#include "mediator/wire/fabric/tests/authority.h"

namespace vrdma::wire::fabric {
namespace {

using Bytes = std::vector<std::byte>;

void require(bool condition) {
    if (!condition) {
        std::abort();
    }
}

// Only frames that a peer could have written are accepted.
void read_frames(Bytes message) {
    Bytes again(message_size);
    MessageWriter writer{again};
    MessageReader reader{message};
    for (auto frame = reader.next(); !frame.empty(); frame = reader.next()) {
        require(frame.size() >= smallest_frame && frame.size() <= max_frame_size);
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

void hear(Handshake handshake, std::span<const std::byte> message) {
    handshake.begin();
    const auto answer = handshake.receive(message);
    require(answer.size() <= message_size);
    require(handshake.peer().empty() || valid_host(handshake.peer()));
    // Nonces are new, and no input contains the key of a certificate.
    require(handshake.state() == Handshake::State::open ||
            handshake.state() == Handshake::State::refused);
}

// The files are removed with the authority.
std::pair<Credentials, Credentials> make_credentials() {
    Authority authority;
    return {authority.credentials("alpha"), authority.credentials("beta")};
}

void shake_hands(const Bytes& message) {
    static const auto [alpha, beta] = make_credentials();
    hear(Handshake::connect(alpha, "alpha", "beta"), message);
    hear(Handshake::accept(beta, "beta"), message);
}

void open(Bytes message) {
    constexpr vrdma_fabric_secret secret{{1}, {2}};
    require(!Opener::create(secret)->open(message));
}

// Only messages that could have been written are accepted.
void read_of_process(std::span<const std::byte> message) {
    if (const auto news = handshakes::read_news(message)) {
        require(std::ranges::equal(handshakes::pack(*news), message));
    }
    if (const auto order = handshakes::read_order(message)) {
        const auto again = handshakes::pack(*order);
        require(again && std::ranges::equal(*again, message));
    }
}

} // namespace
} // namespace vrdma::wire::fabric

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto input =
        std::as_bytes(std::span{data, std::min<std::size_t>(size, VRDMA_FABRIC_MESSAGE_SIZE)});
    const std::vector<std::byte> message{input.begin(), input.end()};
    vrdma::wire::fabric::read_frames(message);
    vrdma::wire::fabric::shake_hands(message);
    vrdma::wire::fabric::open(message);
    vrdma::wire::fabric::read_of_process(message);
    return 0;
}
