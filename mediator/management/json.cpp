// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/management/json.h"

#include <fmt/format.h>

#include "mediator/management/counter_texts.h"

namespace vrdma::management {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 5> states{"unused", "active", "down", "failed", "suspended"};
constexpr std::array<const char*, resources> resource_names{"pd",   "mr", "cq",     "qp",    "srq",
                                                            "xrcd", "ah", "blocks", "memory"};

template <std::size_t size>
std::string text(const helper::Text<size>& field) {
    return helper::read(field).value_or("");
}

json or_null(const std::string& name) {
    return name.empty() ? json{} : json(name);
}

std::string text(const Mac& mac) {
    return fmt::format("{:02x}", fmt::join(mac, ":"));
}

} // namespace

json to_json(const Device& device) {
    return {{"name", text(device.name)},
            {"kind", "virtual"},
            {"driver", "vrdma"},
            {"state", states.at(static_cast<std::size_t>(device.state))},
            {"mtu", device.mtu},
            {"speed_mbps", device.mbps},
            {"uplink", or_null(text(device.uplink))},
            {"mac", text(device.mac)},
            {"type", text(device.type)},
            {"front_end", device.behind_socket != 0 ? "socket" : "mdev"},
            {"description",
             fmt::format("{} of type {}",
                         device.behind_socket != 0 ? "device behind a socket" : "mediated device",
                         text(device.type))}};
}

json limits_of(const Device& device) {
    json usages = json::object();
    for (std::size_t i = 0; i < resources; ++i) {
        usages[resource_names[i]] = {{"used", device.usages[i].used},
                                     {"max", device.usages[i].max}};
    }
    return {{"name", text(device.name)},
            {"weight", device.share.weight},
            {"max_bytes_per_second", device.share.bytes_per_second},
            {"max_operations_per_second", device.share.operations_per_second},
            {"resources", std::move(usages)}};
}

json to_json(const Counters& counters) {
    json values = json::object();
    for (std::size_t i = 0; i < counter_texts.size(); ++i) {
        values[counter_texts[i].name] = counters.values[i];
    }
    return {{"name", text(counters.device)}, {"counters", std::move(values)}};
}

json to_json(const Uplink& uplink) {
    const bool ethernet = uplink.kind == Uplink::Kind::ethernet;
    return {{"name", text(uplink.name)},
            {"kind", ethernet ? "ethernet" : "fabric"},
            {ethernet ? "interface" : "provider", text(uplink.detail)},
            {"state", uplink.up != 0 ? "up" : "down"},
            {"speed_mbps", uplink.mbps},
            {"mac", text(uplink.mac)},
            {"peers", uplink.peers}};
}

json to_json(const Peer& peer) {
    return {{"name", text(peer.name)},
            {"uplink", text(peer.uplink)},
            {"address", text(peer.address)},
            {"state", peer.up != 0 ? "connected" : "not connected"},
            {"addresses", peer.addresses}};
}

} // namespace vrdma::management
