// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "ctl/client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <array>
#include <cctype>
#include <chrono>
#include <cstring>
#include <system_error>

namespace vrdma::ctl {
namespace {

// A reload may take 10 s, and then others have waited for it.
constexpr long limit_s = 30;

struct Cleanup {
    void operator()(CURL* handle) const noexcept { ::curl_easy_cleanup(handle); }
};

using Handle = std::unique_ptr<CURL, Cleanup>;

std::size_t append(const char* data, std::size_t size, std::size_t count, std::string* text) {
    text->append(data, size * count);
    return size * count;
}

// Why a transfer has ended. libcurl itself says of a socket only that nobody can be reached there.
std::string reason_of(CURL* handle, CURLcode code) {
    long error = 0;
    if (code == CURLE_COULDNT_CONNECT) {
        ::curl_easy_getinfo(handle, CURLINFO_OS_ERRNO, &error);
    }
    return error == 0 ? ::curl_easy_strerror(code)
                      : "vrdmad cannot be reached: " +
                            std::generic_category().message(static_cast<int>(error));
}

struct Reply {
    CURLcode code = CURLE_FAILED_INIT;
    std::string reason = ::curl_easy_strerror(code);
    long status = 0;
    std::string body;
};

// The body must live as long as the handle.
Handle prepare(const std::string& socket, const char* method, const std::string& path,
               const std::string& body) {
    Handle handle{::curl_easy_init()};
    if (!handle) {
        return handle;
    }
    const std::string url = "http://localhost" + path;
    ::curl_easy_setopt(handle.get(), CURLOPT_UNIX_SOCKET_PATH, socket.c_str());
    ::curl_easy_setopt(handle.get(), CURLOPT_URL, url.c_str());
    ::curl_easy_setopt(handle.get(), CURLOPT_CUSTOMREQUEST, method);
    if (!body.empty()) {
        ::curl_easy_setopt(handle.get(), CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
        ::curl_easy_setopt(handle.get(), CURLOPT_POSTFIELDS, body.c_str());
    }
    return handle;
}

Reply perform(const std::string& socket, const char* method, const std::string& path,
              const std::string& body) {
    Reply reply;
    const Handle handle = prepare(socket, method, path, body);
    if (!handle) {
        return reply;
    }
    ::curl_easy_setopt(handle.get(), CURLOPT_TIMEOUT, limit_s);
    ::curl_easy_setopt(handle.get(), CURLOPT_WRITEFUNCTION, &append);
    ::curl_easy_setopt(handle.get(), CURLOPT_WRITEDATA, &reply.body);
    reply.code = ::curl_easy_perform(handle.get());
    reply.reason = reason_of(handle.get(), reply.code);
    ::curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &reply.status);
    return reply;
}

constexpr long ok = 200;

long status_of(CURL* handle) {
    long status = 0;
    ::curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

// A stream while it comes.
struct Stream {
    CURL* handle;
    Client::Reader& reader;
    std::string refusal{}; // the body of an answer that is no stream
    bool enough = false;

    static std::size_t take(const char* data, std::size_t size, std::size_t count, Stream* self) {
        if (status_of(self->handle) != ok) {
            return append(data, size, count, &self->refusal);
        }
        self->enough = !self->reader.read({data, size * count});
        return self->enough ? 0 : size * count; // an error ends the transfer
    }
};

// Returns how the transfer has ended.
CURLcode run(CURLM* multi, Stream& stream) {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::seconds time_after_interrupt{5};
    auto end = Clock::time_point::max();
    for (int running = 1; Clock::now() < end;) {
        ::curl_multi_perform(multi, &running);
        if (running == 0) {
            int left = 0;
            const CURLMsg* const message = ::curl_multi_info_read(multi, &left);
            return message != nullptr ? message->data.result : CURLE_FAILED_INIT;
        }
        const bool interrupted = end != Clock::time_point::max();
        curl_waitfd interrupt{stream.reader.interrupt_fd(), CURL_WAIT_POLLIN, 0};
        constexpr int patience_ms = 1000;
        ::curl_multi_poll(multi, &interrupt, interrupted ? 0 : 1, patience_ms, nullptr);
        if (!interrupted && interrupt.revents != 0) {
            stream.reader.interrupt();
            end = Clock::now() + time_after_interrupt;
        }
    }
    return CURLE_OK;
}

Problem problem_of(const nlohmann::json& refusal) {
    return {false,
            fmt::format("{} ({})", refusal.value("message", ""), refusal.value("error", ""))};
}

} // namespace

Problem problem(int error, const std::string& reason) {
    const char* const name = ::strerrorname_np(error);
    return {false, fmt::format("{} ({})", reason, name != nullptr ? name : "EIO")};
}

std::optional<Problem> Client::stream(const std::string& path, const nlohmann::json& body,
                                      Reader& reader) const {
    const std::string text = body.dump();
    const std::unique_ptr<CURLM, CURLMcode (*)(CURLM*)> multi{::curl_multi_init(),
                                                              &::curl_multi_cleanup};
    const Handle handle = prepare(socket_, "POST", path, text);
    if (!handle || !multi) {
        return Problem{true, "libcurl cannot begin"};
    }
    Stream stream{handle.get(), reader};
    ::curl_easy_setopt(handle.get(), CURLOPT_WRITEFUNCTION, &Stream::take);
    ::curl_easy_setopt(handle.get(), CURLOPT_WRITEDATA, &stream);
    ::curl_multi_add_handle(multi.get(), handle.get());
    const CURLcode code = run(multi.get(), stream);
    const long status = status_of(handle.get());
    const std::string reason = reason_of(handle.get(), code);
    ::curl_multi_remove_handle(multi.get(), handle.get());
    if (code != CURLE_OK && !stream.enough) {
        return Problem{true, fmt::format("{}: {}{}", socket_,
                                         status == ok ? "vrdmad has hung up: " : "", reason)};
    }
    const auto refusal = nlohmann::json::parse(stream.refusal, nullptr, false);
    return status == ok ? std::nullopt
           : refusal.is_object()
               ? std::optional{problem_of(refusal)}
               : std::optional{Problem{true, fmt::format("{}: the answer is no JSON", socket_)}};
}

Answer Client::request(const char* method, const std::string& path, const std::string& body) const {
    const Reply reply = perform(socket_, method, path, body);
    if (reply.code != CURLE_OK) {
        return tl::unexpected{Problem{true, fmt::format("{}: {}", socket_, reply.reason)}};
    }
    auto answer = nlohmann::json::parse(reply.body, nullptr, false);
    if (!answer.is_object()) {
        return tl::unexpected{Problem{true, fmt::format("{}: the answer is no JSON", socket_)}};
    }
    if (reply.status != ok) {
        return tl::unexpected{problem_of(answer)};
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
