// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Text in columns, for a terminal.
#pragma once

#include <string>
#include <vector>

namespace vrdma::ctl {

using Row = std::vector<std::string>;

// The text with a question mark for each byte that a terminal may interpret.
std::string printable(std::string text);

// Each column is as wide as its longest text. The last one is cut where the line would be longer
// than `width`, if there is a width. All text becomes printable.
std::string table(const Row& titles, const std::vector<Row>& rows, std::size_t width);

// Titles to the left of their values.
std::string list(const std::vector<Row>& rows);

// Of the terminal that stdout is, or 0 if it is none.
std::size_t terminal_width();

// The text as it replaces what the terminal shows, without the lines for which that has no room.
// Unchanged if stdout is no terminal.
std::string redrawn(const std::string& text);

} // namespace vrdma::ctl
