// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/config/additions.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "mediator/control/config/readers.h"
#include "vrdma/mdev.h"

namespace vrdma::control {
namespace {

constexpr char device_key[] = "vfio_user";
constexpr char uplink_key[] = "uplink";

// The section as a file has it.
std::string text_of_section(const char* key, const toml::table& section) {
    toml::table file;
    file.insert(key, toml::array{section});
    std::ostringstream text;
    text << file << "\n\n";
    return text.str();
}

template <typename Item>
tl::expected<void, std::string> add_section(const toml::table& section, const char* key,
                                            const std::string& path, Config& config,
                                            std::vector<Item> Config::*items,
                                            void (*read)(std::vector<Section>, Config&)) {
    std::vector<Item>& all = config.*items;
    const auto before = static_cast<std::ptrdiff_t>(all.size());
    try {
        read({Section{&section, path}}, config);
    } catch (const BadConfig& error) {
        all.erase(all.begin() + before, all.end());
        return tl::unexpected{error.what()};
    }
    all.back().section = text_of_section(key, section);
    return {};
}

using Add = tl::expected<void, std::string> (*)(const toml::table& section, Config& config,
                                                const std::string& path);

void add_each(const toml::table& file, const char* key, Add add, Config& config,
              std::vector<std::string>& reasons) {
    const toml::array* const sections = file[key].as_array();
    if (sections == nullptr) {
        return;
    }
    for (const toml::node& node : *sections) {
        if (const toml::table* const section = node.as_table()) {
            const auto name = (*section)["name"].value_or(std::string_view{"?"});
            if (const auto added = add(*section, config, fmt::format("{} {}", key, name)); !added) {
                reasons.push_back(added.error());
            }
        }
    }
}

} // namespace

tl::expected<void, std::string> add_device(const toml::table& section, Config& config,
                                           const std::string& path) {
    return add_section(section, device_key, path, config, &Config::vfio_user, &read_vfio_users);
}

tl::expected<void, std::string> add_uplink(const toml::table& section, Config& config,
                                           const std::string& path) {
    if (config.uplinks.size() + config.fabrics.size() >= VRDMA_MDEV_MAX_UPLINKS) {
        return tl::unexpected{
            fmt::format("there are {} uplinks and fabrics already", VRDMA_MDEV_MAX_UPLINKS)};
    }
    auto added = add_section(section, uplink_key, path, config, &Config::uplinks, &read_uplinks);
    const bool taken = added && std::ranges::count(config.fabrics, config.uplinks.back().name,
                                                   &FabricOptions::name) != 0;
    if (taken) {
        added = tl::unexpected{
            fmt::format("there is a fabric with the name '{}'", config.uplinks.back().name)};
        config.uplinks.pop_back();
    }
    return added;
}

std::string additions_of(const Config& config) {
    std::string text;
    for (const UplinkOptions& uplink : config.uplinks) {
        text += uplink.section;
    }
    for (const VfioUserDevice& device : config.vfio_user) {
        text += device.section;
    }
    return text;
}

// A device may be bound to an uplink that was added, too.
std::vector<std::string> add_all(std::string_view text, Config& config) {
    std::vector<std::string> reasons;
    try {
        const toml::table file = toml::parse(text);
        add_each(file, uplink_key, &add_uplink, config, reasons);
        add_each(file, device_key, &add_device, config, reasons);
    } catch (const toml::parse_error& error) {
        reasons.emplace_back(error.description());
    }
    return reasons;
}

} // namespace vrdma::control
