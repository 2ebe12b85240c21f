// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/reload_message.h"

#include <algorithm>
#include <cstring>

namespace vrdma::control {
namespace {

bool printable(char c) {
    return c >= ' ' && c <= '~';
}

} // namespace

ReloadMessage share_message(ReloadMessage::Kind kind, std::size_t number, const hca::Share& share) {
    ReloadMessage message{};
    message.kind = kind;
    message.number = static_cast<std::uint32_t>(number);
    message.weight = share.weight;
    message.bytes_per_second = share.bytes_per_second;
    message.operations_per_second = share.operations_per_second;
    return message;
}

ReloadMessage text_message(ReloadMessage::Kind kind, std::string_view text) {
    ReloadMessage message{};
    message.kind = kind;
    const auto kept = text.substr(0, message.text.size() - 1);
    std::ranges::transform(kept, message.text.begin(),
                           [](char c) { return printable(c) ? c : '?'; });
    return message;
}

std::optional<ReloadMessage> read_reload_message(std::span<const std::byte> bytes) {
    ReloadMessage message{};
    if (bytes.size() != sizeof(message)) {
        return std::nullopt;
    }
    std::memcpy(&message, bytes.data(), sizeof(message));
    const bool known = message.kind >= ReloadMessage::Kind::log_level &&
                       message.kind <= ReloadMessage::Kind::wrong;
    return known && message.reserved == 0 ? std::optional{message} : std::nullopt;
}

std::optional<hca::Share> share_of(const ReloadMessage& message) {
    if (message.weight < 1 || message.weight > hca::Share::max_weight) {
        return std::nullopt;
    }
    return hca::Share{message.weight, message.bytes_per_second, message.operations_per_second};
}

std::optional<std::string> text_of(const ReloadMessage& message) {
    const auto end = std::ranges::find(message.text, '\0');
    const std::string text{message.text.begin(), end};
    const bool good = !text.empty() && std::ranges::all_of(text, printable) &&
                      std::all_of(end, message.text.end(), [](char c) { return c == '\0'; });
    return good ? std::optional{text} : std::nullopt;
}

} // namespace vrdma::control
