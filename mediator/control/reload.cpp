// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/reload.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "mediator/control/config/additions.h"
#include "mediator/control/config/toml.h"

namespace vrdma::control {
namespace {

template <typename Item>
std::map<std::size_t, hca::Share> shares(std::span<const Item> running,
                                         const std::vector<Item>& fresh) {
    std::map<std::size_t, hca::Share> shares;
    for (std::size_t i = 0; i < running.size(); ++i) {
        const auto same_name = [&](const auto& item) { return item.name == running[i].name; };
        if (const auto found = std::ranges::find_if(fresh, same_name); found != fresh.end()) {
            shares[i] = found->share;
        }
    }
    return shares;
}

// The parts of a configuration that take a restart to change. Each piece is compared and named by
// itself. A piece is a type, a device, or another key or table of the top level.
using Pieces = std::map<std::string, toml::table>;

void add(Pieces& pieces, const std::string& name, toml::table table) {
    for (const std::string_view key : share_keys) {
        table.erase(key);
    }
    pieces.insert_or_assign(name, std::move(table));
}

void add_types(Pieces& pieces, const toml::table& types) {
    for (const auto& [name, type] : types) {
        add(pieces, fmt::format("types.{}", name.str()), *type.as_table());
    }
}

void add_devices(Pieces& pieces, const toml::array& devices) {
    for (const toml::node& device : devices) {
        const toml::table& table = *device.as_table();
        add(pieces, fmt::format("vfio_user.{}", table["name"].value_or("")), table);
    }
}

// `text` is a valid configuration.
Pieces pieces_of(std::string_view text) {
    Pieces pieces;
    for (const DeviceType& type : default_types()) { // a table with only a share adds no type
        pieces.emplace(fmt::format("types.{}", type.name), toml::table{});
    }
    const toml::table file = toml::parse(text);
    for (const auto& [key, node] : file) {
        if (key.str() == "types") {
            add_types(pieces, *node.as_table());
        } else if (key.str() == "vfio_user") {
            add_devices(pieces, *node.as_array());
        } else if (key.str() != "log_level") {
            toml::table alone;
            alone.insert(key, node);
            pieces.emplace(key.str(), std::move(alone));
        }
    }
    return pieces;
}

std::vector<std::string> differences(const Pieces& before, const Pieces& after) {
    std::set<std::string> names;
    for (const auto& [one, other] : {std::pair{&before, &after}, std::pair{&after, &before}}) {
        for (const auto& [name, table] : *one) {
            const auto found = other->find(name);
            if (found == other->end() || found->second != table) {
                names.insert(name);
            }
        }
    }
    return {names.begin(), names.end()};
}

template <typename Items>
void give_shares(std::string_view key, const std::map<std::size_t, hca::Share>& shares,
                 Items& items, std::vector<std::string>& changed) {
    for (const auto& [number, share] : shares) {
        auto& item = items[number];
        if (item.share != share) {
            item.share = share;
            changed.push_back(fmt::format(
                "{}.{}: weight {}, {} bytes and {} operations per second (0: unlimited)", key,
                item.name, share.weight, share.bytes_per_second, share.operations_per_second));
        }
    }
}

} // namespace

tl::expected<void, std::string> start_with_file(Running& running) {
    auto text = read_config(running.path);
    if (!text) {
        return tl::unexpected{std::move(text.error())};
    }
    auto config = parse_config(*text);
    if (!config) {
        return tl::unexpected{std::move(config.error())};
    }
    running.text = std::move(*text);
    running.config = std::move(*config);
    return {};
}

tl::expected<Changes, std::string> compare(const Running& running, std::string_view text) {
    const auto fresh = parse_config(text);
    if (!fresh) {
        return tl::unexpected{fresh.error()};
    }
    const std::span devices{running.config.vfio_user};
    return Changes{running.log_level.value_or(fresh->log_level),
                   shares(std::span{running.config.types}, fresh->types),
                   shares(devices.first(count_of_file(running.config.vfio_user)), fresh->vfio_user),
                   differences(pieces_of(running.text), pieces_of(text))};
}

std::vector<std::string> apply(const Changes& changes, Running& running) {
    std::vector<std::string> changed;
    give_shares("types", changes.types, running.config.types, changed);
    give_shares("vfio_user", changes.devices, running.config.vfio_user, changed);
    for (const std::string& name : changes.wait) {
        spdlog::warn("{}: {} has changed, which takes a restart", running.path, name);
    }
    if (spdlog::get_level() != changes.log_level) {
        changed.push_back(fmt::format("log_level: {}", name_of(changes.log_level)));
    }
    running.config.log_level = changes.log_level;
    spdlog::set_level(changes.log_level);
    return changed;
}

} // namespace vrdma::control
