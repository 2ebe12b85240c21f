// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/management/exposition.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

namespace vrdma::management {
namespace {

constexpr std::array<std::string_view, 3> types{"counter", "gauge", "histogram"};

void append_quoted(std::string& text, std::string_view value) {
    for (const char c : value) {
        if (c == '\n') {
            text += "\\n";
        } else {
            if (c == '\\' || c == '"') {
                text += '\\';
            }
            text += c;
        }
    }
}

void append_sample(std::string& text, std::string_view name, std::string_view suffix,
                   std::string_view labels, std::string_view value) {
    text += name;
    text += suffix;
    if (!labels.empty()) {
        text += '{';
        text += labels;
        text += '}';
    }
    text += ' ';
    text += value;
    text += '\n';
}

} // namespace

std::string Exposition::labels(
    std::initializer_list<std::pair<std::string_view, std::string_view>> pairs) {
    std::string text;
    for (const auto& [name, value] : pairs) {
        text += text.empty() ? "" : ",";
        text += name;
        text += "=\"";
        append_quoted(text, value);
        text += '"';
    }
    return text;
}

void Exposition::family(std::string_view name, Type type, std::string_view help) {
    name_ = name;
    fmt::format_to(std::back_inserter(text_), "# HELP {0} {1}\n# TYPE {0} {2}\n", name, help,
                   types.at(static_cast<std::size_t>(type)));
}

void Exposition::sample(std::string_view suffix, std::string_view labels, std::uint64_t value) {
    const fmt::format_int digits{value};
    append_sample(text_, name_, suffix, labels, {digits.data(), digits.size()});
}

void Exposition::sample(std::string_view suffix, std::string_view labels, double value) {
    append_sample(text_, name_, suffix, labels, fmt::format("{}", value));
}

} // namespace vrdma::management
