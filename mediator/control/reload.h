// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The changes in a configuration that vrdmad reads again while it runs. Shares and the log level
// change at once, all else at the next start.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "mediator/control/config/config.h"

namespace vrdma::control {

// The configuration with which vrdmad runs, and its sources.
struct Running {
    std::string path;                                   // of the file
    std::string text;                                   // of the file at the start
    std::optional<spdlog::level::level_enum> log_level; // of the command line: overrides the file
    Config config;
};

// Reads the file and adopts all of it. The error is for people.
tl::expected<void, std::string> start_with_file(Running& running);

// The differences between another text and the configuration in use. Types and devices have their
// numbers in the latter.
struct Changes {
    spdlog::level::level_enum log_level = spdlog::level::info;
    std::map<std::size_t, hca::Share> types;   // that both have
    std::map<std::size_t, hca::Share> devices; // behind sockets, that both have
    std::vector<std::string> wait;             // other keys and tables that differ
};

// The error is for people.
tl::expected<Changes, std::string> compare(const Running& running, std::string_view text);

// Logs the changes that take a restart. Returns the others, for people.
std::vector<std::string> apply(const Changes& changes, Running& running);

} // namespace vrdma::control
