// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/reload_message.h"

#include "mediator/base/rate.h"

namespace vrdma::control {

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
    helper::write(message.text, helper::printable(std::string{text}, message.text.size() - 1));
    return message;
}

std::optional<ReloadMessage> read_reload_message(std::span<const std::byte> bytes) {
    const auto message = helper::take_last<ReloadMessage>(bytes);
    const bool known = message && message->kind >= ReloadMessage::Kind::log_level &&
                       message->kind <= ReloadMessage::Kind::wrong;
    return known && message->reserved == 0 ? message : std::nullopt;
}

std::optional<hca::Share> share_of(const ReloadMessage& message) {
    if (message.weight < 1 || message.weight > hca::Share::max_weight ||
        message.bytes_per_second > max_rate || message.operations_per_second > max_rate) {
        return std::nullopt;
    }
    return hca::Share{message.weight, message.bytes_per_second, message.operations_per_second};
}

std::optional<std::string> text_of(const ReloadMessage& message) {
    auto text = helper::read(message.text);
    return text && !text->empty() && helper::is_printable(*text) ? text : std::nullopt;
}

} // namespace vrdma::control
