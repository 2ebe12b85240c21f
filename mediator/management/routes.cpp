// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/management/routes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "mediator/management/capture.h"
#include "mediator/management/exposition.h"
#include "mediator/management/json.h"
#include "mediator/management/metrics.h"
#include "mediator/management/texts.h"

namespace vrdma::management {
namespace {

using nlohmann::json;
using Kind = Question::Kind;
using Words = std::vector<std::string>;

unsigned status_of(std::errc error) {
    switch (error) {
        case std::errc::invalid_argument:
            return 400;
        case std::errc::permission_denied:
        case std::errc::operation_not_permitted:
            return 403;
        case std::errc::no_such_file_or_directory:
            return 404;
        case std::errc::operation_not_supported:
            return 405;
        case std::errc::device_or_resource_busy:
        case std::errc::file_exists:
        case std::errc::address_in_use:
            return 409;
        case std::errc::message_size:
            return 413;
        default:
            return 503;
    }
}

Response respond(unsigned status, const json& body) {
    return {status, body.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"};
}

Response refuse(const Refusal& refusal) {
    return management::refuse(refusal.error, refusal.reason);
}

// --- what can be asked ---

struct Call {
    const Words& words; // those of the path that the route leaves open
    const std::string& body;
    Asker& asker;
    bool force;
};

template <typename Record>
Response list(const char* key, const Answered<std::vector<Record>>& answered,
              json (*format)(const Record&)) {
    if (!answered) {
        return refuse(answered.error());
    }
    json all = json::array();
    for (const Record& record : *answered) {
        all.push_back(format(record));
    }
    return respond(status_ok, {{key, std::move(all)}});
}

Response devices(const Call& call) {
    return list<Device>("devices", call.asker.all<Device>(Kind::devices), &to_json);
}

Response all_counters(const Call& call) {
    return list<Counters>("devices", call.asker.all<Counters>(Kind::counters), &to_json);
}

Response uplinks(const Call& call) {
    return list<Uplink>("uplinks", call.asker.all<Uplink>(Kind::uplinks), &to_json);
}

Response peers(const Call& call) {
    return list<Peer>("peers", call.asker.all<Peer>(Kind::peers), &to_json);
}

// The interface of an Ethernet uplink is the devices' netdev. A fabric has none.
Response netdevs(const Call& call) {
    const auto devices = call.asker.all<Device>(Kind::devices);
    const auto uplinks =
        devices ? call.asker.all<Uplink>(Kind::uplinks) : tl::unexpected{devices.error()};
    if (!uplinks) {
        return refuse(uplinks.error());
    }
    json all = json::array();
    for (const Device& device : *devices) {
        const auto used = std::ranges::find_if(*uplinks, [&](const Uplink& uplink) {
            return uplink.kind == Uplink::Kind::ethernet &&
                   text_of(uplink.name) == text_of(device.uplink);
        });
        all.push_back(netdev_of(device, used != uplinks->end() ? &*used : nullptr));
    }
    return respond(status_ok, {{"devices", std::move(all)}});
}

// A name of the configuration whose device has several clients names no function.
std::string no_device(const Call& call, const std::string& name) {
    const std::string first = name + "/0";
    const auto found = call.asker.one<Device>(Kind::devices, first);
    return found && !found->empty()
               ? fmt::format("there is no device '{}', but one for each client: '{}' and so on",
                             name, first)
               : fmt::format("there is no device '{}'", name);
}

Answered<Device> find(const Call& call) {
    const std::string& name = call.words.front();
    return call.asker.one<Device>(Kind::devices, name)
        .and_then([&](const std::vector<Device>& found) -> Answered<Device> {
            if (found.empty()) {
                return tl::unexpected{
                    Refusal{std::errc::no_such_file_or_directory, no_device(call, name)}};
            }
            return found.front();
        });
}

Response device(const Call& call) {
    const auto found = find(call);
    if (!found) {
        return refuse(found.error());
    }
    json body = to_json(*found);
    body.update(limits_of(*found));
    return respond(status_ok, body);
}

Response all_protocols(const Call& call) {
    return list<Device>("devices", call.asker.all<Device>(Kind::devices), &protocols_of);
}

Response protocols(const Call& call) {
    const auto found = find(call);
    return found ? respond(status_ok, protocols_of(*found)) : refuse(found.error());
}

// The protocols of a body such as {"protocol": "both"}, or 0.
std::uint32_t protocols_in(const json& body) {
    constexpr std::array<std::pair<std::string_view, std::uint32_t>, 3> words{
        {{"roce-v1", roce_v1}, {"roce-v2", roce_v2}, {"both", roce_v1 | roce_v2}}};
    if (!body.is_object() || body.size() != 1 || !body.contains("protocol")) {
        return 0;
    }
    const auto named = std::ranges::find_if(
        words, [&](const auto& word) { return body["protocol"] == word.first; });
    return named != words.end() ? named->second : 0;
}

Response set_protocols(const Call& call) {
    const std::uint32_t wanted = protocols_in(json::parse(call.body, nullptr, false));
    if (wanted == 0) {
        return management::refuse(
            std::errc::invalid_argument,
            R"(the body must be {"protocol": P}, where P is "roce-v1", "roce-v2" or "both")");
    }
    Question question{};
    question.kind = Kind::set_protocols;
    question.protocols = wanted;
    const auto set = call.asker.lines(question, call.words.front());
    return set ? protocols(call) : refuse(set.error());
}

Response limits(const Call& call) {
    const auto found = find(call);
    return found ? respond(status_ok, limits_of(*found)) : refuse(found.error());
}

struct ShareKey {
    const char* name;
    std::uint64_t Share::*value;
    std::uint64_t least;
    std::uint64_t most;
};
constexpr std::array share_keys{
    ShareKey{"weight", &Share::weight, 1, max_weight},
    ShareKey{"max_bytes_per_second", &Share::bytes_per_second, 0, max_rate},
    ShareKey{"max_operations_per_second", &Share::operations_per_second, 0, max_rate}};

tl::unexpected<Refusal> invalid(std::string reason) {
    return tl::unexpected{Refusal{std::errc::invalid_argument, std::move(reason)}};
}

bool is_number(const json& value, std::uint64_t least, std::uint64_t most) {
    return value.is_number_unsigned() && value >= least && value <= most;
}

// Quotas as in {"qp": 100, "memory": 1048576}. The others stay.
Answered<Quotas> quotas_in(const json& body) {
    if (!body.is_object()) {
        return invalid(R"(resources must be an object such as {"qp": 100})");
    }
    Quotas quotas;
    quotas.fill(quota_stays);
    for (const auto& [name, value] : body.items()) {
        const auto text = std::ranges::find(resource_texts, std::string_view{name});
        if (text == resource_texts.end()) {
            return invalid(fmt::format("'{}' is no resource, but these: {}", name,
                                       fmt::join(resource_texts, ", ")));
        }
        if (!is_number(value, 0, quota_stays - 1)) {
            return invalid(fmt::format("{} must be a number from 0 to {}", name, quota_stays - 1));
        }
        quotas.at(static_cast<std::size_t>(text - resource_texts.begin())) =
            value.get<std::uint64_t>();
    }
    return quotas;
}

// Sets what the object has, and takes it out. Values out of their range are refused.
Answered<Share> take_share(Share share, json& body) {
    for (const ShareKey& key : share_keys) {
        const auto value = body.find(key.name);
        if (value == body.end()) {
            continue;
        }
        if (!is_number(*value, key.least, key.most)) {
            return invalid(
                fmt::format("{} must be a number from {} to {}", key.name, key.least, key.most));
        }
        share.*(key.value) = value->get<std::uint64_t>();
        body.erase(value);
    }
    return share;
}

// The question that sets what the body has, as in {"weight": 100, "resources": {"qp": 100}}.
Answered<Question> limits_question(const Device& device, json body) {
    if (!body.is_object() || body.empty()) {
        return invalid(R"(the body must be an object such as {"weight": 100})");
    }
    Question question{};
    question.kind = Kind::set_limits;
    const auto share = take_share(device.share, body);
    const auto quotas = share.and_then(
        [&](const Share&) { return quotas_in(body.value("resources", json::object())); });
    if (!quotas) {
        return tl::unexpected{quotas.error()};
    }
    body.erase("resources");
    if (!body.empty()) {
        return invalid(fmt::format(
            "'{}' is no limit that can be set, but these: weight, max_bytes_per_second, "
            "max_operations_per_second, resources",
            body.begin().key()));
    }
    question.share = *share;
    question.quotas = *quotas;
    return question;
}

Response set_limits(const Call& call) {
    const auto set = find(call)
                         .and_then([&](const Device& device) {
                             return limits_question(device, json::parse(call.body, nullptr, false));
                         })
                         .and_then([&](const Question& question) {
                             return call.asker.lines(question, call.words.front());
                         });
    return set ? limits(call) : refuse(set.error());
}

Response counters(const Call& call) {
    if (const auto found = find(call); !found) {
        return refuse(found.error());
    }
    const auto counted = call.asker.one<Counters>(Kind::counters, call.words.front());
    if (!counted) {
        return refuse(counted.error());
    }
    if (counted->empty()) {
        return management::refuse(
            std::errc::device_or_resource_busy,
            fmt::format("the device '{}' is not in use, so it counts nothing", call.words.front()));
    }
    return respond(status_ok, to_json(counted->front()));
}

Response log_level_as(const Answered<Asker::Lines>& lines) {
    return lines ? respond(status_ok, {{"level", lines->some.empty() ? "" : lines->some.front()}})
                 : refuse(lines.error());
}

Response log_level(const Call& call) {
    return log_level_as(call.asker.lines(Kind::log_level));
}

// {"level": "debug"}, and nothing else.
Response set_log_level(const Call& call) {
    const json body = json::parse(call.body, nullptr, false);
    if (body.is_discarded()) {
        return management::refuse(std::errc::invalid_argument, "the body is no JSON");
    }
    if (!body.is_object() || body.size() != 1 || !body.contains("level") ||
        !body["level"].is_string()) {
        return management::refuse(std::errc::invalid_argument,
                                  R"(the body must be an object such as {"level": "debug"})");
    }
    return log_level_as(call.asker.lines(Kind::set_log_level, body["level"].get<std::string>()));
}

Response reload(const Call& call) {
    const auto lines = call.asker.lines(Kind::reload);
    return lines ? respond(status_ok, {{"changed", lines->some}, {"restart", lines->others}})
                 : refuse(lines.error());
}

// A value of a body, without its key.
std::optional<Setting> setting_of(const json& value, Setting::Kind text_kind) {
    Setting setting{};
    if (value.is_string()) {
        const auto text = value.get<std::string>();
        setting.kind = text_kind;
        return helper::is_printable(text) && helper::write(setting.text, text)
                   ? std::optional{setting}
                   : std::nullopt;
    }
    if (value.is_boolean()) {
        setting.kind = Setting::Kind::flag;
        setting.number = value.get<bool>() ? 1 : 0;
        return setting;
    }
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() <= std::uint64_t{most}
                                                 : value.is_number_integer();
    setting.kind = Setting::Kind::number;
    setting.number = fits ? value.get<std::int64_t>() : 0;
    return fits ? std::optional{setting} : std::nullopt;
}

bool append_settings(const std::string& key, const json& value, Settings& settings) {
    const bool many = value.is_array();
    const json values = many ? value : json::array({value});
    for (const json& each : values) {
        const bool item = !many || each.is_string();
        auto setting = setting_of(each, many ? Setting::Kind::item : Setting::Kind::text);
        if (!item || !setting || key.empty() || !helper::is_printable(key) ||
            !helper::write(setting->key, key)) {
            return false;
        }
        settings.push_back(*setting);
    }
    return !values.empty();
}

// The keys of a section of vrdmad.conf(5), as in {"name": "disk", "clients": 4, "pkeys":
// ["0xffff"]}.
Answered<Settings> settings_in(const json& body) {
    if (!body.is_object() || body.empty()) {
        return invalid(R"(the body must be an object such as {"name": "disk"})");
    }
    Settings settings;
    for (const auto& [key, value] : body.items()) {
        if (!append_settings(key, value, settings)) {
            return invalid(fmt::format(
                "{} must be a number, true, false, a text of printable characters, or an array of "
                "such texts",
                helper::printable(key, sizeof(Setting::key))));
        }
    }
    if (settings.size() > max_settings) {
        return invalid(fmt::format("there are more than {} values", max_settings));
    }
    return settings;
}

// Asks for something that has these settings, and answers with the line that comes back.
Response add(const Call& call, Kind kind, const char* key) {
    Question question{};
    question.kind = kind;
    const json body = json::parse(call.body, nullptr, false);
    const auto added = settings_in(body).and_then(
        [&](const Settings& settings) { return call.asker.lines(question, {}, settings); });
    if (!added) {
        return refuse(added.error());
    }
    json answer{{key, added->some.empty() ? "" : added->some.front()}};
    if (body.contains("name")) {
        answer.emplace("name", body["name"]);
    }
    return respond(status_ok, answer);
}

Response create_device(const Call& call) {
    return add(call, Kind::create_device, "socket");
}

Response add_uplink(const Call& call) {
    return add(call, Kind::add_uplink, "name"); // by default that of its interface
}

Response remove(const Call& call, Question question) {
    const std::string& name = call.words.front();
    const auto removed = call.asker.lines(question, name);
    return removed ? respond(status_ok, {{"name", name}}) : refuse(removed.error());
}

Response destroy_device(const Call& call) {
    Question question{};
    question.kind = Kind::destroy_device;
    question.force = call.force ? 1 : 0;
    return remove(call, question);
}

Response remove_uplink(const Call& call) {
    Question question{};
    question.kind = Kind::remove_uplink;
    return remove(call, question);
}

// The limit of a body such as {"payload": 512}, or the usual one.
Answered<std::uint32_t> payload_limit_in(const std::string& text) {
    if (text.empty()) {
        return sniffer::usual_payload;
    }
    const json body = json::parse(text, nullptr, false);
    if (!body.is_object() || body.size() != 1 || !body.contains("payload")) {
        return invalid(R"(the body must be an object such as {"payload": 512})");
    }
    if (!is_number(body["payload"], 0, sniffer::most_payload)) {
        return invalid(fmt::format("payload must be a number from 0 to {}", sniffer::most_payload));
    }
    return body["payload"].get<std::uint32_t>();
}

Answered<sniffer::RingReader> open_sniffer(const Call& call, std::uint32_t payload_limit) {
    return call.asker.start_sniffer(call.words.front(), payload_limit)
        .and_then([](const UniqueFd& file) -> Answered<sniffer::RingReader> {
            auto ring = sniffer::RingReader::open(file);
            if (!ring) {
                return tl::unexpected{Refusal{ring.error(), "vrdmad's ring cannot be read"}};
            }
            return std::move(*ring);
        });
}

Answered<Asker::Lines> stop_sniffer(Asker& asker, const std::string& device) {
    return asker.lines(Kind::stop_sniffer, device);
}

// The asker outlives all streams.
Response start_sniffer(const Call& call) {
    const auto payload_limit = payload_limit_in(call.body);
    if (!payload_limit) {
        return refuse(payload_limit.error());
    }
    auto ring = open_sniffer(call, *payload_limit);
    if (!ring) {
        return refuse(ring.error());
    }
    const std::string& device = call.words.front();
    const auto stop = [&asker = call.asker, device] {
        static_cast<void>(stop_sniffer(asker, device));
    };
    return {status_ok, "", "application/x-pcapng",
            std::make_shared<Capture>(std::move(*ring), device, stop)};
}

Response end_sniffer(const Call& call) {
    const auto stopped = stop_sniffer(call.asker, call.words.front());
    return stopped ? respond(status_ok, json::object()) : refuse(stopped.error());
}

Response metrics(const Call& call) {
    auto text = read_metrics(call.asker);
    return text ? Response{status_ok, std::move(*text), Exposition::content_type}
                : refuse(text.error());
}

// --- how it is found ---

struct Route {
    const char* method;
    const char* path; // "*" is any word
    bool changes;     // needs a client that may change something
    Response (*serve)(const Call& call);
};

constexpr std::array routes{
    Route{"GET", "/v1/devices", false, &devices},
    Route{"POST", "/v1/devices", true, &create_device},
    Route{"GET", "/v1/devices/*", false, &device},
    Route{"DELETE", "/v1/devices/*", true, &destroy_device},
    Route{"GET", "/v1/devices/*/counters", false, &counters},
    Route{"GET", "/v1/devices/*/limits", false, &limits},
    Route{"PUT", "/v1/devices/*/limits", true, &set_limits},
    Route{"GET", "/v1/devices/*/protocols", false, &protocols},
    Route{"PUT", "/v1/devices/*/protocols", true, &set_protocols},
    Route{"POST", "/v1/devices/*/sniffer", true, &start_sniffer},
    Route{"DELETE", "/v1/devices/*/sniffer", true, &end_sniffer},
    Route{"GET", "/v1/protocols", false, &all_protocols},
    Route{"GET", "/v1/counters", false, &all_counters},
    Route{"GET", "/v1/netdevs", false, &netdevs},
    Route{"GET", "/v1/uplinks", false, &uplinks},
    Route{"POST", "/v1/uplinks", true, &add_uplink},
    Route{"DELETE", "/v1/uplinks/*", true, &remove_uplink},
    Route{"GET", "/v1/peers", false, &peers},
    Route{"GET", "/v1/log-level", false, &log_level},
    Route{"PUT", "/v1/log-level", true, &set_log_level},
    Route{"POST", "/v1/reload", true, &reload},
    Route{"GET", metrics_path, false, &metrics},
};

Words split(std::string_view path) {
    Words words;
    while (!path.empty()) {
        path.remove_prefix(1); // the slash
        const std::size_t end = std::min(path.find('/'), path.size());
        words.emplace_back(path.substr(0, end));
        path.remove_prefix(end);
    }
    return words;
}

int digit(char c) {
    constexpr std::string_view digits = "0123456789abcdef";
    const auto at = digits.find(static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c));
    return at == digits.npos ? -1 : static_cast<int>(at);
}

// Replaces each %XX. Other text stays.
std::string decode(const std::string& word) {
    std::string plain;
    for (std::size_t i = 0; i < word.size(); ++i) {
        const bool coded = word[i] == '%' && i + 2 < word.size();
        const int high = coded ? digit(word[i + 1]) : -1;
        const int low = coded ? digit(word[i + 2]) : -1;
        if (high < 0 || low < 0) {
            plain += word[i];
        } else {
            plain += static_cast<char>(high * 16 + low);
            i += 2;
        }
    }
    return plain;
}

// Returns whether the words are those of the pattern, and the ones that it leaves open.
std::optional<Words> match(const Words& words, const char* pattern) {
    const Words wanted = split(pattern);
    if (wanted.size() != words.size()) {
        return std::nullopt;
    }
    Words open;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (wanted[i] == "*") {
            open.push_back(decode(words[i]));
        } else if (wanted[i] != words[i]) {
            return std::nullopt;
        }
    }
    return open;
}

} // namespace

Response refuse(std::errc error, const std::string& reason) {
    const char* const name = ::strerrorname_np(static_cast<int>(error));
    return respond(status_of(error),
                   {{"error", name != nullptr ? name : "EIO"}, {"message", reason}});
}

Response answer(const Request& request, Asker& asker) {
    if (request.by_network && request.path != metrics_path) {
        return refuse(std::errc::permission_denied,
                      fmt::format("the network is served {} only", metrics_path));
    }
    const Words words = request.path.starts_with('/') ? split(request.path) : Words{};
    bool known = false;
    for (const Route& route : routes) {
        const auto open = match(words, route.path);
        known = known || open;
        if (!open || request.method != route.method) {
            continue;
        }
        if (route.changes && !request.may_change) {
            return refuse(std::errc::permission_denied,
                          "only root, vrdmad's own user, and the group if group_changes is set, "
                          "may change something");
        }
        return route.serve({*open, request.body, asker, request.force});
    }
    return known ? refuse(std::errc::operation_not_supported,
                          fmt::format("'{}' does not take {}", request.path, request.method))
                 : refuse(std::errc::no_such_file_or_directory,
                          fmt::format("there is no '{}'", request.path));
}

} // namespace vrdma::management
