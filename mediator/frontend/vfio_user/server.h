// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// One device behind a socket. It has one client, or several, each with a function of its own at the
// same addresses.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mediator/base/log.h"
#include "mediator/frontend/vfio_user/client_slot.h"
#include "mediator/frontend/vfio_user/listening_socket.h"

namespace vrdma::vfio_user {

struct Pace {
    // How long a client's message may take to arrive.
    std::chrono::milliseconds timeout = ClientSlot::usual_timeout;
    // For how long no client is accepted after there was no descriptor left for one.
    std::chrono::milliseconds pause{500};
};

class Server {
  public:
    // The loop must outlive the server. Clients come by accept().
    static std::unique_ptr<Server> create(std::string name,
                                          std::vector<std::unique_ptr<Function>> functions,
                                          EventLoop& loop, const Pace& pace = {});
    // Clients also come through the socket.
    static Result<std::unique_ptr<Server>> listen(ListeningSocket socket, std::string name,
                                                  std::vector<std::unique_ptr<Function>> functions,
                                                  EventLoop& loop, const Pace& pace = {});
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server() = default;

    // Takes the other end of the socket as a client.
    void accept(UniqueFd socket);

    // One for each client that it can have.
    std::vector<Device*> devices() const;

    // How many clients it has.
    std::size_t clients();
    // Hangs up on them. Their drivers learn that their devices are gone. Nobody can connect any
    // more.
    void hang_up();

    // In the place of a control thread that has died: see client_slot.h.
    void hang_up_unanswered();

    // Sets the share of each client.
    void set_share(const hca::Share& share);

    // At the end of a vrdmad, in this order, each for all servers. After freeze(), no client can
    // connect. part() asks the clients to fetch their devices' states, and has `gone` called for
    // each client that hangs up.
    void freeze();
    void keep();
    void part(const std::function<void()>& gone);
    // Whether a client may still fetch its device's state.
    bool awaits() const;

  private:
    Server(std::string name, EventLoop& loop, const Pace& pace)
        : log_{std::move(name)}, loop_{loop}, pace_{pace} {}

    Result<> watch_connections();
    void on_connection();
    void close();
    void pause(std::errc why);

    DeviceLog log_;
    EventLoop& loop_;
    const Pace pace_;
    std::vector<std::unique_ptr<ClientSlot>> slots_;
    std::optional<ListeningSocket> socket_;
    EventLoop::Watch connections_;
    EventLoop::Timer resumes_;
};

} // namespace vrdma::vfio_user
