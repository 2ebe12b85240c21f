// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "ctl/misuse.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace vrdma::ctl {
namespace {

// The command that was named, and those that lead to it: vrdmactl, device, list.
std::vector<const CLI::App*> named(const CLI::App& app) {
    std::vector<const CLI::App*> commands{&app};
    for (auto next = app.get_subcommands(); !next.empty();
         next = commands.back()->get_subcommands()) {
        commands.push_back(next.front());
    }
    return commands;
}

// The names of a command's commands. A group of options has none.
std::vector<std::string> choices(const CLI::App& command) {
    std::vector<std::string> names;
    for (const CLI::App* const choice :
         command.get_subcommands([](const CLI::App*) { return true; })) {
        if (!choice->get_name().empty()) {
            names.push_back(choice->get_name());
        }
    }
    return names;
}

} // namespace

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
    const std::vector<const CLI::App*> commands = named(app);
    std::string line;
    for (const CLI::App* const command : commands) {
        line += (line.empty() ? "" : " ") + command->get_name();
    }
    std::string reason = error.what();
    const std::vector<std::string> names = choices(*commands.back());
    if (!names.empty() && error.get_name() == "RequiredError") {
        const std::vector<std::string> left = app.remaining(true);
        reason = left.empty() ? fmt::format("a command is missing: {}", fmt::join(names, ", "))
                              : fmt::format("'{}' is no command of {}, but these: {}", left.front(),
                                            line, fmt::join(names, ", "));
    }
    return fmt::format("{}: {}\nRun `{} --help` for more.\n", app.get_name(), reason, line);
}

CLI::IsMember is_protocol() {
    return CLI::IsMember({"roce-v1", "roce-v2", "both"});
}

std::string refuse_no_number(const std::string& text) {
    const bool digits =
        !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
    const bool octal = text.size() > 1 && text.front() == '0';
    return digits && !octal ? "" : fmt::format("'{}' must be a number such as 1000", text);
}

} // namespace vrdma::ctl
