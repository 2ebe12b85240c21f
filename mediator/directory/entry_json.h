// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The text of a host's entry: {"address": "10.0.0.1:7471", "gids": {"10.0.0.5": 17}} at the key
// PREFIXhosts/NAME. Entries that others wrote may contain anything.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "mediator/directory/entry.h"

namespace vrdma::directory {

std::string format_entry(const Entry& entry);
// Parses an entry that was written at `revision`. The error is for people.
tl::expected<Entry, std::string> parse_entry(std::string_view text, std::int64_t revision);

std::string key_prefix(const std::string& prefix);
// None if the key is not a host's.
std::optional<std::string> host_of(std::string_view key, const std::string& prefix);

} // namespace vrdma::directory
