// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "ctl/show.h"

#include <fmt/format.h>

#include "ctl/table.h"

namespace vrdma::ctl {
namespace {

using nlohmann::json;

std::string text(const json& value) {
    return value.is_null()     ? "-"
           : value.is_string() ? printable(value.get<std::string>())
                               : printable(value.dump());
}

std::string or_dash(const json& number) {
    return number == 0 ? "-" : text(number);
}

std::string or_unlimited(const json& number) {
    return number == 0 ? "unlimited" : text(number);
}

std::string speed(const json& mbps) {
    const auto value = mbps.get<std::uint64_t>();
    constexpr unsigned mb_each_gb = 1000;
    return value == 0                ? "-"
           : value % mb_each_gb == 0 ? fmt::format("{} Gbps", value / mb_each_gb)
                                     : fmt::format("{} Mbps", value);
}

std::string capital(std::string word) {
    if (!word.empty() && word.front() >= 'a' && word.front() <= 'z') {
        word.front() = static_cast<char>(word.front() - 'a' + 'A');
    }
    return word;
}

std::vector<Row> share_rows(const json& limits) {
    return {{"Weight", text(limits.at("weight"))},
            {"Max bytes per second", or_unlimited(limits.at("max_bytes_per_second"))},
            {"Max operations per second", or_unlimited(limits.at("max_operations_per_second"))}};
}

} // namespace

std::string show_devices(const json& answer, Width width) {
    std::vector<Row> rows;
    for (const json& device : answer.at("devices")) {
        rows.push_back({text(device.at("name")), text(device.at("driver")),
                        capital(text(device.at("state"))), or_dash(device.at("mtu")),
                        speed(device.at("speed_mbps")), text(device.at("uplink")),
                        capital(text(device.at("kind"))), text(device.at("description"))});
    }
    return table(
        {"Name", "Driver", "State", "MTU", "Speed", "Paired Uplink", "Kind", "Description"}, rows,
        width);
}

std::string show_device(const json& answer, Width /*width*/) {
    std::vector<Row> rows{{"Name", text(answer.at("name"))},
                          {"Kind", capital(text(answer.at("kind")))},
                          {"Driver", text(answer.at("driver"))},
                          {"State", capital(text(answer.at("state")))},
                          {"Type", text(answer.at("type"))},
                          {"Front end", text(answer.at("front_end"))},
                          {"MTU", or_dash(answer.at("mtu"))},
                          {"Speed", speed(answer.at("speed_mbps"))},
                          {"Paired uplink", text(answer.at("uplink"))},
                          {"MAC address", text(answer.at("mac"))}};
    for (Row& row : share_rows(answer)) {
        rows.push_back(std::move(row));
    }
    return list(rows);
}

std::string show_netdevs(const json& answer, Width width) {
    std::vector<Row> rows;
    for (const json& device : answer.at("devices")) {
        rows.push_back({text(device.at("name")), text(device.at("uplink")),
                        text(device.at("netdev")), capital(text(device.at("state"))),
                        text(device.at("mac"))});
    }
    return table({"Name", "Uplink", "Netdev", "Netdev State", "MAC Address"}, rows, width);
}

std::string show_protocols(const json& answer, Width width) {
    std::vector<Row> rows;
    for (const json& device : answer.at("devices")) {
        rows.push_back({text(device.at("name")), text(device.at("roce_v1")),
                        text(device.at("roce_v2")), text(device.at("uplink"))});
    }
    return table({"Name", "RoCE v1", "RoCE v2", "Paired Uplink"}, rows, width);
}

std::string show_protocols_of_one(const json& answer, Width width) {
    return show_protocols({{"devices", {answer}}}, width);
}

std::string show_counters(const json& answer, Width /*width*/) {
    std::vector<Row> rows;
    for (const auto& [name, value] : answer.at("counters").items()) {
        rows.push_back({printable(name), text(value)});
    }
    return list(rows);
}

std::string show_limits(const json& answer, Width width) {
    std::vector<Row> rows;
    for (const auto& [name, usage] : answer.at("resources").items()) {
        const json& max =
            usage.at("max"); // how much memory, is not known while the device is unused
        rows.push_back(
            {printable(name), text(usage.at("used")), name == "memory" ? or_dash(max) : text(max)});
    }
    return list(share_rows(answer)) + "\n" + table({"Resource", "Used", "Max"}, rows, width);
}

std::string show_uplinks(const json& answer, Width width) {
    std::vector<Row> rows;
    for (const json& uplink : answer.at("uplinks")) {
        const bool ethernet = uplink.at("kind") == "ethernet";
        rows.push_back({text(uplink.at("name")), capital(text(uplink.at("kind"))),
                        capital(text(uplink.at("state"))), speed(uplink.at("speed_mbps")),
                        text(uplink.at("mac")), ethernet ? "-" : text(uplink.at("peers")),
                        text(uplink.at(ethernet ? "interface" : "provider"))});
    }
    return table({"Name", "Kind", "State", "Speed", "MAC Address", "Peers", "Interface/Provider"},
                 rows, width);
}

std::string show_peers(const json& answer, Width width) {
    std::vector<Row> rows;
    for (const json& peer : answer.at("peers")) {
        rows.push_back({text(peer.at("name")), text(peer.at("uplink")),
                        capital(text(peer.at("state"))), text(peer.at("addresses")),
                        text(peer.at("address"))});
    }
    return table({"Name", "Uplink", "State", "Addresses", "Listens At"}, rows, width);
}

std::string show_name(const json& answer, Width /*width*/) {
    return text(answer.at("name")) + "\n";
}

std::string show_nothing(const json& /*answer*/, Width /*width*/) {
    return "";
}

std::string show_log_level(const json& answer, Width /*width*/) {
    return text(answer.at("level")) + "\n";
}

std::string show_reload(const json& answer, Width /*width*/) {
    std::string lines;
    for (const json& change : answer.at("changed")) {
        lines += fmt::format("changed: {}\n", text(change));
    }
    for (const json& key : answer.at("restart")) {
        lines += fmt::format("takes a restart: {}\n", text(key));
    }
    return lines.empty() ? "nothing has changed\n" : lines;
}

} // namespace vrdma::ctl
