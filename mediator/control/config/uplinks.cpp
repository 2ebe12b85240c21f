// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "mediator/control/config/names.h"
#include "mediator/control/config/number_lists.h"
#include "mediator/control/config/readers.h"

namespace vrdma::control {
namespace {

wire::Transport read_transport(Section& section) {
    constexpr std::string_view key = "transport";
    std::string name = "auto";
    section.text(key, name);
    if (name == "auto") {
        return wire::Transport::automatic;
    }
    if (name == "af_xdp") {
        return wire::Transport::af_xdp;
    }
    if (name == "af_packet") {
        return wire::Transport::af_packet;
    }
    section.refuse(key, "\"auto\", \"af_xdp\" or \"af_packet\"");
}

// Where the host's HCA makes the frames, it decides how they leave.
void read_hca(Section& section, UplinkOptions& uplink) {
    std::string kind = "soft";
    section.text("hca", kind);
    section.text("device", uplink.device);
    if (kind != "soft" && kind != "verbs") {
        section.refuse("hca", "\"soft\" or \"verbs\"");
    }
    if ((kind == "verbs") == uplink.device.empty()) {
        section.refuse("device", kind == "verbs" ? "the name of a device that ibv_devices lists"
                                                 : "absent unless hca is \"verbs\"");
    }
    for (const std::string_view key : {"transport", "vlans", "dscp_priorities", "sl_priorities"}) {
        if (!uplink.device.empty() && section.has(key)) {
            section.refuse(key, "absent, as hca is \"verbs\"");
        }
    }
}

UplinkOptions read_uplink(Section& section) {
    UplinkOptions uplink;
    section.text("interface", uplink.interface);
    uplink.name = uplink.interface;
    section.text("name", uplink.name);
    if (!valid_interface(uplink.interface)) {
        section.refuse("interface", valid_interface_is);
    }
    if (!valid_uplink(uplink.name)) {
        section.refuse("name", valid_uplink_is);
    }
    read_hca(section, uplink);
    uplink.transport = read_transport(section);
    read_numbers(section, "vlans", 1, uplink.vlans);
    read_priorities(section, "dscp_priorities", 0, uplink.priorities.of_dscp);
    read_priorities(section, "sl_priorities", 1, uplink.priorities.of_service_level);
    section.finish();
    return uplink;
}

} // namespace

void read_uplinks(std::vector<Section> sections, Config& config) {
    for (Section& section : sections) {
        const UplinkOptions& added = config.uplinks.emplace_back(read_uplink(section));
        if (std::ranges::count(config.uplinks, added.name, &UplinkOptions::name) > 1) {
            section.refuse(section.has("name") ? "name" : "interface",
                           "the name of no other uplink");
        }
        if (std::ranges::count(config.uplinks, added.interface, &UplinkOptions::interface) > 1) {
            section.refuse("interface", "the interface of no other uplink");
        }
        if (!added.device.empty() &&
            std::ranges::count(config.uplinks, added.device, &UplinkOptions::device) > 1) {
            section.refuse("device", "the device of no other uplink");
        }
    }
}

} // namespace vrdma::control
