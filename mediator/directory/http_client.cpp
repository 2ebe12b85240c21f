// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/directory/http_client.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace vrdma::directory {
namespace {

using Clock = std::chrono::steady_clock;

// Keepalive probes notice a peer that has gone, although a watch sends nothing. libcurl before 8.9
// has no option for their number.
int notice_the_dead(void* /*client*/, curl_socket_t socket, curlsocktype /*purpose*/) noexcept {
    const auto set = [socket](int level, int name, int value) {
        ::setsockopt(socket, level, name, &value, sizeof(value));
    };
    constexpr int seconds = 5;
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, seconds);
    set(IPPROTO_TCP, TCP_KEEPINTVL, seconds);
    set(IPPROTO_TCP, TCP_KEEPCNT, 2);
    return CURL_SOCKOPT_OK;
}

std::string url_of(const Endpoint& to, const std::string& path) {
    const bool v6 = to.host.find(':') != std::string::npos;
    return fmt::format("{}://{}{}{}:{}{}", to.tls ? "https" : "http", v6 ? "[" : "", to.host,
                       v6 ? "]" : "", to.port, path);
}

// While this exists, a multi handle works on an easy one. Its end closes the connection of a
// request that is not complete.
class Work {
  public:
    Work(CURLM* multi, CURL* easy)
        : multi_{multi}, easy_{easy}, error_{::curl_multi_add_handle(multi, easy)} {}
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    ~Work() { ::curl_multi_remove_handle(multi_, easy_); }

    CURLMcode error() const { return error_; }

  private:
    CURLM* const multi_;
    CURL* const easy_;
    const CURLMcode error_;
};

} // namespace

// A request and its answer.
struct HttpClient::Exchange {
    void hear() { deadline = Clock::now() + limit; }

    const Receiver& receiver;
    const std::chrono::milliseconds limit;
    Clock::time_point deadline{};
    CURL* easy = nullptr;
    std::size_t head = 0;
    std::string complaint{};       // the beginning of a body whose status is not 200
    const char* refused = nullptr; // why we read no further
};

HttpClient::HttpClient(const EtcdOptions& options, std::chrono::milliseconds connect_limit)
    : connect_limit_{connect_limit} {
    // libcurl would do this at need, but not every build of it does so in two threads at once.
    static const CURLcode initialized = ::curl_global_init(CURL_GLOBAL_DEFAULT);
    error_ = initialized;
    multi_.reset(::curl_multi_init());
    easy_.reset(::curl_easy_init());
    if (!multi_ || !easy_) {
        error_ = CURLE_OUT_OF_MEMORY;
        return;
    }
    add_line("Content-Type: application/json");
    add_line("Expect:"); // or a long request would wait for permission
    set(CURLOPT_HTTPHEADER, lines_.get());
    set(CURLOPT_ERRORBUFFER, why_.data());
    set(CURLOPT_NOSIGNAL, 1L); // signals are the process's, not a thread's
    set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(connect_limit.count()));
    set(CURLOPT_DNS_CACHE_TIMEOUT, 0L); // a name is resolved again for each connection
    set_security(options);
    set_callbacks();
}

// Requests go only where the administrator wants them: the environment names no proxy, the answer
// no other URL, and the machine no other CA than the configured one.
void HttpClient::set_security(const EtcdOptions& options) {
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_PROXY, "");
    if (!options.ca_file.empty()) {
        set(CURLOPT_CAINFO, options.ca_file.c_str());
        set(CURLOPT_CAPATH, static_cast<const char*>(nullptr)); // not the default
    }
    if (!options.certificate_file.empty()) {
        set(CURLOPT_SSLCERT, options.certificate_file.c_str());
        set(CURLOPT_SSLKEY, options.private_key_file.c_str());
    }
}

void HttpClient::set_callbacks() {
    set(CURLOPT_SOCKOPTFUNCTION, &notice_the_dead);
    set(CURLOPT_PREREQFUNCTION, &connected);
    set(CURLOPT_HEADERFUNCTION, &hear_head);
    set(CURLOPT_WRITEFUNCTION, &hear_body);
}

template <typename Value>
void HttpClient::set(CURLoption option, Value value) {
    const CURLcode error = ::curl_easy_setopt(easy_.get(), option, value);
    error_ = error_ != CURLE_OK ? error_ : error;
}

void HttpClient::add_line(const char* line) {
    curl_slist* const longer = ::curl_slist_append(lines_.get(), line);
    if (longer == nullptr) {
        error_ = CURLE_OUT_OF_MEMORY;
        return;
    }
    static_cast<void>(lines_.release()); // it is part of the longer list
    lines_.reset(longer);
}

