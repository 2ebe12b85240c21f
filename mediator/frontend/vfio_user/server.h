// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// One device behind a socket: at most one client at a time. When it goes, all that it held is freed
// and the next one finds a function that was reset.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "mediator/base/log.h"
#include "mediator/frontend/vfio_user/channel.h"
#include "mediator/frontend/vfio_user/session.h"

namespace vrdma::vfio_user {

struct SocketOptions {
    std::string path;
    uid_t owner = 0;
    gid_t group = 0;
    mode_t mode = 0600;
};

class Server {
  public:
    // The loop outlives the server. Clients come by accept().
    static std::unique_ptr<Server> create(std::string name, std::unique_ptr<Function> function,
                                          EventLoop& loop);
    // And through a socket of that path. A socket that nobody listens on any more is replaced.
    static Result<std::unique_ptr<Server>> listen(const SocketOptions& options, std::string name,
                                                  std::unique_ptr<Function> function,
                                                  EventLoop& loop);
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server();

    // The other end of the socket is a client.
    void accept(UniqueFd socket);

  private:
    struct Client {
        Channel channel;
        Session session;
        EventLoop::Watch watch;
        bool awaits_room = false; // for what it has not taken, instead of its next command
    };

    Server(std::string name, std::unique_ptr<Function> function, EventLoop& loop)
        : log_{std::move(name)}, function_{std::move(function)}, loop_{loop} {}

    void on_connection();
    void on_client();
    Result<> serve();
    Result<> execute(Message message);
    Result<> watch_client();
    void drop(std::errc why);

    DeviceLog log_;
    std::unique_ptr<Function> function_;
    EventLoop& loop_;
    std::string path_;
    UniqueFd socket_;
    EventLoop::Watch connections_;
    std::optional<Client> client_;
};

} // namespace vrdma::vfio_user
