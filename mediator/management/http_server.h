// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// HTTP on connections that are given to it (libmicrohttpd), on the thread that calls run(). Each
// connection serves one request. Its client has a limited time for that, and a user has a limited
// number of connections, so a client that hangs costs others nothing.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "mediator/base/unique_fd.h"
#include "mediator/management/routes.h"

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
    };
    struct Callbacks; // of the library

    HttpServer(Answer answer, std::chrono::milliseconds limit)
        : answer_{std::move(answer)}, limit_{limit} {}
    void hang_up_on_the_late();
    void make_room_for(Client client);

    const Answer answer_;
    const std::chrono::milliseconds limit_;
    MHD_Daemon* daemon_ = nullptr;
    std::map<int, Connection> connections_; // by their descriptors
};

} // namespace vrdma::management
