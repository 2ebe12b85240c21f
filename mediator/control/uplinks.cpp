// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/uplinks.h"

#include <fmt/format.h>
#include <net/if.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "mediator/base/errno.h"
#include "mediator/control/refusal.h"

namespace vrdma::control {

bool Uplinks::open(std::vector<FabricHelpers> helpers) {
    if (!open_ethernets() || !open_hcas()) {
        return false;
    }
    for (std::size_t i = 0; i < config_.fabrics.size(); ++i) {
        const FabricOptions& fabric = config_.fabrics[i];
        auto served = ServedFabric::open(fabric, std::move(helpers[i]), hca_, loop_);
        if (!served) {
            spdlog::critical("fabric {}: {}", fabric.name, served.error());
            return false;
        }
        fabrics_.push_back(std::move(*served));
    }
    return true;
}

bool Uplinks::open_ethernets() {
    for (std::size_t i = 0; i < config_.uplinks.size();) {
        const UplinkOptions& uplink = config_.uplinks[i];
        if (!uplink.device.empty()) {
            ++i;
            continue;
        }
        auto served = ServedUplink::open(uplink, hca_, loop_);
        if (served) {
            ethernets_.push_back(std::move(*served));
            ++i;
        } else if (!uplink.section.empty()) {
            spdlog::warn("uplink {}: it is not served any more: {}", uplink.name, served.error());
            config_.uplinks.erase(config_.uplinks.begin() + static_cast<std::ptrdiff_t>(i));
        } else {
            spdlog::critical("uplink {}: the interface {} cannot be used: {}", uplink.name,
                             uplink.interface, served.error());
            return false;
        }
    }
    return true;
}

bool Uplinks::open_hcas() {
    for (const UplinkOptions& uplink : config_.uplinks) {
        if (uplink.device.empty()) {
            continue;
        }
        auto served = ServedHca::open(uplink, hca_, loop_);
        if (!served) {
            spdlog::critical("uplink {}: the host's HCA cannot be used: {}", uplink.name,
                             served.error());
            return false;
        }
        hcas_.push_back(std::move(*served));
    }
    return true;
}

verbs::Mac Uplinks::mac_of(const std::string& name) const {
    const auto ethernet = std::ranges::find(ethernets_, name, &ServedUplink::name);
    if (ethernet != ethernets_.end()) {
        return (*ethernet)->mac();
    }
    const auto hca = std::ranges::find(hcas_, name, &ServedHca::name);
    if (hca != hcas_.end()) {
        return (*hca)->mac();
    }
    const auto fabric = std::ranges::find(fabrics_, name, &ServedFabric::name);
    return fabric != fabrics_.end() ? (*fabric)->mac() : verbs::Mac{};
}

management::Answered<std::string> Uplinks::add(const toml::table& section) {
    if (!may_add_) {
        return refuse(std::errc::operation_not_permitted,
                      "vrdmad has given up the privileges that an uplink takes, because its "
                      "configuration has none; with add_uplinks in [control] it keeps them");
    }
    const auto interface = section["interface"].value_or(std::string{});
    const auto name = section["name"].value_or(interface);
    if (std::ranges::count(config_.uplinks, name, &UplinkOptions::name) != 0 ||
        std::ranges::count(config_.uplinks, interface, &UplinkOptions::interface) != 0) {
        return refuse(std::errc::file_exists,
                      fmt::format("there is an uplink '{}' already, or one with the interface '{}'",
                                  name, interface));
    }
    if (section.contains("device")) {
        return refuse(std::errc::operation_not_supported,
                      "an uplink by the host's HCA is opened when vrdmad starts: name it in the "
                      "configuration file");
    }
    if (const auto added = add_uplink(section, config_); !added) {
        return refuse(std::errc::invalid_argument, added.error());
    }
    if (const auto opened = open_last(); !opened) {
        config_.uplinks.pop_back();
        const bool missing = ::if_nametoindex(interface.c_str()) == 0;
        return refuse(missing ? std::errc::no_such_device : std::errc::io_error,
                      fmt::format("'{}' cannot be used: {}", interface, opened.error()));
    }
    spdlog::info("uplink {}: added", name);
    return name;
}

// If the next vrdmad would not learn of it, it is not served.
tl::expected<void, std::string> Uplinks::open_last() {
    auto served = ServedUplink::open(config_.uplinks.back(), hca_, loop_);
    if (!served) {
        return tl::unexpected{served.error()};
    }
    if (const auto written = file_.write(additions_of(config_)); !written) {
        (*served)->end();
        return tl::unexpected{fmt::format("{}: {}", file_.path(), describe(written.error()))};
    }
    ethernets_.push_back(std::move(*served));
    return {};
}

management::Answered<> Uplinks::remove(const std::string& name) {
    const auto found = std::ranges::find(ethernets_, name, &ServedUplink::name);
    if (found == ethernets_.end()) {
        return refuse(std::errc::no_such_file_or_directory,
                      fmt::format("there is no Ethernet uplink '{}'", name));
    }
    const auto options = std::ranges::find(config_.uplinks, name, &UplinkOptions::name);
    if (options->section.empty()) {
        return refuse_configured("uplink", name);
    }
    const UplinkOptions removed = *options;
    const auto place = options - config_.uplinks.begin();
    config_.uplinks.erase(options);
    if (const auto written = file_.write(additions_of(config_)); !written) {
        config_.uplinks.insert(config_.uplinks.begin() + place, removed);
        return refuse(written.error(),
                      fmt::format("{}: {}", file_.path(), describe(written.error())));
    }
    (*found)->end();
    ethernets_.erase(found);
    spdlog::info("uplink {}: removed", name);
    return {};
}

std::vector<std::string> uplink_names(const Config& config) {
    std::vector<std::string> names;
    names.reserve(config.uplinks.size() + config.fabrics.size());
    std::ranges::transform(config.uplinks, std::back_inserter(names), &UplinkOptions::name);
    std::ranges::transform(config.fabrics, std::back_inserter(names), &FabricOptions::name);
    return names;
}

} // namespace vrdma::control
