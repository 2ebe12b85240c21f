// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "ctl/show.h"

#include <fmt/format.h>

#include "ctl/table.h"

namespace vrdma::ctl {
namespace {

using nlohmann::json;

std::string text(const json& value) {
    return value.is_null() ? "-" : value.is_string() ? value.get<std::string>() : value.dump();
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
    return {{"Weight", text(limits["weight"])},
            {"Max bytes per second", or_unlimited(limits["max_bytes_per_second"])},
            {"Max operations per second", or_unlimited(limits["max_operations_per_second"])}};
}

} // namespace

std::string show_devices(const json& answer, Width width) {
    std::vector<Row> rows;
    for (const json& device : answer["devices"]) {
        rows.push_back({text(device["name"]), text(device["driver"]),
                        capital(text(device["state"])), or_dash(device["mtu"]),
                        speed(device["speed_mbps"]), text(device["uplink"]),
                        capital(text(device["kind"])), text(device["description"])});
    }
    return table(
        {"Name", "Driver", "State", "MTU", "Speed", "Paired Uplink", "Kind", "Description"}, rows,
        width);
}

std::string show_device(const json& answer, Width /*width*/) {
    std::vector<Row> rows{{"Name", text(answer["name"])},
                          {"Kind", capital(text(answer["kind"]))},
                          {"Driver", text(answer["driver"])},
                          {"State", capital(text(answer["state"]))},
                          {"Type", text(answer["type"])},
                          {"Front end", text(answer["front_end"])},
                          {"MTU", or_dash(answer["mtu"])},
                          {"Speed", speed(answer["speed_mbps"])},
                          {"Paired uplink", text(answer["uplink"])},
                          {"MAC address", text(answer["mac"])}};
    for (Row& row : share_rows(answer)) {
        rows.push_back(std::move(row));
    }
    return list(rows);
}

std::string show_counters(const json& answer, Width /*width*/) {
    std::vector<Row> rows;
    for (const auto& [name, value] : answer["counters"].items()) {
        rows.push_back({name, text(value)});
    }
    return list(rows);
}

std::string show_limits(const json& answer, Width width) {
    std::vector<Row> rows;
    for (const auto& [name, usage] : answer["resources"].items()) {
        rows.push_back({name, text(usage["used"]), text(usage["max"])});
    }
    return list(share_rows(answer)) + "\n" + table({"Resource", "Used", "Max"}, rows, width);
}

std::string show_uplinks(const json& answer, Width width) {
    std::vector<Row> rows;
    for (const json& uplink : answer["uplinks"]) {
        const bool ethernet = uplink["kind"] == "ethernet";
        rows.push_back({text(uplink["name"]), capital(text(uplink["kind"])),
                        capital(text(uplink["state"])), speed(uplink["speed_mbps"]),
                        text(uplink["mac"]), ethernet ? "-" : text(uplink["peers"]),
                        text(uplink[ethernet ? "interface" : "provider"])});
    }
    return table({"Name", "Kind", "State", "Speed", "MAC Address", "Peers", "Interface/Provider"},
                 rows, width);
}

std::string show_peers(const json& answer, Width width) {
    std::vector<Row> rows;
    for (const json& peer : answer["peers"]) {
        rows.push_back({text(peer["name"]), text(peer["uplink"]), capital(text(peer["state"])),
                        text(peer["addresses"]), text(peer["address"])});
    }
    return table({"Name", "Uplink", "State", "Addresses", "Listens At"}, rows, width);
}

std::string show_log_level(const json& answer, Width /*width*/) {
    return text(answer["level"]) + "\n";
}

std::string show_reload(const json& answer, Width /*width*/) {
    std::string lines;
    for (const json& change : answer["changed"]) {
        lines += fmt::format("changed: {}\n", text(change));
    }
    for (const json& key : answer["restart"]) {
        lines += fmt::format("takes a restart: {}\n", text(key));
    }
    return lines.empty() ? "nothing has changed\n" : lines;
}

} // namespace vrdma::ctl
