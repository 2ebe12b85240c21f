// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// One table of vrdmad.conf. An error names the key, its value and the allowed values.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "mediator/control/config/toml.h"

namespace vrdma::control {

// Thrown by the readers of this folder, and caught by parse_config().
struct BadConfig : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A reader asks for every key that it knows, and finish() refuses all others. For a key that is not
// in the file, the default stays.
class Section {
  public:
    // `path` is the section's name in errors. The path of the file itself is empty. A section whose
    // table is nullptr has no keys.
    Section(const toml::table* table, std::string path) : table_{table}, path_{std::move(path)} {}

    template <typename T>
    void integer(std::string_view key, T& out, std::int64_t min, std::int64_t max) {
        std::int64_t value = 0;
        if (read_integer(key, value, min, max)) {
            out = static_cast<T>(value);
        }
    }

    void microseconds(std::string_view key, std::chrono::microseconds& out);
    void text(std::string_view key, std::string& out);
    void boolean(std::string_view key, bool& out);
    std::vector<std::string> texts(std::string_view key);
    std::vector<Section> sections(std::string_view key); // the tables of [[key]]
    Section section(std::string_view key);

    bool has(std::string_view key) { return find(key) != nullptr; }
    bool has_integer(std::string_view key) { return has(key) && find(key)->is_integer(); }
    bool has_text(std::string_view key) { return has(key) && find(key)->is_string(); }
    std::vector<std::string> keys() const;
    std::string name(std::string_view key) const; // with the path

    void finish() const;

    // Throws the error for a value that is wrong, or that is missing.
    [[noreturn]] void refuse(std::string_view key, std::string_view must_be);

  private:
    const toml::node* find(std::string_view key);
    bool read_integer(std::string_view key, std::int64_t& out, std::int64_t min, std::int64_t max);

    const toml::table* table_;
    std::string path_;
    std::set<std::string, std::less<>> known_;
};

} // namespace vrdma::control
