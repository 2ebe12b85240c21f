// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What the process that reads the configuration again tells vrdmad, by a socket of SOCK_SEQPACKET:
// what has changed, a message for each thing, and then that this was all; or why nothing has. Each
// message is one of these structs. The process reads a file that may have led it astray.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "mediator/hca/hca.h"
#include "mediator/helper/fields.h"

namespace vrdma::control {

struct ReloadMessage {
    enum class Kind : std::uint32_t { log_level = 1, type, device, wait, complete, wrong };

    Kind kind;
    std::uint32_t number; // of the level, the type or the device
    std::uint32_t weight; // of a type or a device, and what follows
    std::uint32_t reserved;
    std::uint64_t bytes_per_second;
    std::uint64_t operations_per_second;
    helper::Text<512> text; // what waits, or why: printable characters
};
static_assert(sizeof(ReloadMessage) == 544);

ReloadMessage share_message(ReloadMessage::Kind kind, std::size_t number, const hca::Share& share);
// Of a text that is too long, the beginning.
ReloadMessage text_message(ReloadMessage::Kind kind, std::string_view text);

// None if that is no message of a known kind.
std::optional<ReloadMessage> read_reload_message(std::span<const std::byte> bytes);
// None if it is not as it has to be.
std::optional<hca::Share> share_of(const ReloadMessage& message);
std::optional<std::string> text_of(const ReloadMessage& message);

} // namespace vrdma::control
