// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/management/http_server.h"

#include <fmt/format.h>
#include <microhttpd.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

namespace vrdma::management {
namespace {

constexpr std::size_t stream_block = 64 << 10;

int descriptor_of(MHD_Connection* connection) {
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

// A request while its body arrives.
struct Upload {
    std::string body;
    bool too_long = false;
};

bool says_too_long(MHD_Connection* connection) {
    const char* const text =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const std::string_view length = text != nullptr ? text : "0";
    std::uint64_t value = 0;
    const auto parsed = std::from_chars(length.data(), length.data() + length.size(), value);
    return parsed.ec != std::errc{} || value > HttpServer::max_body;
}

// "?force=true" may follow the path.
Request request_of(MHD_Connection* connection, const char* method, const char* url,
                   Upload& upload) {
    const char* const force =
        MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "force");
    Request request{method, url, std::move(upload.body)};
    request.force = force != nullptr && std::string_view{force} == "true";
    return request;
}

Response too_long() {
    return refuse(std::errc::message_size,
                  fmt::format("a body has at most {} bytes", HttpServer::max_body));
}

MHD_Response* message_of(const Response& response) {
    return MHD_create_response_from_buffer(
        response.body.size(), const_cast<char*>(response.body.data()), MHD_RESPMEM_MUST_COPY);
}

MHD_Result queue(MHD_Connection* connection, const Response& response, MHD_Response* message) {
    if (message == nullptr) {
        return MHD_NO;
    }
    MHD_add_response_header(message, MHD_HTTP_HEADER_CONTENT_TYPE, response.content_type);
    MHD_add_response_header(message, MHD_HTTP_HEADER_CONNECTION, "close");
    const MHD_Result queued = MHD_queue_response(connection, response.status, message);
    MHD_destroy_response(message);
    return queued;
}

} // namespace

// The library calls access() first without the body, then for each part of it, and at last without
// a part.
struct HttpServer::Callbacks {
    static MHD_Result access(void* self, MHD_Connection* connection, const char* url,
                             const char* method, const char* /*version*/, const char* data,
                             std::size_t* size, void** state) {
        if (*state == nullptr) {
            if (says_too_long(connection)) {
                const Response refusal = too_long();
                return queue(connection, refusal, message_of(refusal));
            }
            *state = new Upload;
            return MHD_YES;
        }
        auto& upload = *static_cast<Upload*>(*state);
        if (*size > 0) {
            upload.too_long = upload.too_long || *size > max_body - upload.body.size();
            upload.body.append(data, upload.too_long ? 0 : *size);
            *size = 0;
            return MHD_YES;
        }
        auto& server = *static_cast<HttpServer*>(self);
        const auto known = server.connections_.find(descriptor_of(connection));
        if (known == server.connections_.end()) {
            return MHD_NO;
        }
        const Response response =
            upload.too_long
                ? too_long()
                : server.answer_(request_of(connection, method, url, upload), known->second.client);
        known->second.stream = response.stream;
        return queue(connection, response,
                     response.stream ? stream_of(server, connection) : message_of(response));
    }

    // A chunk at a time, so that the client can tell the end from an error.
    static MHD_Response* stream_of(HttpServer& server, MHD_Connection* connection) {
        MHD_Response* const message = MHD_create_response_from_callback(
            MHD_SIZE_UNKNOWN, stream_block, &read, new Reading{server, connection},
            [](void* reading) { delete static_cast<Reading*>(reading); });
        if (message != nullptr) {
            MHD_add_response_header(message, MHD_HTTP_HEADER_TRANSFER_ENCODING, "chunked");
        }
        return message;
    }

    struct Reading {
        HttpServer& server;
        MHD_Connection* connection;
    };

    static ssize_t read(void* state, std::uint64_t /*position*/, char* room, std::size_t size) {
        const auto& reading = *static_cast<Reading*>(state);
        return reading.server.read_stream(reading.connection, {room, size});
    }

    static void complete(void* /*self*/, MHD_Connection* /*connection*/, void** state,
                         MHD_RequestTerminationCode /*why*/) {
        delete static_cast<Upload*>(*state);
        *state = nullptr;
    }

    // Is called before the descriptor is closed.
    static void notify(void* self, MHD_Connection* connection, void** /*context*/,
                       MHD_ConnectionNotificationCode code) {
        if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
            static_cast<HttpServer*>(self)->connections_.erase(descriptor_of(connection));
        }
    }

    // The path is decoded word by word, later.
    static std::size_t keep(void* /*self*/, MHD_Connection* /*connection*/, char* text) {
        return std::string_view{text}.size();
    }

    static void be_silent(void* /*self*/, const char* /*format*/, va_list /*arguments*/) {}
};

