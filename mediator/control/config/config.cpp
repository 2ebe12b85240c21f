// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/config/config.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "mediator/base/errno.h"
#include "mediator/base/read_all.h"
#include "mediator/base/unique_fd.h"
#include "mediator/control/config/names.h"
#include "mediator/control/config/readers.h"
#include "mediator/control/config/section.h"
#include "mediator/control/config/toml.h"

namespace vrdma::control {
namespace {

void read_soft(Section section, hca::soft::Config& soft) {
    section.integer("pollers", soft.pollers, 1, 256);
    section.microseconds("spin_min_us", soft.poll.spin_min);
    section.microseconds("spin_max_us", soft.poll.spin_max);
    section.integer("realtime_priority", soft.realtime_priority, 0, 99);
    section.integer("hot_queues", soft.hot_queues, 0, 65536);
    section.microseconds("hot_idle_us", soft.hot_idle);
    section.integer("turn_wqes", soft.turn_wqes, 1, 65536);
    section.integer("turn_bytes", soft.turn_bytes, 4096, std::int64_t{1} << 31);
    section.integer("shared_turn_bytes", soft.shared_turn_bytes, 4096, std::int64_t{1} << 31);
    section.finish();
    if (soft.poll.spin_min > soft.poll.spin_max) {
        section.refuse("spin_min_us",
                       fmt::format("at most spin_max_us, which is {}", soft.poll.spin_max.count()));
    }
}

Config read(const toml::table& file) {
    Config config;
    Section root{&file, ""};
    if (root.has("log_level")) {
        std::string level;
        root.text("log_level", level);
        const auto parsed = parse_log_level(level);
        if (!parsed) {
            root.refuse("log_level", log_levels);
        }
        config.log_level = *parsed;
    }
    root.text("name", config.name);
    if (!valid_name(config.name)) {
        root.refuse("name", valid_name_is);
    }
    root.boolean("mdev", config.mdev);
    read_soft(root.section("soft"), config.soft);
    read_uplinks(root.sections("uplink"), config);
    read_fabrics(root.sections("fabric"), config);
    read_types(root.section("types"), config);
    read_vfio_users(root.sections("vfio_user"), config);
    read_control(root.section("control"), config.control);
    read_metrics(root.section("metrics"), config.control);
    root.finish();
    return config;
}

} // namespace

tl::expected<spdlog::level::level_enum, std::string> parse_log_level(const std::string& text) {
    const auto level = spdlog::level::from_str(text);
    if (level == spdlog::level::off && text != "off") {
        return tl::unexpected{fmt::format("'{}' is not {}", text, log_levels)};
    }
    return level;
}

std::string name_of(spdlog::level::level_enum level) {
    const auto name = spdlog::level::to_string_view(level);
    return {name.data(), name.size()};
}

tl::expected<Config, std::string> parse_config(std::string_view text) {
    try {
        return read(toml::parse(text));
    } catch (const toml::parse_error& error) {
        return tl::unexpected{
            fmt::format("line {}: {}", error.source().begin.line, error.description())};
    } catch (const BadConfig& error) {
        return tl::unexpected{error.what()};
    }
}

tl::expected<std::string, std::string> read_config(const std::string& path) {
    const UniqueFd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    const auto text = file ? read_all(file.get()) : fail_errno();
    if (!text) {
        return tl::unexpected{fmt::format("cannot be read: {}", describe(text.error()))};
    }
    return *text;
}

} // namespace vrdma::control
