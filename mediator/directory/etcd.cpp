// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/directory/etcd.h"

#include <fmt/format.h>
#include <httplib.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "mediator/directory/bounded_client.h"

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

// Keepalive probes notice a peer that has gone, although a watch sends nothing.
void notice_the_dead(socket_t socket) {
    const auto set = [socket](int level, int name, int value) {
        ::setsockopt(socket, level, name, &value, sizeof(value));
    };
    constexpr int seconds = 5;
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, seconds);
    set(IPPROTO_TCP, TCP_KEEPINTVL, seconds);
    set(IPPROTO_TCP, TCP_KEEPCNT, 2);
}

std::unique_ptr<httplib::ClientImpl> client_of(const Endpoint& endpoint,
                                               const EtcdOptions& options) {
    std::unique_ptr<httplib::ClientImpl> client;
    if (endpoint.tls) {
        auto tls = std::make_unique<BoundedClient<httplib::SSLClient>>(
            endpoint.host, endpoint.port, options.certificate_file, options.private_key_file);
        if (!options.ca_file.empty()) {
            tls->set_ca_cert_path(options.ca_file);
        }
        client = std::move(tls);
    } else {
        client = std::make_unique<BoundedClient<httplib::ClientImpl>>(endpoint.host, endpoint.port);
    }
    client->set_connection_timeout(Etcd::connect_limit);
    client->set_write_timeout(Etcd::answer_limit);
    client->set_keep_alive(true);
    client->set_tcp_nodelay(true);
    client->set_socket_options(notice_the_dead);
    return client;
}

} // namespace

Etcd::Etcd(EtcdOptions options) : options_{std::move(options)} {
    clients_.reserve(options_.endpoints.size());
    for (const Endpoint& endpoint : options_.endpoints) {
        clients_.push_back(client_of(endpoint, options_));
    }
}

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
    if (interrupted_) {
        return {};
    }
    WatchReader reader{max_answer, [&](const std::vector<Value>& changes) {
                           return !interrupted_ && on_change(changes);
                       }};
    clients_[current_]->set_read_timeout(watch_limit);
    const auto posted = post("/v3/watch", request.dump(),
                             [&](std::string_view piece) { return reader.hear(piece); });
    if (reader.unwanted() || interrupted_) {
        return {};
    }
    if (!reader.complaint().empty()) {
        return fail(reader.complaint());
    }
    return posted.and_then([&] { return fail("it ended the watch"); });
}

// If the client has a socket, stop() ends it. If it has none yet, the watch checks interrupted_
// when the first answer comes.
void Etcd::interrupt() {
    interrupted_ = true;
    clients_[current_]->stop();
}

Etcd::Answer<std::string> Etcd::call(const std::string& path, const std::string& body) {
    std::string text;
    clients_[current_]->set_read_timeout(answer_limit);
    const auto posted = post(path, body, [&](std::string_view piece) {
        text += piece;
        return text.size() <= max_answer;
    });
    if (!posted) {
        return tl::unexpected{posted.error()};
    }
    return text;
}

Etcd::Answer<> Etcd::post(const std::string& path, const std::string& body,
                          const Receiver& receiver) {
    httplib::Request request;
    request.method = "POST";
    request.path = path;
    request.set_header("Content-Type", "application/json");
    request.body = body;
    int status = 0;
    std::string complaint;
    request.response_handler = [&](const httplib::Response& response) {
        status = response.status;
        return true;
    };
    request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t /*offset*/,
                                   std::uint64_t /*length*/) {
        constexpr std::size_t longest = 200;
        if (status == 200) {
            return receiver({data, size});
        }
        complaint.append(data, std::min(size, longest - complaint.size()));
        return complaint.size() < longest;
    };
    httplib::Response response;
    auto error = httplib::Error::Success;
    const bool answered = clients_[current_]->send(request, response, error);
    if (status != 0 && status != 200) {
        return fail(fmt::format("it answers {}: {}", status, complaint));
    }
    return answered ? Answer<>{} : fail("no answer: " + httplib::to_string(error));
}

Etcd::Answer<> Etcd::fail(std::string why) {
    const Endpoint& endpoint = options_.endpoints[current_];
    current_ = (current_ + 1) % clients_.size();
    return tl::unexpected{fmt::format("{} port {}: {}", endpoint.host, endpoint.port, why)};
}

} // namespace vrdma::directory
