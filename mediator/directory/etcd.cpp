// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/directory/etcd.h"

#include <fmt/format.h>
#include <httplib.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace vrdma::directory {
namespace {

using Json = nlohmann::json;

std::string encode(std::string_view bytes) {
    std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
    const int size = ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                       reinterpret_cast<const unsigned char*>(bytes.data()),
                                       static_cast<int>(bytes.size()));
    text.resize(static_cast<std::size_t>(size));
    return text;
}

// Nothing if that is no base64.
std::string decode(std::string_view text) {
    std::string bytes(text.size(), '\0');
    const int size = ::EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                       reinterpret_cast<const unsigned char*>(text.data()),
                                       static_cast<int>(text.size()));
    const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
    bytes.resize(size < 0 ? 0 : static_cast<std::size_t>(size) - padding);
    return bytes;
}

// What comes after all keys that begin so, which is no byte of 0xff only.
std::string end_of(std::string prefix) {
    while (!prefix.empty() && prefix.back() == '\xff') {
        prefix.pop_back();
    }
    if (!prefix.empty()) {
        ++prefix.back();
    }
    return prefix;
}

// A null in the place of what is not there.
const Json& at(const Json& object, const char* name) {
    static const Json null;
    const auto found = object.find(name);
    return found != object.end() ? *found : null;
}

std::string text_at(const Json& object, const char* name) {
    const Json& text = at(object, name);
    return text.is_string() ? text.get<std::string>() : std::string{};
}

// Numbers of 64 bits are strings, and not there if they are zero.
std::int64_t number_at(const Json& object, const char* name) {
    const std::string text = text_at(object, name);
    std::int64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

Etcd::Answer<Json> read_answer(std::string_view text) {
    Json json = Json::parse(text, nullptr, false);
    if (!json.is_object()) {
        return tl::unexpected{std::string{"its answer makes no sense"}};
    }
    return json;
}

std::int64_t revision_of(const Json& answer) {
    return number_at(at(answer, "header"), "revision");
}

Etcd::Value value_of(const Json& pair) {
    return {decode(text_at(pair, "key")), decode(text_at(pair, "value")),
            number_at(pair, "mod_revision")};
}

std::vector<Etcd::Value> changes_in(const Json& result) {
    std::vector<Etcd::Value> changes;
    const Json& events = at(result, "events");
    changes.reserve(events.size());
    for (const Json& event : events) {
        Etcd::Value& changed = changes.emplace_back(value_of(at(event, "kv")));
        if (text_at(event, "type") == "DELETE") {
            changed.value.reset();
        }
    }
    return changes;
}

// Whoever is not there any more is noticed, although a watch has nothing to say.
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
        auto tls = std::make_unique<httplib::SSLClient>(
            endpoint.host, endpoint.port, options.certificate_file, options.private_key_file);
        if (!options.ca_file.empty()) {
            tls->set_ca_cert_path(options.ca_file);
        }
        client = std::move(tls);
    } else {
        client = std::make_unique<httplib::ClientImpl>(endpoint.host, endpoint.port);
    }
    client->set_connection_timeout(Etcd::connect_limit);
    client->set_write_timeout(Etcd::answer_limit);
    client->set_keep_alive(true);
    client->set_tcp_nodelay(true);
    client->set_socket_options(notice_the_dead);
    return client;
}

} // namespace

std::optional<Endpoint> parse_endpoint(std::string_view text) {
    Endpoint endpoint;
    constexpr std::string_view plain = "http://";
    constexpr std::string_view secure = "https://";
    endpoint.tls = text.starts_with(secure);
    if (!endpoint.tls && !text.starts_with(plain)) {
        return std::nullopt;
    }
    text.remove_prefix(endpoint.tls ? secure.size() : plain.size());
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view port = text.substr(colon + 1);
    const auto [end, error] =
        std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
    std::string_view host = text.substr(0, colon);
    const bool v6 = host.size() > 2 && host.front() == '[' && host.back() == ']';
    host = v6 ? host.substr(1, host.size() - 2) : host;
    const std::string_view allowed = v6 ? "0123456789abcdefABCDEF:."
                                        : "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789-._";
    if (error != std::errc{} || end != port.data() + port.size() || endpoint.port == 0 ||
        host.empty() || host.find_first_not_of(allowed) != std::string_view::npos) {
        return std::nullopt;
    }
    endpoint.host = host;
    return endpoint;
}

