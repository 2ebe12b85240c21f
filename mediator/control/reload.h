// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The configuration file, read again while vrdmad runs: shares and the log level change at once,
// all else with the next start.
#pragma once

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

// What the file may say anew: types and devices have the shares that those of the same names have
// in this text. Returns the keys and tables that differ otherwise. An error changes nothing.
tl::expected<std::vector<std::string>, std::string> take_anew(Running& running,
                                                              std::string_view text);

// The same with the file. Logs what is wrong or has to wait. True if shares may have changed.
bool reload(Running& running);

} // namespace vrdma::control
