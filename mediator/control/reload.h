// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What a configuration that was read again changes while vrdmad runs: shares and the log level at
// once, all else with the next start.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "mediator/control/config.h"

namespace vrdma::control {

// What vrdmad runs with.
struct Running {
    std::string path;                                   // of the file
    std::string text;                                   // that it had at the start
    std::optional<spdlog::level::level_enum> log_level; // of the command line: it prevails
    Config config;
};

// Reads the file; all that it says holds. The error is for people.
tl::expected<void, std::string> start_with_file(Running& running);

// What another text says of a configuration that is in use. Types and devices are numbered as
// there.
struct Changes {
    spdlog::level::level_enum log_level = spdlog::level::info;
    std::map<std::size_t, hca::Share> types;   // that the text has, too
    std::map<std::size_t, hca::Share> devices; // behind sockets
    std::vector<std::string> wait;             // keys and tables that differ otherwise
};

// The error is for people.
tl::expected<Changes, std::string> compare(const Running& running, std::string_view text);

// Logs what has to wait.
void apply(const Changes& changes, Running& running);

} // namespace vrdma::control
