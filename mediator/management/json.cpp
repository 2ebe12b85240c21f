// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/management/json.h"

#include <fmt/format.h>

#include "mediator/management/counter_texts.h"
#include "mediator/management/texts.h"

namespace vrdma::management {
namespace {

using nlohmann::json;

json or_null(const std::string& name) {
    return name.empty() ? json{} : json(name);
}

} // namespace

json to_json(const Device& device) {
    return {{"name", text_of(device.name)},
            {"kind", "virtual"},
            {"driver", "vrdma"},
            {"state", state_text(device)},
            {"mtu", device.mtu},
            {"speed_mbps", device.mbps},
            {"uplink", or_null(text_of(device.uplink))},
            {"mac", text_of(device.mac)},
            {"type", text_of(device.type)},
            {"front_end", front_end_text(device)},
            {"description",
             fmt::format("{} of type {}",
                         device.behind_socket != 0 ? "device behind a socket" : "mediated device",
                         text_of(device.type))}};
}

json limits_of(const Device& device) {
    json usages = json::object();
    for (std::size_t i = 0; i < resources; ++i) {
        usages[resource_texts[i]] = {{"used", device.usages[i].used},
                                     {"max", device.usages[i].max}};
    }
    return {{"name", text_of(device.name)},
            {"weight", device.share.weight},
            {"max_bytes_per_second", device.share.bytes_per_second},
            {"max_operations_per_second", device.share.operations_per_second},
            {"resources", std::move(usages)}};
}

json netdev_of(const Device& device, const Uplink* uplink) {
    json found{{"name", text_of(device.name)},
               {"uplink", or_null(text_of(device.uplink))},
               {"netdev", nullptr},
               {"state", nullptr},
               {"mac", nullptr}};
    if (uplink != nullptr) {
        found["netdev"] = text_of(uplink->detail);
        found["state"] = uplink->up != 0 ? "up" : "down";
        found["mac"] = text_of(uplink->mac);
    }
    return found;
}

json protocols_of(const Device& device) {
    const auto allowed = [&](std::uint32_t protocol) {
        return device.protocols == 0 ? json{} : json((device.protocols & protocol) != 0);
    };
    return {{"name", text_of(device.name)},
            {"uplink", or_null(text_of(device.uplink))},
            {"roce_v1", allowed(roce_v1)},
            {"roce_v2", allowed(roce_v2)}};
}

json to_json(const Counters& counters) {
    json values = json::object();
    for (std::size_t i = 0; i < counter_texts.size(); ++i) {
        values[counter_texts[i].name] = counters.values[i];
    }
    return {{"name", text_of(counters.device)}, {"counters", std::move(values)}};
}

json to_json(const Uplink& uplink) {
    const bool ethernet = uplink.kind == Uplink::Kind::ethernet;
    return {{"name", text_of(uplink.name)},
            {"kind", kind_text(uplink)},
            {ethernet ? "interface" : "provider", text_of(uplink.detail)},
            {"state", uplink.up != 0 ? "up" : "down"},
            {"speed_mbps", uplink.mbps},
            {"mac", text_of(uplink.mac)},
            {"peers", uplink.peers}};
}

json to_json(const Peer& peer) {
    return {{"name", text_of(peer.name)},
            {"uplink", text_of(peer.uplink)},
            {"address", text_of(peer.address)},
            {"state", peer.up != 0 ? "connected" : "not connected"},
            {"addresses", peer.addresses}};
}

} // namespace vrdma::management