Etcd::Etcd(EtcdOptions options) : options_{std::move(options)} {
    clients_.reserve(options_.endpoints.size());
    for (const Endpoint& endpoint : options_.endpoints) {
        clients_.push_back(client_of(endpoint, options_));
    }
}

Etcd::~Etcd() = default;

Etcd::Answer<std::int64_t> Etcd::grant(std::chrono::seconds lease) {
    const auto answer =
        call("/v3/lease/grant", Json{{"TTL", lease.count()}}.dump()).and_then(read_answer);
    if (!answer) {
        return tl::unexpected{answer.error()};
    }
    return number_at(*answer, "ID");
}

Etcd::Answer<bool> Etcd::keep_alive(std::int64_t lease) {
    const auto answer = call("/v3/lease/keepalive", Json{{"ID", std::to_string(lease)}}.dump())
                            .and_then(read_answer);
    if (!answer) {
        return tl::unexpected{answer.error()};
    }
    return number_at(at(*answer, "result"), "TTL") > 0;
}

Etcd::Answer<> Etcd::revoke(std::int64_t lease) {
    return call("/v3/lease/revoke", Json{{"ID", std::to_string(lease)}}.dump())
        .map([](const auto&) {});
}

Etcd::Answer<std::int64_t> Etcd::put(const std::string& key, const std::string& value,
                                     std::int64_t lease) {
    const Json request{
        {"key", encode(key)}, {"value", encode(value)}, {"lease", std::to_string(lease)}};
    return call("/v3/kv/put", request.dump()).and_then(read_answer).map(revision_of);
}

Etcd::Answer<Etcd::Range> Etcd::range(const std::string& prefix) {
    const Json request{{"key", encode(prefix)}, {"range_end", encode(end_of(prefix))}};
    const auto answer = call("/v3/kv/range", request.dump()).and_then(read_answer);
    if (!answer) {
        return tl::unexpected{answer.error()};
    }
    Range range{{}, revision_of(*answer)};
    const Json& pairs = at(*answer, "kvs");
    range.values.reserve(pairs.size());
    for (const Json& pair : pairs) {
        range.values.push_back(value_of(pair));
    }
    return range;
}

// One line of JSON after the other.
Etcd::Answer<> Etcd::watch(const std::string& prefix, std::int64_t from,
                           const OnChange& on_change) {
    const Json request{{"create_request",
                        {{"key", encode(prefix)},
                         {"range_end", encode(end_of(prefix))},
                         {"start_revision", std::to_string(from)}}}};
    if (interrupted_) {
        return {};
    }
    std::string text;
    std::string why;
    bool wanted = true;
    const auto hear = [&](std::string_view line) {
        const auto message = read_answer(line);
        const Json& result = message ? at(*message, "result") : Json{};
        if (!result.is_object() || at(result, "canceled") == true) {
            why = "it ended the watch: " + std::string{line.substr(0, 200)};
            return false;
        }
        wanted = !interrupted_ && on_change(changes_in(result));
        return wanted;
    };
    clients_[current_]->set_read_timeout(watch_limit);
    const auto posted = post("/v3/watch", request.dump(), [&](std::string_view piece) {
        text += piece;
        std::size_t done = 0;
        for (std::size_t end = 0; (end = text.find('\n', done)) != text.npos; done = end + 1) {
            if (!hear(std::string_view{text}.substr(done, end - done))) {
                return false;
            }
        }
        text.erase(0, done);
        return text.size() <= max_answer;
    });
    if (!wanted || interrupted_) {
        return {};
    }
    return why.empty() ? posted.and_then([&] { return fail("it ended the watch"); }) : fail(why);
}

// Either the client's socket is there, or what comes by it is looked at afterwards.
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
