// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "mediator/control/config/device_keys.h"
#include "mediator/control/config/names.h"
#include "mediator/control/config/readers.h"
#include "mediator/control/config/users.h"

namespace vrdma::control {
namespace {

verbs::Mac read_mac(Section& section, std::string_view text) {
    verbs::Mac mac{};
    bool valid = text.size() == 3 * mac.size() - 1;
    for (std::size_t i = 0; valid && i < mac.size(); ++i) {
        const char* const digits = text.data() + 3 * i;
        const auto [end, error] = std::from_chars(digits, digits + 2, mac[i], 16);
        valid =
            error == std::errc{} && end == digits + 2 && (i + 1 == mac.size() || digits[2] == ':');
    }
    if (!valid || (mac[0] & 1) != 0 || mac == verbs::Mac{}) {
        section.refuse("mac", "a unicast MAC address such as 02:00:00:00:00:01");
    }
    return mac;
}

void read_identity(Section& section, VfioUserDevice& device) {
    std::string mac;
    std::string addresses;
    section.text("mac", mac);
    section.text("addresses", addresses);
    if (!mac.empty()) {
        device.identity.mac = read_mac(section, mac);
    } else if (device.identity.uplink.empty()) {
        device.identity.mac = verbs::derived_mac(
            {reinterpret_cast<const std::uint8_t*>(device.name.data()), device.name.size()});
    }
    if (!device.identity.uplink.empty() && !section.has("addresses")) {
        section.refuse("addresses",
                       fmt::format("the addresses that the device may have on uplink '{}'",
                                   device.identity.uplink));
    }
    auto prefixes = verbs::parse_prefixes(addresses);
    if (!prefixes) {
        section.refuse("addresses", "addresses or prefixes such as 10.0.0.5,fd00::/64");
    }
    device.identity.prefixes = std::move(*prefixes);
}

void read_socket(Section& section, VfioUserDevice& device) {
    device.socket.path = fmt::format("/run/vrdma/{}.sock", device.name);
    section.text("socket", device.socket.path);
    if (!valid_socket_path(device.socket.path)) {
        section.refuse("socket", valid_socket_path_is);
    }
    read_user(section, "owner", device.socket.owner);
    read_group(section, "group", device.socket.group);
    if (section.has("mode")) {
        std::string mode;
        section.text("mode", mode);
        const auto [end, error] =
            std::from_chars(mode.data(), mode.data() + mode.size(), device.socket.mode, 8);
        if (error != std::errc{} || end != mode.data() + mode.size() || device.socket.mode > 0777) {
            section.refuse("mode", "an octal mode such as \"0660\", at most 0777");
        }
    }
}

VfioUserDevice read_vfio_user(Section& section, const Config& config) {
    VfioUserDevice device;
    section.text("name", device.name);
    if (!valid_name(device.name)) {
        section.refuse("name", valid_name_is);
    }
    section.text("type", device.type);
    const auto type = std::ranges::find(config.types, device.type, &DeviceType::name);
    if (type == config.types.end()) {
        std::vector<std::string> names;
        std::ranges::transform(config.types, std::back_inserter(names), &DeviceType::name);
        section.refuse("type", fmt::format("one of the types {}", fmt::join(names, ", ")));
    }
    device.identity.uplink = type->uplink;
    read_binding(section, config, device.identity.uplink);
    if (device.identity.uplink == type->uplink) {
        device.identity.vlans = type->vlans;
        device.identity.traffic_classes = type->traffic_classes;
        device.identity.service_levels = type->service_levels;
    }
    read_vlans(section, config, device.identity.uplink, device.identity.vlans);
    read_classes(section, device.identity.traffic_classes, device.identity.service_levels);
    device.identity.port_speed = type->port_speed;
    read_port_speed(section, device.identity.port_speed);
    device.identity.pkeys = type->pkeys;
    read_pkeys(section, device.identity.pkeys);
    device.share = type->share;
    read_share(section, device.share);
    read_quotas(section, type->limits, device.quotas);
    read_protocol(
        section,
        std::ranges::count(config.uplinks, device.identity.uplink, &UplinkOptions::name) != 0,
        device.protocols);
    section.integer("clients", device.clients, 1, verbs::Endport::max_functions);
    device.personality = type->personality;
    read_personality(section, type->limits, fmt::format("the type '{}'", type->name),
                     device.personality);
    // It cannot share a device's addresses with other functions.
    if (device.personality == PersonalityKind::pvrdma && device.clients != 1) {
        section.refuse("personality", R"("vrdma", as the device has several clients)");
    }
    std::uint64_t window_gib = device.window >> 30;
    section.integer("window_gib", window_gib, 1, 16384);
    device.window = window_gib << 30;
    read_socket(section, device);
    read_identity(section, device);
    section.finish();
    return device;
}

} // namespace

// A path that another program has, or a device that was added before, is found by bind().
void read_vfio_users(std::vector<Section> sections, Config& config) {
    std::set<std::string> paths;
    for (Section& section : sections) {
        config.vfio_user.push_back(read_vfio_user(section, config));
        const VfioUserDevice& added = config.vfio_user.back();
        if (std::ranges::count(config.vfio_user, added.name, &VfioUserDevice::name) > 1) {
            section.refuse("name", "the name of no other device");
        }
        if (!paths.insert(added.socket.path).second) {
            section.refuse("socket", "the path of no other device's socket");
        }
    }
}

} // namespace vrdma::control
