// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// HTTP on connections that are given to it (libmicrohttpd), on the thread that calls run(). Each
// connection serves one request. Its client has a limited time for that, and a user has a limited
// number of connections, so a client that hangs costs others nothing. A client of a stream has
// longer, and that time begins anew whenever it has taken something.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "mediator/base/unique_fd.h"
#include "mediator/management/routes.h"

struct MHD_Connection;
struct MHD_Daemon;

namespace vrdma::management {

class HttpServer {
  public:
    using Clock = std::chrono::steady_clock;
    // The user of this host who has connected. None: somebody of the network.
    using Client = std::optional<uid_t>;
    using Answer = std::function<Response(Request request, Client client)>;

    static constexpr std::size_t max_body = 64 << 10;
    static constexpr unsigned max_connections = 128;
    static constexpr unsigned max_of_client = 16;
    static constexpr std::chrono::milliseconds usual_limit{5000};
    static constexpr int stream_limit = 12;                         // times the limit of others
    static constexpr std::chrono::milliseconds stream_interval{10}; // between calls of wake()

    // None: the library cannot start.
    static std::unique_ptr<HttpServer> create(Answer answer,
                                              std::chrono::milliseconds limit = usual_limit);
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;
    ~HttpServer();

    // Whether there is room for another connection.
    bool has_room() const { return connections_.size() < max_connections; }
    // If its client has too many, hangs up on the oldest of them. The network is one client.
    void add(UniqueFd connection, Client client);

    // Readable: there is work for run().
    int fd() const;
    void run();
    // When run() has work in any case: 0 means now.
    std::optional<std::chrono::milliseconds> next() const;

  private:
    struct Connection {
        Client client;
        Clock::time_point end;
        std::shared_ptr<Stream> stream{};
        MHD_Connection* suspended = nullptr; // until there may be more of the stream
        bool gone = false;                   // its client, who had a stream
    };
    struct Callbacks; // of the library

    HttpServer(Answer answer, std::chrono::milliseconds limit)
        : answer_{std::move(answer)}, limit_{limit} {}
    void hang_up_on_the_late();
    std::ptrdiff_t read_stream(MHD_Connection* connection, std::span<char> room);
    void wake_streams();
    void make_room_for(Client client);

    const Answer answer_;
    const std::chrono::milliseconds limit_;
    MHD_Daemon* daemon_ = nullptr;
    std::map<int, Connection> connections_;                  // by their descriptors
    Clock::time_point next_wake_ = Clock::time_point::max(); // of streams, if there are any
};

} // namespace vrdma::management
