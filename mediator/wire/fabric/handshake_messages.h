// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What vrdmad and the process that makes its handshakes (vrdma-handshake) tell each other, by a
// socket of SOCK_SEQPACKET: messages of fixed fields, and behind them the bytes that they carry.
// The process reads what strangers write, and may be one of them: vrdmad takes no message that is
// not as it has to be, to the last byte.
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

// Of a handshake: no two ever have the same.
using Id = std::uint64_t;

// What one side says to the other, to be sent or as it was received.
struct Piece {
    static constexpr std::size_t most = VRDMA_FABRIC_MESSAGE_SIZE;

    Id id = 0;
    std::vector<std::byte> bytes; // one at least
};

using helper::Message;
inline constexpr std::size_t max_message = Piece::most + 16;

// To vrdmad. It has begun, and knows nothing, neither what it is to do nor any handshake.
struct Began {};
// It has its task, and handshakes can begin.
struct Ready {};
// What is wrong with the files, for people. It ends then.
struct Wrong {
    static constexpr std::size_t max_size = 4603;

    std::string text;
};
struct Say : Piece {};
// The other side is to say something, which is to be heard.
struct Next {
    Id id = 0;
};
// Who connects has proved this name. Is it one who may?
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
    std::string name; // of the other side, as it says; none if it did not
    std::string why;
};
using News = std::variant<Began, Ready, Wrong, Say, Next, Asks, Done, Refused>;

// To the process. What it is to do: always the first.
struct Task {
    CredentialFiles files;
    std::string host; // what others call us
};
struct Begin {
    Id id = 0;
    bool connects = false;
    std::string peer; // whom we connect to; else none
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

// What does not fit into a text is cut, and what is not printable there is replaced.
Message pack(const News& news);
// None if that is no message, or says what cannot be.
std::optional<News> read_news(std::span<const std::byte> message);

// None of what is too long.
std::optional<Message> pack(const Order& order);
std::optional<Order> read_order(std::span<const std::byte> message);

} // namespace handshakes
} // namespace vrdma::wire::fabric