// The flag is set first: a request that has not seen it finds the wakeup when it waits.
void HttpClient::interrupt() {
    interrupted_ = true;
    if (multi_) {
        ::curl_multi_wakeup(multi_.get());
    }
}

Answer<> HttpClient::post(const Endpoint& to, const Request& request, const Receiver& receiver) {
    Exchange exchange{receiver, request.silence_limit};
    if (interrupted_) {
        return tl::unexpected<std::string>{"no request: it was interrupted"};
    }
    begin(to, request, exchange);
    if (error_ != CURLE_OK) {
        return tl::unexpected{"no request: " + describe(error_)};
    }
    const std::string failure = perform(exchange);
    long status = 0;
    ::curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    if (status != 0 && status != 200) {
        return tl::unexpected{
            fmt::format("it answers {}: {}", status,
                        exchange.complaint.empty() ? failure : exchange.complaint)};
    }
    return failure.empty() ? Answer<>{} : tl::unexpected{"no answer: " + failure};
}

// The time for an answer counts anew when the request can be sent.
void HttpClient::begin(const Endpoint& to, const Request& request, Exchange& exchange) {
    if (!easy_) {
        return;
    }
    exchange.easy = easy_.get();
    exchange.deadline = Clock::now() + connect_limit_ + exchange.limit;
    why_.front() = '\0';
    set(CURLOPT_URL, url_of(to, request.path).c_str());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_POSTFIELDS, request.body.data()); // it is not copied
    set(CURLOPT_PREREQDATA, &exchange);
    set(CURLOPT_HEADERDATA, &exchange);
    set(CURLOPT_WRITEDATA, &exchange);
}

// Returns why it failed; "": it did not.
std::string HttpClient::perform(Exchange& exchange) {
    using std::chrono::milliseconds;
    const Work work{multi_.get(), easy_.get()};
    CURLMcode error = work.error();
    while (error == CURLM_OK && !interrupted_) {
        int running = 0;
        error = ::curl_multi_perform(multi_.get(), &running);
        if (error != CURLM_OK) {
            break;
        }
        if (running == 0) {
            return exchange.refused != nullptr ? exchange.refused : result();
        }
        const auto left = std::chrono::ceil<milliseconds>(exchange.deadline - Clock::now());
        if (left <= milliseconds::zero()) {
            return fmt::format("silence for {} ms", exchange.limit.count());
        }
        error =
            ::curl_multi_poll(multi_.get(), nullptr, 0, static_cast<int>(left.count()), nullptr);
    }
    return interrupted_ ? "it was interrupted" : ::curl_multi_strerror(error);
}

std::string HttpClient::result() const {
    int others = 0;
    const CURLMsg* const message = ::curl_multi_info_read(multi_.get(), &others);
    if (message == nullptr || message->msg != CURLMSG_DONE) {
        return "it has no result";
    }
    return message->data.result == CURLE_OK ? "" : describe(message->data.result);
}

std::string HttpClient::describe(CURLcode error) const {
    return why_.front() != '\0' ? why_.data() : ::curl_easy_strerror(error);
}

// libcurl is written in C, so no exception can pass through it. The callbacks end the process
// instead, as an exception of the thread would.

// libcurl keeps each line. It limits the length of a line, but not the number of those behind the
// body.
std::size_t HttpClient::hear_head(const char* /*data*/, std::size_t size, std::size_t count,
                                  void* exchange) noexcept {
    Exchange& ours = *static_cast<Exchange*>(exchange);
    ours.head += size * count;
    if (ours.head > max_head) {
        ours.refused = "its head is too long";
        return CURL_WRITEFUNC_ERROR;
    }
    return size * count;
}

std::size_t HttpClient::hear_body(const char* data, std::size_t size, std::size_t count,
                                  void* exchange) noexcept {
    Exchange& ours = *static_cast<Exchange*>(exchange);
    ours.hear();
    const std::string_view piece{data, size * count};
    long status = 0;
    ::curl_easy_getinfo(ours.easy, CURLINFO_RESPONSE_CODE, &status);
    if (status == 200) {
        if (!ours.receiver(piece)) {
            ours.refused = "the rest of it is not wanted";
            return CURL_WRITEFUNC_ERROR;
        }
        return piece.size();
    }
    constexpr std::size_t longest = 200;
    ours.complaint += piece.substr(0, longest - ours.complaint.size());
    return ours.complaint.size() < longest ? piece.size() : CURL_WRITEFUNC_ERROR;
}

int HttpClient::connected(void* exchange, char* /*its_ip*/, char* /*our_ip*/, int /*its_port*/,
                          int /*our_port*/) noexcept {
    static_cast<Exchange*>(exchange)->hear();
    return CURL_PREREQFUNC_OK;
}

} // namespace vrdma::directory
