// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The messages between vrdmad and the process that makes its handshakes (vrdma-handshake), by a
// socket of SOCK_SEQPACKET. A message has fixed fields, followed by the bytes that it carries. The
// process reads strangers' input, and a stranger may have taken it over: vrdmad accepts a message
// only if all of its bytes are valid.
//
// vrdmad and the process take turns at each handshake. The process has the turn from `Begin` of a
// side that connects, `Heard` or `Admit` on, until it says one of `Next`, `Asks`, `Done` and
// `Refused`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "mediator/helper/fields.h"
#include "mediator/wire/fabric/credential_files.h"
#include "mediator/wire/fabric/secrets.h"

namespace vrdma::wire::fabric {

namespace handshakes {

// The number of a handshake, which is never reused.
using Id = std::uint64_t;

// Bytes to be sent to the other side, or received from it.
struct Piece {
    static constexpr std::size_t most = VRDMA_FABRIC_MESSAGE_SIZE;

    Id id = 0;
    std::vector<std::byte> bytes; // at least one
};

using helper::Message;
inline constexpr std::size_t max_message = Piece::most + 16;

// To vrdmad. A worker has begun. It knows neither its task nor any handshake.
struct Began {};
// The worker has its task, and handshakes can begin.
struct Ready {};
// The error in the files, for people. The worker then ends.
struct Wrong {
    static constexpr std::size_t max_size = 4603;

    std::string text;
};
struct Say : Piece {};
// The next message of the other side is to be heard.
struct Next {
    Id id = 0;
};
// The peer that connects has proved this name. May it connect?
struct Asks {
    Id id = 0;
    std::string name;
};
struct Done {
    Id id = 0;
    std::string name; // of the other side
    Secrets secrets;
};
struct Refused {
    static constexpr std::size_t max_size = 511;

    Id id = 0;
    std::string name; // of the other side, as it claims; empty if it did not
    std::string why;
};
using News = std::variant<Began, Ready, Wrong, Say, Next, Asks, Done, Refused>;

// To the process. Its task, which is always the first order.
struct Task {
    CredentialFiles files;
    std::string host; // the name by which others know us
};
struct Begin {
    Id id = 0;
    bool connects = false;
    std::string peer; // the one that we connect to; else empty
};
struct Heard : Piece {};
struct Admit {
    Id id = 0;
    bool admitted = false;
};
struct Forget {
    Id id = 0;
};
using Order = std::variant<Task, Begin, Heard, Admit, Forget>;

// Text that is too long is cut, and characters that are not printable are replaced.
Message pack(const News& news);
// None if it is not a valid message.
std::optional<News> read_news(std::span<const std::byte> message);

// None if the order is too long.
std::optional<Message> pack(const Order& order);
std::optional<Order> read_order(std::span<const std::byte> message);

} // namespace handshakes
} // namespace vrdma::wire::fabric
