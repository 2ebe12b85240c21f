// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What is wrong with a command line, for the user who typed it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace vrdma::ctl {

// The text ends with a line that says whose help to read.
std::string explain(const CLI::App& app, const CLI::ParseError& error);

// A check of options: which versions of RoCE a device may use.
CLI::IsMember is_protocol();
// A check of options: digits alone. CLI11 takes "-1" for a large number, and "010" for 8.
std::string refuse_no_number(const std::string& text);

} // namespace vrdma::ctl
