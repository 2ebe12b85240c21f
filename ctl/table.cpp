// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "ctl/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace vrdma::ctl {
namespace {

constexpr std::size_t gap = 2;

std::string line(const Row& row, const std::vector<std::size_t>& widths, std::size_t most) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
        std::string cell = printable(row[i]);
        if (i + 1 < row.size()) {
            cell.resize(widths[i] + gap, ' ');
        }
        line += cell;
    }
    if (most != 0 && line.size() > most) {
        line.resize(most);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
}

} // namespace

std::string printable(std::string text) {
    std::ranges::replace_if(
        text, [](char c) { return c < ' ' || c > '~'; }, '?');
    return text;
}

std::string table(const Row& titles, const std::vector<Row>& rows, std::size_t width) {
    std::vector<std::size_t> widths(titles.size());
    const auto widen = [&](const Row& row) {
        for (std::size_t i = 0; i < widths.size(); ++i) {
            widths[i] = std::max(widths[i], row[i].size());
        }
    };
    widen(titles);
    std::ranges::for_each(rows, widen);
    std::string text = line(titles, widths, width);
    for (const Row& row : rows) {
        text += line(row, widths, width);
    }
    return text;
}

std::string list(const std::vector<Row>& rows) {
    std::size_t widest = 0;
    for (const Row& row : rows) {
        widest = std::max(widest, row.front().size() + 1);
    }
    std::string text;
    for (const Row& row : rows) {
        text += line({row.front() + ":", row.back()}, {widest, 0}, 0);
    }
    return text;
}

std::size_t terminal_width() {
    winsize size{};
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string redrawn(const std::string& text) {
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) {
        return text;
    }
    std::size_t end = 0;
    for (unsigned lines = 1; lines < size.ws_row && end < text.size(); ++lines) {
        end = text.find('\n', end) + 1;
    }
    constexpr char home_and_clear[] = "\x1b[H\x1b[J";
    return home_and_clear + text.substr(0, end);
}

} // namespace vrdma::ctl
