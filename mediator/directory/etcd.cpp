// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/directory/etcd.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "mediator/directory/http_client.h"

namespace vrdma::directory {
namespace {

using Json = nlohmann::json;

// Returns the first key behind all keys that begin with `prefix`. The prefix must not consist of
// 0xff bytes only.
std::string end_of(std::string prefix) {
    while (!prefix.empty() && prefix.back() == '\xff') {
        prefix.pop_back();
    }
    if (!prefix.empty()) {
        ++prefix.back();
    }
    return prefix;
}

} // namespace

Etcd::Etcd(EtcdOptions options)
    : options_{std::move(options)},
      client_{std::make_unique<HttpClient>(options_, connect_limit)} {}

Etcd::~Etcd() = default;

Etcd::Answer<std::int64_t> Etcd::grant(std::chrono::seconds lease) {
    return call("/v3/lease/grant", Json{{"TTL", lease.count()}}.dump()).and_then(read_lease);
}

Etcd::Answer<bool> Etcd::keep_alive(std::int64_t lease) {
    return call("/v3/lease/keepalive", Json{{"ID", std::to_string(lease)}}.dump())
        .and_then(read_time_to_live)
        .map([](std::int64_t seconds) { return seconds > 0; });
}

Etcd::Answer<> Etcd::revoke(std::int64_t lease) {
    return call("/v3/lease/revoke", Json{{"ID", std::to_string(lease)}}.dump())
        .map([](const auto&) {});
}

Etcd::Answer<std::int64_t> Etcd::put(const std::string& key, const std::string& value,
                                     std::int64_t lease) {
    const Json request{
        {"key", encode(key)}, {"value", encode(value)}, {"lease", std::to_string(lease)}};
    return call("/v3/kv/put", request.dump()).and_then(read_revision);
}

Etcd::Answer<Etcd::Range> Etcd::range(const std::string& prefix) {
    const Json request{{"key", encode(prefix)}, {"range_end", encode(end_of(prefix))}};
    return call("/v3/kv/range", request.dump()).and_then(read_range);
}

Etcd::Answer<> Etcd::watch(const std::string& prefix, std::int64_t from,
                           const OnChange& on_change) {
    const Json request{{"create_request",
                        {{"key", encode(prefix)},
                         {"range_end", encode(end_of(prefix))},
                         {"start_revision", std::to_string(from)}}}};
    WatchReader reader{max_answer, [&](const std::vector<Value>& changes) {
                           return !client_->interrupted() && on_change(changes);
                       }};
    const auto posted =
        client_->post(options_.endpoints[current_], {"/v3/watch", request.dump(), watch_limit},
                      [&](std::string_view piece) { return reader.hear(piece); });
    if (reader.unwanted() || client_->interrupted()) {
        return {};
    }
    if (!reader.complaint().empty()) {
        return fail(reader.complaint());
    }
    return fail(posted ? "it ended the watch" : posted.error());
}

void Etcd::interrupt() {
    client_->interrupt();
}

Etcd::Answer<std::string> Etcd::call(const std::string& path, const std::string& body) {
    std::string text;
    const auto posted = client_->post(options_.endpoints[current_], {path, body, answer_limit},
                                      [&](std::string_view piece) {
                                          text += piece;
                                          return text.size() <= max_answer;
                                      });
    if (!posted) {
        return fail(posted.error());
    }
    return text;
}

// The next call uses the next endpoint.
tl::unexpected<std::string> Etcd::fail(const std::string& why) {
    const Endpoint& endpoint = options_.endpoints[current_];
    current_ = (current_ + 1) % options_.endpoints.size();
    return tl::unexpected{fmt::format("{} port {}: {}", endpoint.host, endpoint.port, why)};
}

} // namespace vrdma::directory