std::unique_ptr<HttpServer> HttpServer::create(Answer answer, std::chrono::milliseconds limit) {
    std::unique_ptr<HttpServer> server{new HttpServer{std::move(answer), limit}};
    HttpServer* const self = server.get();
    server->daemon_ = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME, 0,
        nullptr, nullptr, &Callbacks::access, self, MHD_OPTION_EXTERNAL_LOGGER,
        &Callbacks::be_silent, self, MHD_OPTION_NOTIFY_COMPLETED, &Callbacks::complete, self,
        MHD_OPTION_NOTIFY_CONNECTION, &Callbacks::notify, self, MHD_OPTION_UNESCAPE_CALLBACK,
        &Callbacks::keep, self, MHD_OPTION_CONNECTION_LIMIT, max_connections, MHD_OPTION_END);
    return server->daemon_ != nullptr ? std::move(server) : nullptr;
}

HttpServer::~HttpServer() {
    if (daemon_ != nullptr) {
        wake_streams(); // the library cannot stop while a connection is suspended
        MHD_stop_daemon(daemon_);
    }
}

void HttpServer::add(UniqueFd connection, Client client) {
    make_room_for(client);
    sockaddr_un nowhere{}; // so that the library sets no options of TCP
    nowhere.sun_family = AF_UNIX;
    const int fd = connection.release(); // the library closes it, also if it fails
    connections_[fd] = {client, Clock::now() + limit_, {}};
    if (MHD_add_connection(daemon_, fd, reinterpret_cast<const sockaddr*>(&nowhere),
                           sizeof(nowhere)) != MHD_YES) {
        connections_.erase(fd);
    }
}

// The library closes it in the next run().
void HttpServer::make_room_for(Client client) {
    unsigned count = 0;
    auto oldest = connections_.end();
    for (auto each = connections_.begin(); each != connections_.end(); ++each) {
        if (each->second.client == client) {
            ++count;
            const bool older =
                oldest == connections_.end() || each->second.end < oldest->second.end;
            oldest = older ? each : oldest;
        }
    }
    if (count >= max_of_client) {
        ::shutdown(oldest->first, SHUT_RDWR);
    }
}

int HttpServer::fd() const {
    return MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD)->listen_fd;
}

void HttpServer::run() {
    if (Clock::now() >= next_wake_) {
        wake_streams();
    }
    MHD_run(daemon_);
    hang_up_on_the_late();
}

// The library calls it while the client takes what there is.
std::ptrdiff_t HttpServer::read_stream(MHD_Connection* connection, std::span<char> room) {
    Connection& open = connections_.at(descriptor_of(connection));
    if (open.gone) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    open.end = Clock::now() + stream_limit * limit_;
    const std::size_t size = open.stream->read(room);
    if (size != 0) {
        return static_cast<std::ptrdiff_t>(size);
    }
    if (open.stream->ended()) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    MHD_suspend_connection(connection);
    open.suspended = connection;
    next_wake_ = std::min(next_wake_, Clock::now() + stream_interval);
    return 0;
}

// The library does not look at suspended connections. So it does not find out that a client has
// gone before there is something to send.
void HttpServer::wake_streams() {
    next_wake_ = Clock::time_point::max();
    for (auto& [fd, connection] : connections_) {
        if (MHD_Connection* const suspended = std::exchange(connection.suspended, nullptr)) {
            pollfd client{fd, POLLRDHUP, 0};
            connection.gone = ::poll(&client, 1, 0) > 0;
            connection.stream->wake();
            MHD_resume_connection(suspended);
        }
    }
}

// The library then finds the end of the connection.
void HttpServer::hang_up_on_the_late() {
    const auto now = Clock::now();
    for (const auto& [fd, connection] : connections_) {
        if (connection.end <= now) {
            ::shutdown(fd, SHUT_RDWR);
        }
    }
}

std::optional<std::chrono::milliseconds> HttpServer::next() const {
    using std::chrono::milliseconds;
    std::optional<milliseconds> next;
    const auto now = Clock::now();
    if (next_wake_ != Clock::time_point::max()) {
        next = std::chrono::ceil<milliseconds>(std::max(next_wake_, now) - now);
    }
    for (const auto& [fd, connection] : connections_) {
        const auto left = std::chrono::ceil<milliseconds>(std::max(connection.end, now) - now);
        next = std::min(next.value_or(left), left);
    }
    MHD_UNSIGNED_LONG_LONG wanted = 0;
    if (MHD_get_timeout(daemon_, &wanted) == MHD_YES) {
        const milliseconds soon{static_cast<milliseconds::rep>(wanted)};
        next = std::min(next.value_or(soon), soon);
    }
    return next;
}

} // namespace vrdma::management
