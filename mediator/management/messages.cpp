// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/management/messages.h"

#include <algorithm>

#include "mediator/sniffer/ring.h"

namespace vrdma::management {
namespace {

void append_line(Message& message, const std::string& text) {
    Line line{};
    helper::write(line, helper::printable(text, line.size() - 1));
    helper::append(message, line);
}

bool can_be_set(const Share& share) {
    return share.weight >= 1 && share.weight <= max_weight && share.bytes_per_second <= max_rate &&
           share.operations_per_second <= max_rate;
}

// Only a question that sets something has a value for it, and a device needs at least one protocol.
bool has_valid_values(const Question& question) {
    using Kind = Question::Kind;
    const bool limits = question.kind == Kind::set_limits
                            ? can_be_set(question.share)
                            : question.share == Share{} && question.quotas == Quotas{};
    const bool protocols = (question.kind == Kind::set_protocols) == (question.protocols != 0) &&
                           (question.protocols & ~(roce_v1 | roce_v2)) == 0;
    const bool payload_limit = question.payload_limit <=
                               (question.kind == Kind::start_sniffer ? sniffer::most_payload : 0);
    return limits && protocols && payload_limit;
}

bool is_valid(const Question& question) {
    using Kind = Question::Kind;
    const bool has_settings =
        question.kind == Kind::create_device || question.kind == Kind::add_uplink;
    return question.kind <= Question::last && question.exact <= 1 && question.reserved == 0 &&
           question.force <= (question.kind == Kind::destroy_device ? 1u : 0u) &&
           question.settings <= (has_settings ? max_settings : 0) && helper::read(question.name) &&
           has_valid_values(question);
}

bool is_valid(const Setting& setting) {
    using Kind = Setting::Kind;
    const auto key = helper::read(setting.key);
    const auto text = helper::read(setting.text);
    if (!key || key->empty() || !text || !helper::is_printable(*key + *text) ||
        setting.reserved != 0) {
        return false;
    }
    switch (setting.kind) {
        case Kind::text:
        case Kind::item:
            return setting.number == 0;
        case Kind::number:
            return text->empty();
        case Kind::flag:
            return text->empty() && (setting.number == 0 || setting.number == 1);
    }
    return false;
}

} // namespace

Message pack(Question question, const Settings& settings) {
    question.settings = static_cast<std::uint32_t>(settings.size());
    Message message;
    helper::append(message, question);
    for (const Setting& setting : settings) {
        helper::append(message, setting);
    }
    return message;
}

std::optional<Asked> read_question(std::span<const std::byte> message) {
    const auto question = helper::take<Question>(message);
    if (!question || !is_valid(*question)) {
        return std::nullopt;
    }
    auto settings = read_records<Setting>(message);
    const bool valid =
        settings && settings->size() == question->settings &&
        std::ranges::all_of(*settings, [](const Setting& setting) { return is_valid(setting); });
    return valid ? std::optional{Asked{*question, std::move(*settings)}} : std::nullopt;
}

Message pack_error(std::uint32_t id, std::errc error, const std::string& reason) {
    Message message;
    helper::append(message, Answer{id, static_cast<std::uint32_t>(error), 0, 0});
    append_line(message, reason);
    return message;
}

// Both lists have room for half of the lines, at least.
Message pack_lines(std::uint32_t id, const std::vector<std::string>& some,
                   const std::vector<std::string>& others) {
    const std::size_t half = lines_each / 2;
    const std::size_t first =
        std::min(some.size(), std::max(half, lines_each - std::min(lines_each, others.size())));
    const std::size_t second = std::min(others.size(), lines_each - first);
    Message message;
    helper::append(message, Answer{id, 0, 0, static_cast<std::uint32_t>(first)});
    for (std::size_t i = 0; i < first; ++i) {
        append_line(message, some[i]);
    }
    for (std::size_t i = 0; i < second; ++i) {
        append_line(message, others[i]);
    }
    return message;
}

} // namespace vrdma::management
