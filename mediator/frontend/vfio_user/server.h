// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// One device behind a socket. It has one client, or several, each with a function of its own at the
// same addresses.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mediator/base/log.h"
#include "mediator/frontend/vfio_user/listening_socket.h"
#include "mediator/frontend/vfio_user/seat.h"

namespace vrdma::vfio_user {

struct Pace {
    // How long a client's message may take to come.
    std::chrono::milliseconds patience = Seat::usual_patience;
    // Nobody is accepted for so long after there was no descriptor left for a client.
    std::chrono::milliseconds pause{500};
};

class Server {
  public:
    // The loop outlives the server. Clients come by accept().
    static std::unique_ptr<Server> create(std::string name,
                                          std::vector<std::unique_ptr<Function>> functions,
                                          EventLoop& loop, const Pace& pace = {});
    // And through that socket.
    static Result<std::unique_ptr<Server>> listen(ListeningSocket socket, std::string name,
                                                  std::vector<std::unique_ptr<Function>> functions,
                                                  EventLoop& loop, const Pace& pace = {});
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server() = default;

    // The other end of the socket is a client.
    void accept(UniqueFd socket);

    // Of each client.
    void set_share(const hca::Share& share);

  private:
    Server(std::string name, EventLoop& loop, const Pace& pace)
        : log_{std::move(name)}, loop_{loop}, pace_{pace} {}

    Result<> watch_connections();
    void on_connection();
    void pause(std::errc why);

    DeviceLog log_;
    EventLoop& loop_;
    const Pace pace_;
    std::vector<std::unique_ptr<Seat>> seats_;
    std::optional<ListeningSocket> socket_;
    EventLoop::Watch connections_;
    EventLoop::Timer resumes_;
};

} // namespace vrdma::vfio_user
