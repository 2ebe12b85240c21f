// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Writes the text format of Prometheus, version 0.0.4: families of metrics, and the samples of
// each.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace vrdma::management {

class Exposition {
  public:
    static constexpr char content_type[] = "text/plain; version=0.0.4; charset=utf-8";

    enum class Type : std::uint8_t { counter, gauge, histogram };

    // Labels as samples have them. Values are quoted, so they may be any text.
    static std::string labels(
        std::initializer_list<std::pair<std::string_view, std::string_view>> pairs);

    // Begins a family. The following samples are its samples. A family may have none.
    void family(std::string_view name, Type type, std::string_view help);
    void sample(std::string_view labels, std::uint64_t value) { sample("", labels, value); }
    void sample(std::string_view labels, double value) { sample("", labels, value); }
    // These are for histograms. The suffix names the kind of the sample.
    void sample(std::string_view suffix, std::string_view labels, std::uint64_t value);
    void sample(std::string_view suffix, std::string_view labels, double value);

    std::string take() && { return std::move(text_); }

  private:
    std::string name_; // of the family
    std::string text_;
};

} // namespace vrdma::management
