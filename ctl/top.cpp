// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "ctl/top.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <thread>

#include "ctl/table.h"

namespace vrdma::ctl {
namespace {

using nlohmann::json;

// A column adds several counters. One that this vrdmad does not have counts as 0.
struct Column {
    const char* title;
    std::initializer_list<const char*> counters;
};
const std::array<Column, 8> columns{
    {{"TX Bytes/s", {"tx_bytes"}},
     {"RX Bytes/s", {"rx_bytes"}},
     {"TX Msg/s", {"tx_messages"}},
     {"RX Msg/s", {"rx_messages"}},
     {"Retries/s", {"retransmits"}},
     {"NAKs/s",
      {"rnr_nak_retry_err", "packet_seq_err", "implied_nak_seq_err", "send_rnr_err",
       "send_seq_naks"}},
     {"CNPs/s", {"np_cnp_sent", "rp_cnp_handled"}},
     {"Errors/s",
      {"retry_exceeded_err", "retry_rnr_exceeded_err", "req_remote_access_errors",
       "req_remote_op_errors", "req_remote_invalid_request", "local_errors", "refused_requests",
       "cq_overruns"}}}};

double rate_of(const json& device, const Column& column) {
    double rate = 0;
    for (const char* const counter : column.counters) {
        rate += device.at("rates").value(counter, 0.0);
    }
    return rate;
}

double bytes_of(const json& device) {
    return rate_of(device, columns[0]) + rate_of(device, columns[1]);
}

// "950", "1.25k", "48.0G": three digits.
std::string short_number(double number) {
    constexpr std::array<const char*, 5> units{"", "k", "M", "G", "T"};
    constexpr double step = 1000;
    constexpr double rounds_up = 999.5;
    std::size_t unit = 0;
    while (number >= rounds_up && unit + 1 < units.size()) {
        number /= step;
        ++unit;
    }
    constexpr double few = 9.995;
    constexpr double some = 99.95;
    const int decimals = unit == 0 ? 0 : number < few ? 2 : number < some ? 1 : 0;
    return fmt::format("{:.{}f}{}", number, decimals, units[unit]);
}

json rates_of(const json& before, const json& after, double seconds) {
    json rates = json::object();
    for (const auto& [name, value] : after.items()) {
        const auto now = value.get<std::uint64_t>();
        const auto then = before.value(name, std::uint64_t{0});
        rates[name] = static_cast<double>(now >= then ? now - then : now) / seconds;
    }
    return rates;
}

} // namespace

json rates(const json& before, const json& after, double seconds) {
    std::map<std::string, const json*> known;
    for (const json& device : before.at("devices")) {
        known[device.at("name").get<std::string>()] = &device.at("counters");
    }
    std::vector<json> devices;
    for (const json& device : after.at("devices")) {
        if (const auto found = known.find(device.at("name")); found != known.end()) {
            devices.push_back(
                {{"name", device.at("name")},
                 {"rates", rates_of(*found->second, device.at("counters"), seconds)}});
        }
    }
    std::ranges::stable_sort(devices, std::ranges::greater{}, &bytes_of);
    return {{"seconds", seconds}, {"devices", std::move(devices)}};
}

std::string show_rates(const json& rates, Width width) {
    Row titles{"Name"};
    for (const Column& column : columns) {
        titles.emplace_back(column.title);
    }
    std::vector<Row> rows;
    for (const json& device : rates.at("devices")) {
        Row& row = rows.emplace_back(Row{device.at("name").get<std::string>()});
        for (const Column& column : columns) {
            row.push_back(short_number(rate_of(device, column)));
        }
    }
    return table(titles, rows, width);
}

tl::expected<Top::Reading, Problem> Top::read(const Client& client) {
    return client.get("/v1/counters").map([](json counters) {
        return Reading{Clock::now(), std::move(counters)};
    });
}

Answer Top::next(const Client& client) {
    if (!last_) {
        auto first = read(client);
        if (!first) {
            return tl::unexpected{std::move(first.error())};
        }
        last_ = std::move(*first);
    }
    std::this_thread::sleep_for(interval_);
    auto now = read(client);
    if (!now) {
        return tl::unexpected{std::move(now.error())};
    }
    const std::chrono::duration<double> passed = now->time - last_->time;
    json found = rates(last_->counters, now->counters, passed.count());
    last_ = std::move(*now);
    return found;
}

} // namespace vrdma::ctl
