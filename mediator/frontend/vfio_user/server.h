// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// One device behind a socket. It has one client, or several, each with a function of its own at the
// same addresses.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "mediator/base/log.h"
#include "mediator/frontend/vfio_user/seat.h"

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
    static std::unique_ptr<Server> create(std::string name,
                                          std::vector<std::unique_ptr<Function>> functions,
                                          EventLoop& loop);
    // And through a socket of that path. A socket that nobody listens on any more is replaced.
    static Result<std::unique_ptr<Server>> listen(const SocketOptions& options, std::string name,
                                                  std::vector<std::unique_ptr<Function>> functions,
                                                  EventLoop& loop);
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server();

    // The other end of the socket is a client.
    void accept(UniqueFd socket);

  private:
    explicit Server(std::string name) : log_{std::move(name)} {}

    void on_connection();

    DeviceLog log_;
    std::vector<std::unique_ptr<Seat>> seats_;
    std::string path_;
    UniqueFd socket_;
    EventLoop::Watch connections_;
};

} // namespace vrdma::vfio_user
