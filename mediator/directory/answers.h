// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Parses the answers of etcd's JSON gateway. They may contain anything.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace vrdma::directory {

template <typename T = void>
using Answer = tl::expected<T, std::string>; // the error is for people

struct Value {
    std::string key;
    std::optional<std::string> value; // none: the key has been deleted
    std::int64_t revision = 0;        // of its last change; 0: no valid one
};

struct Range {
    std::vector<Value> values;
    std::int64_t revision = 0; // the values are complete as of this one
};

Answer<std::int64_t> read_lease(std::string_view text);
// The seconds that the lease has left.
Answer<std::int64_t> read_time_to_live(std::string_view text);
Answer<std::int64_t> read_revision(std::string_view text);
Answer<Range> read_range(std::string_view text);

// Encodes bytes of any kind as text for JSON.
std::string encode(std::string_view bytes);

// The answer to a watch: lines of JSON, which arrive in pieces.
class WatchReader {
  public:
    // Returns whether further changes are wanted.
    using OnChange = std::function<bool(const std::vector<Value>& values)>;

    WatchReader(std::size_t longest_line, OnChange on_change)
        : longest_line_{longest_line}, on_change_{std::move(on_change)} {}

    // False if the watch is over.
    bool hear(std::string_view piece);
    // True if the watch is over because on_change() wanted no further changes.
    bool unwanted() const { return unwanted_; }
    // Why etcd ended the watch, if it said so.
    const std::string& complaint() const { return complaint_; }

  private:
    bool hear_line(std::string_view line);

    std::size_t longest_line_;
    OnChange on_change_;
    std::string text_; // of lines that are not complete
    std::string complaint_;
    bool unwanted_ = false;
};

} // namespace vrdma::directory
