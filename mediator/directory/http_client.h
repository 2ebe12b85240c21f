// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Posts requests by HTTP/1.1, with or without TLS, by libcurl. Connections stay open for later
// requests. An answer may contain anything: what is kept of it is bounded. One thread uses a
// client.
#pragma once

#include <curl/curl.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "mediator/directory/answers.h"
#include "mediator/directory/etcd_options.h"

namespace vrdma::directory {

class HttpClient {
  public:
    // All lines of an answer that are not part of its body.
    static constexpr std::size_t max_head = 64 << 10; // bytes

    // Returns whether the rest of the answer is wanted.
    using Receiver = std::function<bool(std::string_view piece)>;

    // `connect_limit` is for all that precedes a request: resolving a name, TCP and TLS.
    HttpClient(const EtcdOptions& options, std::chrono::milliseconds connect_limit);
    HttpClient(const HttpClient&) = delete;
    HttpClient& operator=(const HttpClient&) = delete;
    ~HttpClient() = default;

    struct Request {
        std::string path;
        std::string body; // JSON
        // The request fails if no part of its answer's body arrives for this time.
        std::chrono::milliseconds silence_limit;
    };
    // Calls the receiver with each piece of the body if the status is 200. Any other status is an
    // error, and so is an answer that is not complete.
    Answer<> post(const Endpoint& to, const Request& request, const Receiver& receiver);

    // Any thread can call this: the request under way fails at once, and so does each later one.
    void interrupt();
    bool interrupted() const { return interrupted_; }

  private:
    struct Exchange;
    struct CloseEasy {
        void operator()(CURL* easy) const noexcept { ::curl_easy_cleanup(easy); }
    };
    struct CloseMulti {
        void operator()(CURLM* multi) const noexcept { ::curl_multi_cleanup(multi); }
    };
    struct FreeLines {
        void operator()(curl_slist* lines) const noexcept { ::curl_slist_free_all(lines); }
    };

    template <typename Value>
    void set(CURLoption option, Value value);
    void set_security(const EtcdOptions& options);
    void set_callbacks();
    void add_line(const char* line);

    void begin(const Endpoint& to, const Request& request, Exchange& exchange);
    std::string perform(Exchange& exchange);
    std::string describe(CURLcode error) const;
    std::string result() const;

    static std::size_t hear_head(const char* data, std::size_t size, std::size_t count,
                                 void* exchange) noexcept;
    static std::size_t hear_body(const char* data, std::size_t size, std::size_t count,
                                 void* exchange) noexcept;
    static int connected(void* exchange, char* its_ip, char* our_ip, int its_port,
                         int our_port) noexcept;

    const std::chrono::milliseconds connect_limit_;
    // libcurl writes to the first and reads the second, so these are destroyed last.
    std::array<char, CURL_ERROR_SIZE> why_{};
    std::unique_ptr<curl_slist, FreeLines> lines_;
    std::unique_ptr<CURLM, CloseMulti> multi_; // has the connections
    std::unique_ptr<CURL, CloseEasy> easy_;
    CURLcode error_ = CURLE_OK; // the first one of an option
    std::atomic<bool> interrupted_{false};
};

} // namespace vrdma::directory
