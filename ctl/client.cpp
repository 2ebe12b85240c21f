// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "ctl/client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <array>
#include <cctype>

namespace vrdma::ctl {
namespace {

// A reload may take 10 s, and then others have waited for it.
constexpr long limit_s = 30;

struct Cleanup {
    void operator()(CURL* handle) const noexcept { ::curl_easy_cleanup(handle); }
};

std::size_t append(const char* data, std::size_t size, std::size_t count, std::string* text) {
    text->append(data, size * count);
    return size * count;
}

struct Reply {
    CURLcode code = CURLE_FAILED_INIT;
    long status = 0;
    std::string body;
};

Reply perform(const std::string& socket, const char* method, const std::string& path,
              const std::string& body) {
    Reply reply;
    const std::unique_ptr<CURL, Cleanup> handle{::curl_easy_init()};
    if (!handle) {
        return reply;
    }
    const std::string url = "http://localhost" + path;
    ::curl_easy_setopt(handle.get(), CURLOPT_UNIX_SOCKET_PATH, socket.c_str());
    ::curl_easy_setopt(handle.get(), CURLOPT_URL, url.c_str());
    ::curl_easy_setopt(handle.get(), CURLOPT_CUSTOMREQUEST, method);
    ::curl_easy_setopt(handle.get(), CURLOPT_TIMEOUT, limit_s);
    ::curl_easy_setopt(handle.get(), CURLOPT_WRITEFUNCTION, &append);
    ::curl_easy_setopt(handle.get(), CURLOPT_WRITEDATA, &reply.body);
    if (!body.empty()) {
        ::curl_easy_setopt(handle.get(), CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
        ::curl_easy_setopt(handle.get(), CURLOPT_POSTFIELDS, body.c_str());
    }
    reply.code = ::curl_easy_perform(handle.get());
    ::curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &reply.status);
    return reply;
}

} // namespace

Answer Client::request(const char* method, const std::string& path, const std::string& body) const {
    const Reply reply = perform(socket_, method, path, body);
    if (reply.code != CURLE_OK) {
        return tl::unexpected{
            Problem{true, fmt::format("{}: {}", socket_, ::curl_easy_strerror(reply.code))}};
    }
    auto answer = nlohmann::json::parse(reply.body, nullptr, false);
    constexpr long ok = 200;
    if (!answer.is_object()) {
        return tl::unexpected{Problem{true, fmt::format("{}: the answer is no JSON", socket_)}};
    }
    if (reply.status != ok) {
        return tl::unexpected{Problem{
            false, fmt::format("{} ({})", answer.value("message", ""), answer.value("error", ""))}};
    }
    return answer;
}

std::string encode(const std::string& word) {
    std::string coded;
    for (const char c : word) {
        const bool plain =
            std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
        coded += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return coded;
}

} // namespace vrdma::ctl
