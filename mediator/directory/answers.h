// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What etcd's JSON gateway answers, read. It may be anything.
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
    std::optional<std::string> value; // none: there is none any more
    std::int64_t revision = 0;        // of its last change: of those that there are, or 0
};

struct Range {
    std::vector<Value> values;
    std::int64_t revision = 0; // at which these are all
};

Answer<std::int64_t> read_lease(std::string_view text);
// Seconds that it has left.
Answer<std::int64_t> read_time_to_live(std::string_view text);
Answer<std::int64_t> read_revision(std::string_view text);
Answer<Range> read_range(std::string_view text);

// Bytes of any kind as text of JSON.
std::string encode(std::string_view bytes);

// The answer to a watch: one line of JSON after the other, which comes in pieces.
class WatchReader {
  public:
    // Whether it wants to hear of more.
    using OnChange = std::function<bool(const std::vector<Value>& values)>;

    WatchReader(std::size_t longest_line, OnChange on_change)
        : longest_line_{longest_line}, on_change_{std::move(on_change)} {}

    // False if the watch is over.
    bool hear(std::string_view piece);
    // Nobody wanted to hear more.
    bool unwanted() const { return unwanted_; }
    // Why etcd ended it, if it said so.
    const std::string& complaint() const { return complaint_; }

  private:
    bool hear_line(std::string_view line);

    std::size_t longest_line_;
    OnChange on_change_;
    std::string text_; // of lines that have not come to their end
    std::string complaint_;
    bool unwanted_ = false;
};

} // namespace vrdma::directory
