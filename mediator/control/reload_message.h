// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The messages by which the process that reads the configuration again answers vrdmad, over a
// SOCK_SEQPACKET socket. Each message is one of these structs. An answer has one message per change
// and then `complete`, or it has only `wrong`, with the reason. vrdmad must not trust the process,
// because the file may have exploited its parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "mediator/hca/share.h"
#include "mediator/helper/fields.h"

namespace vrdma::control {

struct ReloadMessage {
    enum class Kind : std::uint32_t { log_level = 1, type, device, wait, complete, wrong };

    Kind kind;
    std::uint32_t number; // of the level, the type or the device
    std::uint32_t weight; // this and the next two: of a type or a device
    std::uint32_t reserved;
    std::uint64_t bytes_per_second;
    std::uint64_t operations_per_second;
    helper::Text<512> text; // what waits, or the error: printable characters
};
static_assert(sizeof(ReloadMessage) == 544);

ReloadMessage share_message(ReloadMessage::Kind kind, std::size_t number, const hca::Share& share);
// Takes the beginning of a text that is too long.
ReloadMessage text_message(ReloadMessage::Kind kind, std::string_view text);

// Returns nothing if that is no message of a known kind.
std::optional<ReloadMessage> read_reload_message(std::span<const std::byte> bytes);
// Return nothing if the message's fields are invalid.
std::optional<hca::Share> share_of(const ReloadMessage& message);
std::optional<std::string> text_of(const ReloadMessage& message);

} // namespace vrdma::control
