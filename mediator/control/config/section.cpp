// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/config/section.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>
#include <string>

namespace vrdma::control {
namespace {

// The value as the file could have it: strings are in double quotes.
std::string toml_of(const toml::node& node) {
    constexpr auto flags =
        toml::toml_formatter::default_flags & ~toml::format_flags::allow_literal_strings;
    std::ostringstream text;
    text << toml::toml_formatter{node, flags};
    std::string line;
    bool indented = false; // a long array has several lines
    for (const char c : text.str()) {
        indented = c == '\n' || (indented && c == ' ');
        line += indented ? "" : std::string(1, c);
    }
    return line;
}

// The header of a table that has no place where it is.
std::string header_of(const toml::node& node, const std::string& name) {
    return node.is_table() ? fmt::format("[{}]", name) : fmt::format("[[{}]]", name);
}

} // namespace

void Section::microseconds(std::string_view key, std::chrono::microseconds& out) {
    constexpr std::int64_t max = 60'000'000;
    std::int64_t value = out.count();
    integer(key, value, 0, max);
    out = std::chrono::microseconds{value};
}

void Section::text(std::string_view key, std::string& out) {
    const toml::node* node = find(key);
    if (node == nullptr) {
        return;
    }
    const auto value = node->value_exact<std::string>();
    if (!value) {
        refuse(key, "a string");
    }
    out = *value;
}

void Section::boolean(std::string_view key, bool& out) {
    const toml::node* node = find(key);
    if (node == nullptr) {
        return;
    }
    const auto value = node->value_exact<bool>();
    if (!value) {
        refuse(key, "true or false");
    }
    out = *value;
}

std::vector<std::string> Section::texts(std::string_view key) {
    const toml::node* node = find(key);
    std::vector<std::string> texts;
    if (node == nullptr) {
        return texts;
    }
    if (!node->is_array() || (!node->as_array()->empty() &&
                              !node->as_array()->is_homogeneous(toml::node_type::string))) {
        refuse(key, "an array of strings");
    }
    texts.reserve(node->as_array()->size());
    for (const toml::node& text : *node->as_array()) {
        texts.push_back(*text.value_exact<std::string>());
    }
    return texts;
}

std::vector<Section> Section::sections(std::string_view key) {
    const toml::node* node = find(key);
    std::vector<Section> sections;
    if (node == nullptr) {
        return sections;
    }
    if (!node->is_array_of_tables()) {
        refuse(key, fmt::format("tables that begin with [[{}]]", name(key)));
    }
    for (const toml::node& table : *node->as_array()) {
        sections.push_back({table.as_table(), fmt::format("{}[{}]", name(key), sections.size())});
    }
    return sections;
}

Section Section::section(std::string_view key) {
    const toml::node* node = find(key);
    if (node != nullptr && !node->is_table()) {
        refuse(key, fmt::format("a table that begins with [{}]", name(key)));
    }
    return {node == nullptr ? nullptr : node->as_table(), name(key)};
}

std::vector<std::string> Section::keys() const {
    std::vector<std::string> keys;
    if (table_ != nullptr) {
        for (const auto& [key, node] : *table_) {
            keys.emplace_back(key.str());
        }
    }
    return keys;
}

std::string Section::name(std::string_view key) const {
    return path_.empty() ? std::string{key} : fmt::format("{}.{}", path_, key);
}

void Section::finish() const {
    for (const std::string& key : keys()) {
        if (!known_.contains(key)) {
            throw BadConfig{fmt::format("{}: unknown key: must be one of {}", name(key),
                                        fmt::join(known_, ", "))};
        }
    }
}

void Section::refuse(std::string_view key, std::string_view must_be) {
    const toml::node* node = find(key);
    if (node == nullptr) {
        throw BadConfig{fmt::format("{} is not set: it must be {}", name(key), must_be)};
    }
    if (node->is_table() || node->is_array_of_tables()) {
        throw BadConfig{fmt::format("{}: must be {}", header_of(*node, name(key)), must_be)};
    }
    throw BadConfig{fmt::format("{} = {}: must be {}", name(key), toml_of(*node), must_be)};
}

const toml::node* Section::find(std::string_view key) {
    known_.emplace(key);
    return table_ == nullptr ? nullptr : table_->get(key);
}

bool Section::read_integer(std::string_view key, std::int64_t& out, std::int64_t min,
                           std::int64_t max) {
    const toml::node* node = find(key);
    if (node == nullptr) {
        return false;
    }
    const auto value = node->value_exact<std::int64_t>();
    if (!value || *value < min || *value > max) {
        refuse(key, fmt::format("a number from {} to {}", min, max));
    }
    out = *value;
    return true;
}

} // namespace vrdma::control
