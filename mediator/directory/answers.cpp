// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/directory/answers.h"

#include <openssl/evp.h>

#include <charconv>
#include <nlohmann/json.hpp>

namespace vrdma::directory {
namespace {

using Json = nlohmann::json;

// Returns an empty string if the text is not base64.
std::string decode(std::string_view text) {
    std::string bytes(text.size(), '\0');
    const int size = ::EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                       reinterpret_cast<const unsigned char*>(text.data()),
                                       static_cast<int>(text.size()));
    const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
    bytes.resize(size < 0 ? 0 : static_cast<std::size_t>(size) - padding);
    return bytes;
}

// Returns null for a member that does not exist. Nothing is copied: a copy takes stack per level of
// nesting, and there can be millions of levels.
const Json& at(const Json& object, const char* name) {
    static const Json null;
    const auto found = object.find(name);
    return found != object.end() ? *found : null;
}

std::string text_at(const Json& object, const char* name) {
    const Json& text = at(object, name);
    return text.is_string() ? text.get<std::string>() : std::string{};
}

// Numbers of 64 bits are strings. They are absent if they are zero.
std::int64_t number_at(const Json& object, const char* name) {
    const std::string text = text_at(object, name);
    std::int64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

// A revision is less than INT64_MAX: another one follows it, and INT64_MAX stands for the
// configuration, which is later than all.
std::int64_t revision_at(const Json& object, const char* name) {
    const std::int64_t revision = number_at(object, name);
    return revision > 0 && revision < INT64_MAX ? revision : 0;
}

Answer<Json> read_answer(std::string_view text) {
    Json json = Json::parse(text, nullptr, false);
    if (!json.is_object()) {
        return tl::unexpected{std::string{"its answer is not a JSON object"}};
    }
    return json;
}

std::int64_t revision_of(const Json& answer) {
    return revision_at(at(answer, "header"), "revision");
}

Value value_of(const Json& pair) {
    return {decode(text_at(pair, "key")), decode(text_at(pair, "value")),
            revision_at(pair, "mod_revision")};
}

std::vector<Value> changes_in(const Json& result) {
    std::vector<Value> changes;
    const Json& events = at(result, "events");
    changes.reserve(events.size());
    for (const Json& event : events) {
        Value& changed = changes.emplace_back(value_of(at(event, "kv")));
        if (text_at(event, "type") == "DELETE") {
            changed.value.reset();
        }
    }
    return changes;
}

} // namespace

std::string encode(std::string_view bytes) {
    std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
    const int size = ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                       reinterpret_cast<const unsigned char*>(bytes.data()),
                                       static_cast<int>(bytes.size()));
    text.resize(static_cast<std::size_t>(size));
    return text;
}

Answer<std::int64_t> read_lease(std::string_view text) {
    return read_answer(text).map([](const Json& answer) { return number_at(answer, "ID"); });
}

Answer<std::int64_t> read_time_to_live(std::string_view text) {
    return read_answer(text).map(
        [](const Json& answer) { return number_at(at(answer, "result"), "TTL"); });
}

Answer<std::int64_t> read_revision(std::string_view text) {
    return read_answer(text).map(revision_of);
}

Answer<Range> read_range(std::string_view text) {
    return read_answer(text).map([](const Json& answer) {
        Range range{{}, revision_of(answer)};
        const Json& pairs = at(answer, "kvs");
        range.values.reserve(pairs.size());
        for (const Json& pair : pairs) {
            range.values.push_back(value_of(pair));
        }
        return range;
    });
}

bool WatchReader::hear(std::string_view piece) {
    const std::size_t looked_at = text_.size();
    text_ += piece;
    std::size_t done = 0;
    for (std::size_t end = looked_at; (end = text_.find('\n', end)) != text_.npos; ++end) {
        if (!hear_line(std::string_view{text_}.substr(done, end - done))) {
            return false;
        }
        done = end + 1;
    }
    text_.erase(0, done);
    return text_.size() <= longest_line_;
}

bool WatchReader::hear_line(std::string_view line) {
    const auto message = read_answer(line);
    static const Json none;
    const Json& result = message ? at(*message, "result") : none;
    if (!result.is_object() || at(result, "canceled") == true) {
        complaint_ = "it ended the watch: " + std::string{line.substr(0, 200)};
        return false;
    }
    unwanted_ = !on_change_(changes_in(result));
    return !unwanted_;
}

} // namespace vrdma::directory
